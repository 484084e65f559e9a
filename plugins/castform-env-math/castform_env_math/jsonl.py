"""Problems out of a user's JSONL: GSM8K's rows (`#### 12`), MATH's (`\\boxed{12}`), or plain answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmax.envs.special_files import is_special_file
from benchmax.rewards.answers.reading import last_box
from castform.plugins import ConfigError
from castform_env_math.config import JsonlConfig
from castform_env_math.problems import Split

QUESTION_FIELDS = ("question", "problem")
ANSWER_FIELDS = ("answer", "solution")
MAX_PLAIN_ANSWER_CHARS = 200
"""A longer answer with no box and no #### is a text that nothing can be compared with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One problem of the file."""

    question: str
    answer: str

    @property
    def id(self) -> str:
        return hashlib.sha256(_plain(self.question).encode()).hexdigest()[:16]


def load_rows(config: JsonlConfig, split: Split) -> list[Row]:
    """Return the problems of a split, in the order of the file, each question once.

    A question that is in `eval_path` is never one to train on, even where the other file has it
    too. ConfigError: a file that is missing, has no problem for this split, or a line that is
    not a problem.
    """
    rows = _unique(_read_rows(config.path, config))
    if config.eval_path is None:
        rows = [row for row in rows if _is_held_out(row, config.eval_share) == (split == "eval")]
    else:
        held_out = _unique(_read_rows(config.eval_path, config))
        ids = {row.id for row in held_out}
        rows = held_out if split == "eval" else [row for row in rows if row.id not in ids]
    if not rows:
        raise ConfigError(
            f"{config.eval_path or config.path} has no problems for the split {split!r}",
            hint="give more rows, or another eval_share or eval_path",
        )
    return rows[: config.train_examples if split == "train" else config.eval_examples]


def read_final_answer(text: str) -> str | None:
    """Return the answer of a worked solution: what it boxes last, or puts after ####; of a short one all of it."""
    box = last_box(text)
    if box is not None:
        return box.strip() or None
    _, mark, after = text.rpartition("####")
    if mark:
        return after.strip() or None
    plain = text.strip()
    return plain if plain and len(plain) <= MAX_PLAIN_ANSWER_CHARS else None


def _plain(question: str) -> str:
    return " ".join(question.split()).casefold()


def _unique(rows: Iterator[Row]) -> list[Row]:
    return list({row.id: row for row in rows}.values())


def _is_held_out(row: Row, share: float) -> bool:
    digest = hashlib.sha256(f"castform-env-math:jsonl:{_plain(row.question)}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def _read_rows(path: str, config: JsonlConfig) -> Iterator[Row]:
    try:
        if is_special_file(Path(path)):
            raise ValueError("it is a pipe or a device, not a regular file")
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # a name with a NUL in it, text that is not UTF-8
        raise ConfigError(
            f"the problems in {path!r} cannot be read: {error}",
            hint="path and eval_path start at the current directory, or give an absolute path",
        ) from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _read_row(line, config, where=f"{path}:{number}")


def _read_row(line: str, config: JsonlConfig, *, where: str) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where} is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise ConfigError(f"{where} is {type(row).__name__}, not a JSON object")
    question = _field(row, config.question_field, QUESTION_FIELDS, "question_field", where)
    solution = _field(row, config.answer_field, ANSWER_FIELDS, "answer_field", where)
    answer = read_final_answer(solution)
    if answer is None:
        raise ConfigError(
            f"{where}: no answer can be told from the solution {solution[:60]!r}…",
            hint="put it in \\boxed{} or after ####, or name the field that holds it with answer_field",
        )
    return Row(question=question, answer=answer)


def _field(row: dict[str, Any], name: str | None, usual: tuple[str, ...], setting: str, where: str) -> str:
    names = usual if name is None else (name,)
    for each in names:
        value = row.get(each)
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            continue
        if str(value).strip():
            return str(value).strip()
    raise ConfigError(
        f"{where} has no text in {' or '.join(names)}; its fields are {', '.join(map(str, row)) or 'none'}",
        hint=f"name the field with {setting}",
    )
