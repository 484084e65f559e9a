"""Reinforcement learning: rollouts to advantages to a packed batch to a new adapter."""
