"""Imports that nothing gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from castform.authoring.undeclared import find_undeclared, suggest_distribution


def modules(folder: Path, source: str) -> list[str]:
    package = folder / "castform_env_mine"
    package.mkdir()
    (package / "a.py").write_text(source)
    return [found.module for found in find_undeclared(package)]


@pytest.mark.parametrize(
    "source",
    [
        "import nowhere_at_all",
        "import nowhere_at_all.part as other",
        "from nowhere_at_all.part import name",
        "def late():\n    if True:\n        with open('x'):\n            import nowhere_at_all",
        "class A:\n    def f(self):\n        for _ in ():\n            pass\n        else:\n            import nowhere_at_all",
        "try:\n    import nowhere_at_all\nexcept OSError:\n    pass",
        "try:\n    pass\nexcept ImportError:\n    import nowhere_at_all",
        "match 1:\n    case 1:\n        import nowhere_at_all",
        "async def f():\n    import nowhere_at_all",
    ],
)
def test_an_import_that_cannot_be_found_is_found_wherever_it_stands(tmp_path: Path, source: str) -> None:
    assert modules(tmp_path, source) == ["nowhere_at_all"]


@pytest.mark.parametrize(
    "source",
    [
        "import os.path, json\nfrom collections import abc",
        "import pydantic\nfrom benchmax.envs import BaseEnv",
        "from . import b\nfrom .b import c",
        "try:\n    import nowhere_at_all\nexcept ImportError:\n    nowhere_at_all = None",
        "try:\n    import nowhere_at_all\nexcept (ModuleNotFoundError, OSError):\n    pass",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import nowhere_at_all",
        "import typing\nif typing.TYPE_CHECKING:\n    import nowhere_at_all\nelse:\n    import json",
        "this is no python",
    ],
)
def test_an_import_that_is_there_or_not_needed_is_not(tmp_path: Path, source: str) -> None:
    assert modules(tmp_path, source) == []


def test_each_module_is_named_once_with_its_first_place(tmp_path: Path) -> None:
    package = tmp_path / "castform_env_mine"
    (package / "sub").mkdir(parents=True)
    (package / "b.py").write_text("\n\nimport nowhere_at_all\nimport nor_this")
    (package / "sub" / "c.py").write_text("import nowhere_at_all")
    found = {each.module: each.place for each in find_undeclared(package)}
    assert found == {"nowhere_at_all": "castform_env_mine/b.py:3", "nor_this": "castform_env_mine/b.py:4"}


def test_the_distribution_of_a_module_is_the_one_that_has_it_here() -> None:
    assert suggest_distribution("sqlalchemy") == "SQLAlchemy"
    assert suggest_distribution("nowhere_at_all") == "nowhere-at-all"
