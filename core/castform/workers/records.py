"""Log records of a worker process, logged again on the host beside the rollout that they belong to."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any

from benchmax.envs.logging import group_context, rollout_context


def log_records(records: Iterable[Mapping[str, Any]]) -> None:
    """Log records under the loggers that they were made by."""
    for record in records:
        target = logging.getLogger(record["name"])
        if not target.isEnabledFor(record["level"]):
            continue
        with ExitStack() as stack:
            if record["rollout"] is not None:
                stack.enter_context(rollout_context(record["rollout"]))
            if record["group"]:
                stack.enter_context(group_context(record["group"]))
            target.log(record["level"], "%s", record["text"])
