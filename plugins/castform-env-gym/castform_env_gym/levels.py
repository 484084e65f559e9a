"""`castform x gym levels`."""

from __future__ import annotations

import argparse
import sys

from castform.plugins import UsageError
from castform_env_gym.config import find_dataset
from castform_env_gym.curricula import describe_levels, list_attributes
from castform_env_gym.names import DATASETS


def show(args: argparse.Namespace) -> int:
    """Print a dataset's levels; without one, every dataset with its number of levels."""
    if args.dataset is not None:
        try:
            name = find_dataset(args.dataset)
        except ValueError as error:
            raise UsageError(str(error), hint="`castform env list gym` shows them all") from error
        sys.stdout.write(describe_levels(name) + "\n")
        return 0
    for name in DATASETS:
        levels = max((len(each.levels) for each in list_attributes(name)), default=0)
        sys.stdout.write(f"{name:<28}{f'0 to {levels - 1}' if levels else 'none'}\n")
    return 0
