"""What is told of a failed build."""

from __future__ import annotations

from castform.authoring.build_faults import MOST_CHARACTERS, TAIL_LINES, explain_build

INSTALLER = """\
* Creating isolated environment: venv+pip...
* Installing packages in isolated environment:
  - no-such-thing>=2
> /venv/bin/python -m pip install -r /tmp/build-requirements.txt
< ERROR: Could not find a version that satisfies the requirement no-such-thing>=2 (from versions: none)
< ERROR: No matching distribution found for no-such-thing>=2

Traceback (most recent call last):
subprocess.CalledProcessError: Command '['/venv/bin/python', '-m', 'pip']' returned non-zero exit status 1.

ERROR Command '['/venv/bin/python', '-m', 'pip']' returned non-zero exit status 1.
"""


def test_a_build_requirement_that_is_nowhere_is_named_and_not_the_command_that_failed() -> None:
    fault = explain_build(INSTALLER)
    assert fault.cause == "it requires no-such-thing>=2 to be built, which the package index does not have"
    assert fault.hint == "see [build-system] in pyproject.toml: requires"
    assert fault.details == [
        "ERROR: Could not find a version that satisfies the requirement no-such-thing>=2 (from versions: none)",
        "ERROR: No matching distribution found for no-such-thing>=2",
    ]


def test_build_requirements_that_conflict_are_named() -> None:
    fault = explain_build(
        "< ERROR: Cannot install a==1 and a==2 because these package versions have conflicts.\n"
    )
    assert fault.cause == "Cannot install a==1 and a==2 because these package versions have conflicts."
    assert fault.hint == "see [build-system] in pyproject.toml: requires"


def test_a_backend_that_cannot_be_imported_is_named_without_the_traceback() -> None:
    fault = explain_build(
        "Traceback (most recent call last):\n"
        "ModuleNotFoundError: No module named 'mine'\n"
        "ERROR Backend 'mine.build' is not available.\n"
    )
    assert (fault.cause, fault.details) == ("the build backend mine.build cannot be imported", [])
    assert fault.hint == "see [build-system] in pyproject.toml: build-backend"


def test_of_anything_else_the_last_error_is_told_with_the_end_of_the_output() -> None:
    lines = [f"line {number}" for number in range(TAIL_LINES)]
    output = "\n\n".join([*lines, "ValueError: " + "x" * MOST_CHARACTERS, "ERROR it failed"])
    fault = explain_build(output)
    assert fault.cause == ("ValueError: " + "x" * MOST_CHARACTERS)[:MOST_CHARACTERS] + "…"
    assert fault.hint is None
    assert fault.details == [*lines[2:], "ValueError: " + "x" * MOST_CHARACTERS, "ERROR it failed"]
    assert explain_build("\n").cause == ""
