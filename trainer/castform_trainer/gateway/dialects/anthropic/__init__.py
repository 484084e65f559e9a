"""Anthropic Messages, as its SDKs and agent programs send them."""
