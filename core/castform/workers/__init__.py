"""Environments in processes of their own, over a small protocol of JSON frames."""
