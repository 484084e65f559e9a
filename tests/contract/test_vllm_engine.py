"""The vLLM engine on a real server: the checks of every engine, then what only this one can get wrong.

One server, started once, on a tiny model whose own generation_config would spoil every sample if
it were in force. The last test kills it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from castform.calls import Sampling  # noqa: E402 - after the check for torch
from castform.config import load_config  # noqa: E402
from castform.errors import MissingError, RunFailedError, UsageError  # noqa: E402
from castform_trainer.engines.conformance import (  # noqa: E402
    CHECKS,
    MODEL_CHECKS,
    Check,
    EngineCase,
    check_closing_aborts,
)
from castform_trainer.engines.vllm import VllmEngine  # noqa: E402
from castform_trainer.engines.vllm_client import VllmClient  # noqa: E402
from castform_trainer.engines.vllm_start import make_vllm_engine  # noqa: E402
from castform_trainer.models import ModelFolder, load_tokenizer  # noqa: E402
from castform_trainer.testing import make_tiny_adapter, make_tiny_model  # noqa: E402

PYTHON = Path(
    os.environ.get("CASTFORM_VLLM_PYTHON")
    or Path(os.environ.get("CASTFORM_VLLM_VENV") or Path(tempfile.gettempdir()) / "castform-vllm-venv")
    / "bin/python"
)
MERGES = [("t", "h"), ("th", "e"), ("a", "n")]
SPOILED_DEFAULTS = {"eos_token_id": 2, "do_sample": True, "temperature": 0.3, "top_k": 1}
SPOILED_DEFAULTS |= {"repetition_penalty": 1.7}
PROMPT = tuple(range(60, 130))
"""Longer than two blocks of the prefix cache."""

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not PYTHON.is_file(), reason=f"no vLLM at {PYTHON}: `make setup-vllm` builds it"),
]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """Width 128 makes heads of 32, the smallest that vLLM computes on a CPU."""
    torch.set_num_threads(1)
    path = make_tiny_model(tmp_path_factory.mktemp("vllm") / "model", width=128, merges=MERGES)
    (path / "generation_config.json").write_text(json.dumps(SPOILED_DEFAULTS))
    return ModelFolder(path=path, name="tiny", dtype="float32", device="cpu")


@pytest.fixture(scope="session")
def adapters(folder: ModelFolder, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place = tmp_path_factory.mktemp("adapters")
    return [make_tiny_adapter(folder.path, place / str(seed), seed=seed) for seed in (1, 2)]


@pytest.fixture(scope="session")
def started(folder: ModelFolder) -> Iterator[VllmEngine]:
    log = folder.path.parent / "server.log"
    options = {"python": str(PYTHON), "cpu_threads": 2, "kv_cache_gib": 1, "log": str(log)}
    config = load_config(engine__name="vllm", engine__max_batch=16, lora__rank=8, engine__options=options)
    engine = make_vllm_engine(config, folder)
    yield engine
    asyncio.run(engine.close())


@pytest.fixture
def engine(started: VllmEngine, folder: ModelFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[VllmEngine]:
    """A fresh engine that joined the server: versions start at 0 again."""
    monkeypatch.setenv("SERVER_KEY", started._client._headers["Authorization"].removeprefix("Bearer "))
    config = load_config(
        engine__name="vllm",
        engine__url=f"{started._client.url}/v1",
        engine__options={"api_key_env": "SERVER_KEY"},
    )
    engine = make_vllm_engine(config, folder)
    yield engine
    asyncio.run(engine.close())


def make_case(engine: VllmEngine, folder: ModelFolder, adapters: list[Path]) -> EngineCase:
    tokenizer = load_tokenizer(folder)
    return EngineCase(
        engine=engine,
        vocabulary=len(tokenizer),
        decode=lambda ids: tokenizer.decode(list(ids), skip_special_tokens=False),
        adapter_folders=(adapters[0], adapters[1]),
        model_folder=folder.path,
        max_batch=16,
    )


@pytest.fixture(scope="session")
def started_case(started: VllmEngine, folder: ModelFolder, adapters: list[Path]) -> EngineCase:
    return make_case(started, folder, adapters)


@pytest.mark.parametrize("check", CHECKS + MODEL_CHECKS, ids=lambda check: check.__name__)
async def test_a_started_server_keeps_the_contract(check: Check, started_case: EngineCase) -> None:
    await check(started_case)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_a_joined_server_keeps_the_contract(
    check: Check, engine: VllmEngine, folder: ModelFolder, adapters: list[Path]
) -> None:
    await check(make_case(engine, folder, adapters))


async def test_closing_aborts_what_waits(
    engine: VllmEngine, folder: ModelFolder, adapters: list[Path]
) -> None:
    await check_closing_aborts(make_case(engine, folder, adapters))


def load_model(folder: ModelFolder, adapter: Path | None = None) -> Any:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder.path, dtype=torch.float32).eval()
    return model if adapter is None else PeftModel.from_pretrained(model, str(adapter)).eval()


def score(model: Any, ids: tuple[int, ...], temperature: float = 1.0) -> list[float]:
    """log p of ids[1:], by a plain forward pass."""
    with torch.inference_mode():
        logits = model(torch.tensor([ids])).logits[0, :-1].float() / temperature
    return logits.log_softmax(-1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()


async def test_the_models_own_sampling_defaults_are_not_in_force(
    engine: VllmEngine, folder: ModelFolder
) -> None:
    sampling = Sampling(max_new_tokens=24, temperature=0.8)
    found = await asyncio.gather(
        *(engine.generate(PROMPT, Sampling(max_new_tokens=24, temperature=0.8, seed=s)) for s in range(6))
    )
    assert len({reply.ids for reply in found}) > 1  # top_k = 1 would make them one
    model = load_model(folder)
    for reply in found:
        expected = score(model, PROMPT + reply.ids, sampling.temperature)[len(PROMPT) - 1 :]
        assert reply.logprobs == pytest.approx(expected, abs=2e-3)


async def test_two_versions_never_share_a_prefix_cache(
    engine: VllmEngine, folder: ModelFolder, adapters: list[Path], tmp_path: Path
) -> None:
    """The trainer writes every version into the same folder; the prompt is the same each time."""
    greedy = Sampling(max_new_tokens=4, temperature=0.0)
    written = tmp_path / "adapter"
    replies = [await engine.generate(PROMPT, greedy)]
    for version, adapter in enumerate(adapters, 1):
        shutil.rmtree(written, ignore_errors=True)
        shutil.copytree(adapter, written)
        await engine.load_adapter(written, version)
        replies.append(await engine.generate(PROMPT, greedy))
    shutil.rmtree(written)
    assert [reply.version for reply in replies] == [0, 1, 2]
    for reply, adapter in zip(replies, [None, *adapters], strict=True):
        expected = score(load_model(folder, adapter), PROMPT + reply.ids)[len(PROMPT) - 1 :]
        assert reply.logprobs == pytest.approx(expected, abs=2e-3)
    again = [await engine.generate(PROMPT, greedy, version=version) for version in (0, 1, 2)]
    assert [reply.ids for reply in again] == [reply.ids for reply in replies]
    assert len({reply.logprobs for reply in again}) == 3


async def test_base_replies_are_the_bases_among_replies_of_more_adapters_than_slots(
    engine: VllmEngine, folder: ModelFolder, adapters: list[Path]
) -> None:
    """The CPU build applies the adapter in its last slot to base replies of a mixed batch."""
    for version in range(1, 7):
        await engine.load_adapter(adapters[version % 2], version)
        await engine.generate(PROMPT, Sampling(max_new_tokens=1), version=version)
    wanted = [0, 5, 6, 0, 5, 6]
    replies = await asyncio.gather(
        *(engine.generate(PROMPT, Sampling(max_new_tokens=12, seed=8), version=v) for v in wanted)
    )
    base = load_model(folder)
    for reply in (reply for reply in replies if reply.version == 0):
        expected = score(base, PROMPT + reply.ids)[len(PROMPT) - 1 :]
        assert reply.logprobs == pytest.approx(expected, abs=2e-3)


async def test_the_canary_scores_every_version_as_peft_does(
    engine: VllmEngine, folder: ModelFolder, adapters: list[Path]
) -> None:
    await engine.load_adapter(adapters[0], 1)
    for version, adapter in ((None, adapters[0]), (1, adapters[0]), (0, None)):
        found = await engine.logprobs(PROMPT, version=version)
        assert found == pytest.approx(score(load_model(folder, adapter), PROMPT), abs=2e-3)


async def test_the_canary_reads_the_prefix_cache_that_rollouts_fill(engine: VllmEngine) -> None:
    before = await count(engine, "vllm:prefix_cache_hits_total{")
    await engine.generate(PROMPT, Sampling(max_new_tokens=1))
    await engine.logprobs(PROMPT)
    assert await count(engine, "vllm:prefix_cache_hits_total{") > before


async def test_a_reply_keeps_its_version_when_that_is_unloaded(
    engine: VllmEngine, folder: ModelFolder, adapters: list[Path]
) -> None:
    await engine.load_adapter(adapters[0], 1)
    running = asyncio.create_task(engine.generate(PROMPT, Sampling(max_new_tokens=60)))
    await wait_for_count(engine, "vllm:num_requests_running{", 1)
    await engine.load_adapter(adapters[1], 2)
    await engine.unload(1)
    with pytest.raises(KeyError):
        await engine.generate(PROMPT, Sampling(), version=1)
    reply = await running
    assert reply.version == 1
    expected = score(load_model(folder, adapters[0]), PROMPT + reply.ids)[len(PROMPT) - 1 :]
    assert reply.logprobs == pytest.approx(expected, abs=5e-3)


async def test_cancelling_a_call_takes_its_request_out_of_the_server(engine: VllmEngine) -> None:
    before = await count(engine, "vllm:generation_tokens_total{")
    running = asyncio.create_task(engine.generate(PROMPT, Sampling(max_new_tokens=400)))
    await wait_for_count(engine, "vllm:num_requests_running{", 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await wait_for_count(engine, "vllm:num_requests_running{", 0)
    assert await count(engine, "vllm:generation_tokens_total{") < before + 400


async def test_closing_a_joined_engine_leaves_the_server_as_it_was(
    engine: VllmEngine, adapters: list[Path]
) -> None:
    before = {model["id"] for model in await served(engine)}
    await engine.load_adapter(adapters[0], 1)
    assert len(await served(engine)) > len(before)
    running = asyncio.create_task(engine.generate(PROMPT, Sampling(max_new_tokens=400)))
    await wait_for_count(engine, "vllm:num_requests_running{", 1)
    other = VllmClient(engine._client.url, api_key=os.environ["SERVER_KEY"])
    await engine.close()
    assert (await running).finish_reason == "abort"
    listing = await other.call("GET", "/v1/models", timeout_seconds=10.0)
    other.close()
    assert {model["id"] for model in listing["data"]} == before


async def test_an_adapter_that_the_server_cannot_take_leaves_the_old_one_in_force(
    engine: VllmEngine, folder: ModelFolder, adapters: list[Path], tmp_path: Path
) -> None:
    await engine.load_adapter(adapters[0], 1)
    too_big = make_tiny_adapter(folder.path, tmp_path / "big", rank=32)
    with pytest.raises(UsageError, match="rank"):
        await engine.load_adapter(too_big, 2)
    with pytest.raises(UsageError, match="not a PEFT adapter folder"):
        await engine.load_adapter(tmp_path, 2)
    assert (await engine.generate(PROMPT, Sampling(max_new_tokens=1))).version == 1
    await engine.load_adapter(adapters[1], 2)
    assert (await engine.generate(PROMPT, Sampling(max_new_tokens=1))).version == 2


def test_joining_with_the_wrong_key_is_refused(started: VllmEngine, folder: ModelFolder) -> None:
    config = load_config(engine__name="vllm", engine__url=started._client.url)
    with pytest.raises(MissingError, match="401") as caught:
        make_vllm_engine(config, folder)
    assert "api_key_env" in (caught.value.hint or "")


async def test_a_server_that_dies_fails_the_waiting_calls_and_later_ones(started: VllmEngine) -> None:
    """Kills the process that computes, as the kernel does when memory runs out. Keep this test last."""
    waiting = [
        asyncio.create_task(started.generate(PROMPT, Sampling(max_new_tokens=400, seed=s))) for s in range(4)
    ]
    await wait_for_count(started, "vllm:num_requests_running{", 4)
    assert started.server is not None
    group = members(started.server.pid)
    os.kill(max(group), signal.SIGKILL)  # the worker is the youngest
    async with asyncio.timeout(60):
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(error) for error in found] == [RunFailedError] * 4
        with pytest.raises(RunFailedError):
            await started.generate(PROMPT, Sampling())
    await started.close()
    assert members(started.server.pid) == []


async def count(engine: VllmEngine, metric: str) -> float:
    text = await engine._client.call("GET", "/metrics", timeout_seconds=10.0)
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(metric, line))


async def wait_for_count(engine: VllmEngine, metric: str, value: float) -> None:
    async with asyncio.timeout(60):
        while await count(engine, metric) != value:
            pass


async def served(engine: VllmEngine) -> list[Any]:
    found: list[Any] = (await engine._client.call("GET", "/v1/models", timeout_seconds=10.0))["data"]
    return found


def members(group: int) -> list[int]:
    """Processes of a process group that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group_id = stat.read_text().rsplit(")", 1)[1].split()[:3]
        except OSError:
            continue
        if int(group_id) == group and state != "Z":
            found.append(int(stat.parent.name))
    return found
