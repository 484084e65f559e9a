"""Ordered, finite collections of examples."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Generic, overload

from benchmax.envs.shared_types import Example, JsonRow, PayloadT
from benchmax.envs.special_files import is_special_file


class Dataset(Sequence[Example[PayloadT]], Generic[PayloadT]):
    """A snapshot of examples, in the order given. The payloads themselves are not copied."""

    def __init__(self, examples: Iterable[Example[PayloadT]]) -> None:
        self._examples = tuple(examples)
        for index, example in enumerate(self._examples):
            if not isinstance(example, Example):
                raise TypeError(f"dataset item {index} is {type(example).__name__}, not an Example")

    def __len__(self) -> int:
        return len(self._examples)

    @overload
    def __getitem__(self, index: int) -> Example[PayloadT]: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Example[PayloadT], ...]: ...
    def __getitem__(self, index: int | slice) -> Example[PayloadT] | tuple[Example[PayloadT], ...]:
        return self._examples[index]

    def __iter__(self) -> Iterator[Example[PayloadT]]:
        return iter(self._examples)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} examples)"


class JsonlDataset(Dataset[PayloadT]):
    """The examples of a JSONL file: one JSON object a line, blank lines skipped.

    `row_to_example` turns a decoded row into an Example; what it raises carries a note
    with the file and line. Reading stops once `max_examples` are made.
    ValueError: a line is not JSON, or the path is a pipe or a device. TypeError: a line is not
    an object, or not an Example came back.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        row_to_example: Callable[[JsonRow], Example[PayloadT]],
        max_examples: int | None = None,
    ) -> None:
        validate_max_examples(max_examples)
        super().__init__(_read_examples(Path(path), row_to_example, max_examples))


def validate_max_examples(max_examples: int | None) -> int | None:
    """Return the limit when it is None or a positive integer. ValueError otherwise; True is not 1 here."""
    if max_examples is None:
        return None
    if isinstance(max_examples, bool) or not isinstance(max_examples, int) or max_examples < 1:
        raise ValueError(f"max_examples must be a positive integer or None, not {max_examples!r}")
    return max_examples


def _read_examples(
    path: Path, row_to_example: Callable[[JsonRow], Example[PayloadT]], max_examples: int | None
) -> Iterator[Example[PayloadT]]:
    made = 0
    if is_special_file(path):
        raise ValueError(f"{path} is a pipe or a device; a dataset needs a regular file")
    with path.open(encoding="utf-8-sig", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            row = _decoded_row(line, where=f"{path}:{number}")
            try:
                example = row_to_example(row)
            except Exception as error:  # the author's own function: any exception, with its place added
                error.add_note(f"while loading {path}:{number}")
                raise
            if not isinstance(example, Example):
                raise TypeError(
                    f"{path}:{number}: row_to_example returned {type(example).__name__}, not an Example"
                )
            yield example
            made += 1
            if made == max_examples:
                return


def _decoded_row(line: str, *, where: str) -> JsonRow:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} contains invalid JSON: {error}") from error
    if not isinstance(row, dict):
        raise TypeError(f"{where} must be a JSON object, not {type(row).__name__}")
    return row
