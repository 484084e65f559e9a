"""An exception whose own text raises is told like any other."""

from __future__ import annotations

from castform.cli.main import main
from castform.plugins.failure import describe_cause

MUTE = """
from benchmax.envs import BaseEnv


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Env(BaseEnv):
    async def create_dataset(self, split, base_dir, *, max_examples=None):
        raise Mute
"""


def test_a_dataset_that_raises_it_is_named(tmp_path, capsys):
    (tmp_path / "mute.py").write_text(MUTE)
    assert main(["validate", str(tmp_path / "mute.py")]) == 1
    said = "".join(capsys.readouterr())
    assert "dataset cannot be read: Mute: its text cannot be read (RuntimeError)" in said


def test_a_plugin_that_raises_it_is_named():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    assert describe_cause(Mute()) == "Mute: its text cannot be read (RuntimeError)"
