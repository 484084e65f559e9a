"""Agent programs, made to run inside a box on one task."""
