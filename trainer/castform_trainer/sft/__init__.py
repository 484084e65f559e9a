"""Supervised finetuning: from a dataset of conversations to trained weights."""
