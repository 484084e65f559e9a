"""Command lines, read by argparse, with faults as errors of castform's own."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import NoReturn

from castform.errors import UsageError


class Parser(argparse.ArgumentParser):
    """An argument parser whose faults are errors like all others."""

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError, with the closest choice where a word is wrong."""
        wrong = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        if wrong:
            close = suggest_word(wrong[1], [choice.strip(" '") for choice in wrong[2].split(",")])
            if close:
                raise UsageError(f"{self.prog} has no {wrong[1]!r}", hint=f"did you mean {close!r}?")
        raise UsageError(message, hint=f"`{self.prog} --help` shows how it is used")


def suggest_word(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is closest to a wrong one; None where none is close."""
    import difflib

    return next(iter(difflib.get_close_matches(word, list(known), n=1)), None)
