"""Supervised finetuning without torch: settings, conversion, checks."""
