"""Examples of an environment as tasks in real boxes: the oracle is paid as the environment pays it."""

from __future__ import annotations

import json
import sys

import pytest

from castform.cli.main import main

SANDBOXES = [
    pytest.param("docker", ["--with-stdlib"], marks=pytest.mark.docker, id="docker"),
    pytest.param("bubblewrap", [], marks=pytest.mark.bubblewrap, id="bubblewrap"),
]
"""The image has a minimal Python; a box of bubblewrap has this machine's."""


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="castform/base has a Python 3.11")
@pytest.mark.parametrize(("sandbox", "words"), SANDBOXES)
def test_an_exported_task_pays_its_oracle_and_nothing_for_nothing(sandbox, words, tmp_path, capsys):
    tasks = str(tmp_path / "tasks")
    words = ["harbor", "export", "arith/add", tasks, "--limit", "1", "--image", "castform/base:local", *words]
    assert main(words) == 0
    for agent, reward in (("oracle", 1.0), ("nop", 0.0)):
        words = ["harbor", "run", tasks, "--agent", agent, "--sandbox", sandbox, "--json"]
        capsys.readouterr()
        assert main([*words, "--jobs-dir", str(tmp_path / "jobs")]) == 0
        (trial,) = json.loads(capsys.readouterr().out)["trials"]
        assert (trial["status"], trial["reward"]) == ("ok", reward), trial
