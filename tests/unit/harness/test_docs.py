"""docs/harnesses.md says what the code has, and its example works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from castform.harness import load_harness
from castform.harness.settings import HarnessSection
from castform.harness.template import PLACEHOLDERS
from castform.plugins.catalog import CORE
from castform.plugins.loader import load_registry
from castform.plugins.specs import HarnessSpec
from castform.sandbox.contract import ModelEndpoint
from castform.testing.mock_endpoint import MockEndpoint

TEXT = (Path(__file__).parents[3] / "docs" / "harnesses.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE)


def rows(heading: str) -> dict[str, str]:
    """Return the first two columns of the table below a heading."""
    section = TEXT.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    cells = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {row[0].strip(): row[1].strip() for row in cells}


def test_every_placeholder_is_listed_with_its_meaning():
    assert rows("Placeholders") == {f"`{{{name}}}`": meaning for name, meaning in PLACEHOLDERS.items()}


def test_every_key_is_listed():
    listed = {key for cell in rows("Keys of `[harness]`") for key in re.findall(r"`(\w+)`", cell)}
    assert listed == set(HarnessSection.model_fields)


def test_every_harness_is_listed():
    registered = load_registry().load(CORE).specs(HarnessSpec).keys() - {"oracle", "nop"}
    assert {name.strip("`") for name in rows("The agents that castform knows")} == registered


@pytest.mark.parametrize("number", range(len(blocks("toml"))))
def test_every_toml_loads(number, tmp_path):
    path = tmp_path / "agent.toml"
    path.write_text(blocks("toml")[number], encoding="utf-8")
    (tmp_path / "agent").mkdir()  # which the first of them uploads
    assert load_harness(path).name


async def test_the_wrapped_agent_works(box, make_task, tmp_path):
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "my_agent.py").write_text(blocks("python")[0], encoding="utf-8")
    where = f"{tmp_path}/in-the-box"
    (tmp_path / "agent.toml").write_text(blocks("toml")[0].replace("/tmp/my-agent", where), encoding="utf-8")
    harness = load_harness(tmp_path / "agent.toml")
    await harness.setup(box)
    task = make_task("Write hello into hello.txt.")
    with MockEndpoint(["echo hello > hello.txt", "DONE"]) as server:
        endpoint = ModelEndpoint(base_url=server.base_url, api_key=server.api_key, model="mock")
        done = await harness.run(task, box, endpoint)
    assert done.status == "finished", done.output
    assert await box.read_file(f"{task.workdir}/hello.txt") == b"hello\n"
    check = blocks("sh")[0].replace("/logs/verifier/", "")
    await box.exec(["sh", "-c", check], cwd=task.workdir)
    assert await box.read_file(f"{task.workdir}/reward.txt") == b"1\n"
