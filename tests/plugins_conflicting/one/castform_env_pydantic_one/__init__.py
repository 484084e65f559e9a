"""An environment that works with pydantic 1 alone."""
