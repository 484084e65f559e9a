"""What a program asks the platform, as plain data, and who answers: the seam between the two.

A launch of a finetuning run is

    {"name": "support-sft",
     "dataset": {"format": "benchmax-sft-v1", "path": "datasets/…/train.jsonl", "digest": "…", "rows": 2},
     "args": {"num_epochs": 1, …},
     "model": "smollm2-135m",               left out when it is the platform's choice
     "eval": {"rows": 1, "digest": "…"}}    left out without held-out rows

Keys of the answers are those of the platform's HTTP API.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NotRequired, Protocol, TypedDict

from castform.platform.assets import UploadedSftAssets
from castform.platform.training_config import SftTrainingConfig

Answer = dict[str, Any]  # JSON
Scalars = dict[str, list[dict[str, Any]]]  # name to points {"step", "value"}


class DatasetPart(TypedDict):
    format: str
    path: str
    digest: NotRequired[str]
    rows: NotRequired[int]


class EvalPart(TypedDict):
    rows: int
    digest: str


class SftLaunch(TypedDict):
    """One launch, as it goes over the wire."""

    name: str
    dataset: DatasetPart
    args: Mapping[str, Any]
    model: NotRequired[str]
    eval: NotRequired[EvalPart]


class TrainerTransport(Protocol):
    """Takes a TrainerClient's requests to whoever answers them. Every method raises TrainerError."""

    def launch_sft_run(self, launch: SftLaunch) -> Answer:
        """Start a run; {"runId", "warnings"}. JobLaunchError when nothing was started."""
        ...

    def list_runs(self, *, include_config: bool) -> list[Answer]: ...

    def get_run(self, run_id: str, *, include_config: bool) -> Answer: ...

    def get_run_details(self, run_id: str) -> Answer: ...

    def get_run_events(self, run_id: str) -> list[Answer]: ...

    def get_run_scalars(self, run_id: str, mode: str | None) -> Scalars: ...

    def cancel_run(self, run_id: str) -> Answer: ...

    def close(self) -> None: ...


def make_sft_launch(assets: UploadedSftAssets, name: str, config: SftTrainingConfig) -> SftLaunch:
    """Return a launch. ValueError for a blank name, and for eval_interval where nothing is held out."""
    _check_name(name)
    if config.eval_interval is not None and assets.eval_digest is None:
        raise ValueError("eval_interval is set, but the assets have no held-out rows to measure on")
    launch: SftLaunch = {
        "name": name,
        "dataset": {
            "format": assets.dataset_format,
            "path": assets.dataset_path,
            "digest": assets.content_digest,
            "rows": assets.row_count,
        },
        "args": config.to_args(),
    }
    if config.model is not None:
        launch["model"] = config.model
    if assets.eval_digest is not None and assets.eval_row_count is not None:
        launch["eval"] = {"rows": assets.eval_row_count, "digest": assets.eval_digest}
    return launch


def check_sft_launch(launch: Mapping[str, Any]) -> None:
    """Raise ValueError for a launch that no client of ours sends: it may come from anywhere."""
    _check_keys("the launch", launch, ("name", "dataset", "args"), more=("model", "eval"))
    _check_name(launch["name"])
    _check_keys("dataset", launch["dataset"], ("format", "path"), more=("digest", "rows"))
    known = tuple(field.name for field in fields(SftTrainingConfig) if field.name != "model")
    _check_keys("args", launch["args"], (), more=known)
    config = SftTrainingConfig(**launch["args"], model=launch.get("model"))
    for key in ("path", "format"):
        _check_type(f"dataset.{key}", launch["dataset"][key], str)
    _check_type("dataset.digest", launch["dataset"].get("digest", ""), str)
    if "eval" in launch:
        _check_keys("eval", launch["eval"], ("rows", "digest"))
        _check_type("eval.digest", launch["eval"]["digest"], str)
    elif config.eval_interval is not None:
        raise ValueError("eval_interval is set, but there are no held-out rows to measure on")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise ValueError("name must be a line of text that is not blank")


def _check_keys(what: str, value: object, needed: Sequence[str], *, more: Sequence[str] = ()) -> None:
    """Raise ValueError unless a value is an object with the keys it needs and none but those and `more`."""
    _check_type(what, value, Mapping)
    assert isinstance(value, Mapping)
    missing = [key for key in needed if key not in value]
    unknown = [str(key) for key in value if key not in (*needed, *more)]
    if missing:
        raise ValueError(f"{what} has no {', '.join(missing)}")
    if unknown:
        raise ValueError(f"{what} may not have {', '.join(unknown)}")


def _check_type(what: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{what} must be {'a text' if kind is str else 'an object'}")
