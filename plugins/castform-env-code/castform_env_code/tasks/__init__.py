"""All tasks, by name."""

from __future__ import annotations

from functools import cache

from castform_env_code.tasks import easy, hard, medium
from castform_env_code.tasks.task import Task, collect_tasks


@cache
def load_tasks() -> dict[str, Task]:
    """Return every task by its name, easiest first."""
    tasks = [made for module in (easy, medium, hard) for made in collect_tasks(vars(module))]
    return {made.name: made for made in tasks}
