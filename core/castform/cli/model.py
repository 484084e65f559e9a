"""`castform model`: fetch small models and list what is on disk."""

from __future__ import annotations

import argparse
import pkgutil
from pathlib import Path
from typing import Any

from castform.cli.output import print_json, print_note, print_text
from castform.home import models_folder

_PULL = "castform_trainer.model_pull:pull_model"
_PULLABLE = "castform_trainer.model_pull:PULLABLE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `model pull` and `model list`."""
    commands = parser.add_subparsers(dest="model_command", required=True, metavar="COMMAND")
    pull = commands.add_parser("pull", help="download a model into CASTFORM_HOME and convert it")
    pull.add_argument("name", help="for example smollm2-135m")
    pull.add_argument("--force", action="store_true", help="fetch again even if it is there")
    listing = commands.add_parser("list", help="models on disk and models that can be pulled")
    listing.add_argument("--json", action="store_true", help="one JSON list on stdout")


def run(args: argparse.Namespace) -> int:
    """Run the command that was parsed."""
    if args.model_command == "pull":
        return _pull(args.name, args.force)
    return _list(args.json)


def _pull(name: str, force: bool) -> int:
    pull_model = pkgutil.resolve_name(_PULL)
    folder: Path = pull_model(name, force=force, say=print_note)
    print_text(str(folder))
    return 0


def _list(as_json: bool) -> int:
    models = list_models()
    if as_json:
        print_json(models)
        return 0
    if not models:
        print_note("no models")
    for model in models:
        state = f"{model['megabytes']:>6} MB" if model["pulled"] else "not pulled"
        print_text(f"{model['name']:<24}{state:<14}{model['summary']}")
    return 0


def list_models() -> list[dict[str, Any]]:
    """Return name, summary, pulled, megabytes and path of every model on disk or to be pulled."""
    pullable = pkgutil.resolve_name(_PULLABLE)
    folders = {path.name: path for path in sorted(models_folder().glob("[!.]*")) if path.is_dir()}
    return [
        {
            "name": name,
            "summary": pullable[name].summary if name in pullable else "",
            "pulled": name in folders,
            "megabytes": _megabytes(folders[name]) if name in folders else None,
            "path": str(folders[name]) if name in folders else None,
        }
        for name in sorted({*folders, *pullable})
    ]


def _megabytes(folder: Path) -> int:
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6)
