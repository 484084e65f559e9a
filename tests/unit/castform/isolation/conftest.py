"""A plugin in a virtual environment of its own, made without pip: its files and the metadata beside them."""

from __future__ import annotations

import shutil
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from castform.isolation.build import describe_plugins
from castform.isolation.store import READY, write_json, write_record

sys.path.insert(0, str(Path(__file__).parent))  # what tests here share lies beside them
from isolated_records import make_record

PLUGINS = Path(__file__).parents[4] / "plugins"
FOLDER = "castform-env-arith-0123456789abcdef"


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """An empty CASTFORM_HOME."""
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CASTFORM_PLUGINS", raising=False)
    (tmp_path / "home" / "isolated").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture(scope="module")
def arith_home(tmp_path_factory) -> Path:
    """A CASTFORM_HOME in which the plugin arith is installed isolated, under another version than here."""
    patch = pytest.MonkeyPatch()
    home = tmp_path_factory.mktemp("home")
    patch.setenv("CASTFORM_HOME", str(home))
    folder = home / "isolated" / FOLDER
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    site = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    (site / "third_party.pth").write_text(sysconfig.get_path("purelib") + "\n")
    shutil.copytree(PLUGINS / "castform-env-arith" / "castform_env_arith", site / "castform_env_arith")
    info = site / "castform_env_arith-7.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.4\nName: castform-env-arith\nVersion: 7.0\nSummary: Sums\nRequires-Dist: castform>=0.1\n"
    )
    (info / "entry_points.txt").write_text("[castform]\narith = castform_env_arith.plugin\n")
    found = describe_plugins(folder, "castform-env-arith")
    record = make_record(home, "arith", **{**found, "requirements": tuple(found["requirements"])})
    write_json(str(folder / READY), record._replace(folder=str(folder)))
    write_record(record)
    yield home
    patch.undo()
