"""An environment that works with pydantic 2 alone."""
