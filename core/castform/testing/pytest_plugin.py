"""The suite's options, where pytest reads them: `--castform-env ID` and what goes with it.

An installed castform registers it; elsewhere it is `-p castform.testing.pytest_plugin`.
"""

from __future__ import annotations

import pytest

SPLITS = ("train", "eval")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("castform", "conformance of a castform environment")
    group.addoption(
        "--castform-env", metavar="ID", help="the environment: plugin/name, or a path to a .py file"
    )
    group.addoption(
        "--castform-arg",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an argument of the environment, as TOML; may be given again",
    )
    group.addoption("--castform-base-dir", metavar="DIR", help="where relative dataset paths start")
    group.addoption("--castform-split", choices=SPLITS, default="train", help="the split to play")
    group.addoption("--castform-examples", type=int, metavar="N", help="play the first N examples")
    group.addoption("--castform-rule-seconds", type=float, metavar="S", help="most seconds of one rule (120)")
    group.addoption(
        "--castform-accept",
        metavar="RULE=REASON",
        action="append",
        default=[],
        help="a rule that may be broken, and why; may be given again",
    )
