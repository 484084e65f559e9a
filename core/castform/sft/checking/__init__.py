"""What a trainer wants to know about a file of conversations before training on it; without torch.

places.py      issues grouped by code, with the way out
contents.py    roles, weights and tools in use
wordings.py    what counts as the same conversation, and the words that near copies share
sketches.py    MinHash sketches and the candidates that they give
copies.py      exact and near copies within a file and between two
report.py      all of it for one call, and as JSON values
"""
