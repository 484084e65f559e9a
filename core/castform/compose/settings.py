"""What may stand in `[environment]` when it names parts instead of an id.

Simple things are short in TOML: an id, a table of weights, a text. Each short form is
written out here before pydantic looks at it, so that there is one form behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from castform.section import Section

PATH_SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".parquet", ".txt")
"""A dataset that ends so is meant as a file, even one that cannot be read."""
ROLES = ("system", "user", "assistant")


class Part(Section):
    """What every part has."""

    at: str = Field("", exclude=True, repr=False)
    """Its place in the TOML, for messages. Filled in, never given."""
    id: str = ""
    """`plugin/name`, as `castform plugins PLUGIN` shows it."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the part, the same for every row."""


class DatasetPart(Part):
    """A registered dataset, a JSONL file or rows: one of the three."""

    path: str = ""
    """A JSONL file, one row a line; a relative path starts at the TOML."""
    rows: tuple[dict[str, Any], ...] = ()
    """The rows themselves."""

    @model_validator(mode="after")
    def _check_source(self) -> DatasetPart:
        given = [name for name in ("id", "path", "rows") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(
                f"give one of id, path and rows, not {' and '.join(given)}" if given else "it has no rows"
            )
        if self.args and not self.id:
            raise ValueError(f"args are for a registered dataset, not for {given[0]}")
        return self


class ToolPart(Part):
    """A registered tool."""

    id: str = Field(min_length=1)
    name: str = ""
    """What the model calls it. Unset: the tool's own name."""


class RewardPart(Part):
    """A registered reward function."""

    id: str = Field(min_length=1)
    name: str = ""
    """Of the component. Unset: the id."""
    weight: float = 1.0
    """In the score. 0: a metric, which is stored and shown and can never touch the score."""
    fields: dict[str, str] = Field(default_factory=dict)
    """Parameter of the function to the field of the row that fills it, where their names differ."""


class RubricPart(Part):
    """A registered rubric, or one in words."""

    name: str = ""
    """Of the component. Unset: the id, or `rubric_` and the title."""
    weight: float = 1.0
    """In the score. 0: a metric."""
    text: str = ""
    """What a good answer does, in words, instead of an id."""
    title: str = ""
    """Of a rubric in words. Unset: its text, shortened."""
    polarity: Literal["positive", "negative"] = "positive"
    """negative: the text describes a fault, and showing it earns less."""

    @model_validator(mode="after")
    def _check_source(self) -> RubricPart:
        if bool(self.id) == bool(self.text.strip()):
            raise ValueError("give an id or a text" if not self.id else "give an id or a text, not both")
        if self.id and (self.title or self.polarity != "positive"):
            raise ValueError("title and polarity are for a rubric in words; a registered one has its own")
        return self


class JudgePart(Section):
    """The model that scores by the rubrics."""

    model: str = Field(min_length=1)
    base_url: str = Field(min_length=1)
    """OpenAI-compatible, usually ending in /v1."""
    api_key_env: str = ""
    """Environment variable that holds the key. Unset: the server needs none."""
    timeout_seconds: float = Field(60.0, gt=0)
    """Most seconds for one verdict, retries included."""
    max_concurrency: int = Field(16, ge=1)
    """Most questions at a time."""


class PromptMessage(Section):
    """One message of the prompt; `{field}` stands for a field of the row."""

    role: Literal["system", "user", "assistant"]
    content: str = Field(min_length=1)


def write_out_dataset(value: Any, at: str) -> Any:  # whatever stands in the TOML
    """Return a dataset in its long form: a text is an id or a path, a list is the rows."""
    if isinstance(value, str):
        key = "path" if looks_like_path(value) else "id"
        return {key: value, "at": at}
    if isinstance(value, list | tuple):
        return {"rows": value, "at": at}
    return _at(value, at) if isinstance(value, Mapping) else value


def looks_like_path(text: str) -> bool:
    """Say whether a dataset's text means a file and not an id."""
    return text.lower().endswith(PATH_SUFFIXES) or text.startswith((".", "/", "~"))


def write_out_parts(value: Any, at: str) -> Any:  # whatever stands in the TOML
    """Return tools or rewards in their long form, a list of tables.

    A table of id to weight and a list with plain ids in it are the short forms.
    """
    if isinstance(value, Mapping):
        return [
            {"id": id, "weight": weight, "at": f'{at}."{id}"'}
            if not isinstance(weight, Mapping)
            else _at({"id": id, **weight}, f'{at}."{id}"')
            for id, weight in value.items()
        ]
    if not isinstance(value, list | tuple):
        return value
    return [_write_out_item(item, f"{at}[{place}]") for place, item in enumerate(value)]


def write_out_rubrics(value: Any, at: str) -> Any:  # whatever stands in the TOML
    """Return rubrics in their long form; a key or a text with a blank in it is a rubric in words."""
    parts = write_out_parts(value, at)
    if not isinstance(parts, list):
        return parts
    return [_rubric_in_words(part) for part in parts]


def _rubric_in_words(part: Any) -> Any:
    if isinstance(part, dict) and isinstance(id := part.get("id"), str) and " " in id and "text" not in part:
        return {**{key: value for key, value in part.items() if key != "id"}, "text": id}
    return part


def _write_out_item(item: Any, at: str) -> Any:
    if isinstance(item, str):
        return {"id": item, "at": at}
    return _at(item, at) if isinstance(item, Mapping) else item


def _at(part: Mapping[str, Any], at: str) -> dict[str, Any]:
    """Return a part's table with its place, which nobody else may give."""
    if "at" in part:
        raise ValueError(f"{at}: unknown key 'at'")
    return {**part, "at": at}


def write_out_prompt(value: Any) -> Any:  # whatever stands in the TOML
    """Return a prompt as a list of messages: a text is the user's, a table has system and user."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, Mapping):
        return value
    unknown = [key for key in value if key not in ROLES[:2]]
    if unknown:
        raise ValueError(
            f"unknown key {unknown[0]!r}; a prompt has system and user, or is a list of messages"
        )
    if "user" not in value:
        raise ValueError("the prompt has no user message")
    return [{"role": role, "content": value[role]} for role in ROLES[:2] if role in value]
