"""The table has to arrive where the package is installed, not only lie in the checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent


@pytest.mark.slow
def test_a_wheel_built_from_the_sdist_brings_the_table_with_it(tmp_path: Path) -> None:
    built, installed = tmp_path / "dist", tmp_path / "site"
    run = [sys.executable, "-m"]
    subprocess.run(
        [*run, "build", "--no-isolation", "--outdir", str(built), str(PROJECT)],
        check=True,
        capture_output=True,
    )
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "castform_env_lookup/places.csv" in names and "castform_env_lookup/py.typed" in names
    subprocess.run(
        [*run, "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(installed), str(wheel)],
        check=True,
        capture_output=True,
    )
    code = (
        f"import sys; sys.path.insert(0, {str(installed)!r})\n"
        "import castform_env_lookup.table as t\n"
        "print(t.__file__, len(t.load_table()))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout.split()
    assert Path(shown[0]).is_relative_to(installed)
    assert shown[1] == "200"
