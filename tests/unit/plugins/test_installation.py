"""Distributions as pip builds and installs them. Offline: the build backend is in the environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from castform.plugins.catalog import list_installed

ROOT = Path(__file__).parents[3]
BROKEN = sorted(p.parent for p in (ROOT / "tests" / "plugins_broken").glob("*/pyproject.toml"))
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps", "--no-index"]

pytestmark = pytest.mark.slow


def run(*words: object, **kwargs) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=280, **kwargs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_pip_installs_the_broken_plugins_and_castform_lists_them_all(tmp_path):
    run(*PIP, "--no-build-isolation", "--target", tmp_path, *BROKEN)
    listed = {e.distribution for e in list_installed([str(tmp_path)])}
    assert len(listed) == len(BROKEN)
    assert {"castform-env-sound", "castform-env-twice-one", "castform-env-twice-two"} <= listed
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = run(sys.executable, "-m", "castform", "env", "list", "sound", env=environ)
    assert "sound/echo" in done.stdout


def check_plugin_template(template: Path, module: str, data_file: str, work: Path) -> None:
    """Case D4: what the checkout has, the wheel made from the sdist has, and it can be read once installed."""
    out, target = work / "dist", work / "target"
    run(
        sys.executable, "-m", "build", "--no-isolation", "--outdir", out, template
    )  # sdist, then wheel FROM it
    (wheel,) = out.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert any(n.startswith(f"{module}/") and n.endswith(data_file) for n in names), names
    run(*PIP, "--target", target, wheel)
    code = (
        f"import sys; sys.path.insert(0, {str(target)!r}); import importlib.resources as r; "
        f"print(len((r.files({module!r}) / {data_file!r}).read_text().split(chr(10))))"
    )
    done = run(sys.executable, "-I", "-c", code, cwd="/")
    assert int(done.stdout) >= 1


def test_d4_a_plugins_data_files_are_in_its_wheel(tmp_path):
    source = tmp_path / "castform-env-lookup"
    shutil.copytree(ROOT / "plugins" / "castform-env-lookup", source)
    (data,) = [
        p for p in (source / "castform_env_lookup").iterdir() if p.suffix in (".csv", ".jsonl", ".json")
    ]
    check_plugin_template(source, "castform_env_lookup", data.name, tmp_path)


def test_d4_finds_a_wheel_without_its_data(tmp_path):
    source = tmp_path / "castform-env-lookup"
    shutil.copytree(ROOT / "plugins" / "castform-env-lookup", source)
    with pytest.raises(AssertionError):
        check_plugin_template(source, "castform_env_lookup", "not-shipped.jsonl", tmp_path)
