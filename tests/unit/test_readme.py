"""The environment printed in README is run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from castform.environments import load_examples
from castform.plugins import load_environment
from castform.validate import validate

README = Path(__file__).parents[2] / "README.md"


def printed_environment(folder: Path) -> Path:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    path = folder / "shout.py"
    path.write_text(code)
    return path


def test_the_printed_environment_has_at_most_twelve_lines(tmp_path: Path) -> None:
    lines = [line for line in printed_environment(tmp_path).read_text().splitlines() if line.strip()]
    assert len([line for line in lines if not line.startswith(("from ", "import "))]) <= 12


async def test_the_printed_environment_passes_the_probes(tmp_path: Path) -> None:
    loaded = load_environment(str(printed_environment(tmp_path)), {})
    examples = await load_examples(loaded.environment, "train", loaded.base_dir, limit=4)
    report = await validate(loaded.environment, examples)
    assert not report.faults, report.faults
