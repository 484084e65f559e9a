"""What castform reads: names and strings, nothing heavy imported."""

from __future__ import annotations

from castform.plugins import EnvironmentSpec, hookimpl

SUMMARIES = {
    "default": (
        "make_shell",
        "Work with files by shell commands in a container; a check outside looks at the result",
    ),
    "easy": ("make_easy", "One command does it: what a small model can begin with"),
    "medium": ("make_medium", "A filter, a count or an edit, in up to three replies"),
    "hard": ("make_hard", "Several files, columns or steps, in up to five replies"),
}


@hookimpl
def register_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name=name,
            summary=summary,
            factory=f"castform_env_shell.environment:{factory}",
            config="castform_env_shell.config:ShellConfig",
            tags=("multi-turn", "sandbox", "generated"),
        )
        for name, (factory, summary) in SUMMARIES.items()
    ]
