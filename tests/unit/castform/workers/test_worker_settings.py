"""`environment.workers` in configs, TOMLs and on the command line; composed environments in workers."""

from __future__ import annotations

import asyncio
import json

import pytest

from castform.cli.main import main
from castform.config import load_config
from castform.endpoint import SessionSpec
from castform.environments import load_configured, load_examples
from castform.errors import ConfigError
from castform.scripted_endpoint import ScriptedEndpoint

COMPOSED = """
[environment]
dataset = {{ rows = [{{ question = "1 + 1", answer = "2" }}, {{ question = "2 + 3", answer = "5" }}] }}
held_out = 0.5
prompt = "What is {{question}}?"
rewards = {{ "castform/answer" = 1.0 }}
workers = {workers}
worker_memory_mb = 900
"""


def write(folder, workers):
    path = folder / "sums.toml"
    path.write_text(COMPOSED.format(workers=workers))
    return path


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("workers=-1", "greater than or equal to 0"),
        ("workers=257", "less than or equal to 256"),
        ("workers=1.5", "valid integer"),
        ("worker_memory_mb=0", "greater than or equal to 1"),
        ("worker_hang_seconds=0", "greater than 0"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(text, fault):
    with pytest.raises(ConfigError, match=fault):
        load_config(None, [f"environment.{text}"])


def test_a_composed_toml_says_in_how_many_workers_it_runs(tmp_path):
    section = load_config(None, [], environment__id=str(write(tmp_path, 2))).environment
    assert (section.workers, section.worker_memory_mb, section.worker_hang_seconds) == (2, 900, 60.0)
    section = load_config(
        None, [], environment__id=str(write(tmp_path, 2)), environment__workers=0
    ).environment
    assert section.workers == 0


async def test_a_composed_environment_is_the_same_in_workers(tmp_path):
    pins, examples = [], []
    for workers in (0, 1):
        path = write(tmp_path, workers)
        loaded = load_configured(load_config(None, [], environment__id=str(path)).environment)
        rows = await load_examples(loaded.environment, "train", loaded.base_dir)
        pins.append(loaded.with_examples(train=rows).pin)
        examples.append(rows)
        await loaded.environment.aclose()
    assert pins[0] == pins[1] and examples[0] == examples[1]


def test_eval_gives_the_same_result_with_workers(tmp_path, monkeypatch, capsys):
    endpoint = ScriptedEndpoint(lambda request: "<answer>3</answer>")
    grant = asyncio.run(endpoint.open_session(SessionSpec(session_id="s")))
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path))
    monkeypatch.setenv("MODEL_KEY", grant.api_key)
    words = ["eval", "arith", "-m", grant.model, "--base-url", grant.base_url, "--api-key-env", "MODEL_KEY"]
    told = []
    try:
        for workers in ("0", "1"):
            assert main([*words, "--examples", "4", "--json", "--workers", workers]) == 0
            told.append(json.loads(capsys.readouterr().out))
    finally:
        asyncio.run(endpoint.aclose())
    here, there = [without_times(result) for result in told]
    assert here == there and here["environment"]["id"] == "arith/default"


def without_times(value):
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if "seconds" not in k and k != "run_id"}
    return [without_times(item) for item in value] if isinstance(value, list) else value
