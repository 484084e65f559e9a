"""The OpenAI-compatible endpoint that records the exact tokens behind every call."""
