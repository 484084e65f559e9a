"""The command line that every client of the rollout bench has."""

from __future__ import annotations

import argparse


def read_arguments() -> argparse.Namespace:
    """Return base_url, rollouts and concurrency."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--rollouts", type=int, required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    return parser.parse_args()


def question(number: int) -> str:
    """Return the question of a rollout; the server's answer to all of them is 42."""
    return f"What is {number}+{number}?"
