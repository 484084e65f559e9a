"""Certify: can this environment be gamed, and can a model learn from it."""
