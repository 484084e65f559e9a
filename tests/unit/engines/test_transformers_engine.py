from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from castform.calls import Sampling
from castform.config import load_config
from castform.errors import ConfigError, UsageError
from castform_trainer.engines.contract import GenerationCancelled
from castform_trainer.engines.select import make_engine
from castform_trainer.engines.transformers import TransformersEngine
from castform_trainer.models import ModelFolder

Make = Callable[..., TransformersEngine]
PROMPT = [(i * 7 + 5) % 250 + 3 for i in range(60)]


@pytest.fixture
async def make(tiny_folder: Path) -> AsyncIterator[Make]:
    made: list[TransformersEngine] = []

    def build(**options: object) -> TransformersEngine:
        folder = ModelFolder(path=tiny_folder, name="tiny", dtype="float32", device="cpu")
        made.append(TransformersEngine(folder, threads=1, **options))  # type: ignore[arg-type]  # test options
        return made[-1]

    yield build
    for engine in made:
        await engine.close()


async def test_samples_of_a_prompt_share_its_prefill(make: Make) -> None:
    engine = make(prefix_cache_mb=0)
    await asyncio.gather(*(engine.generate(PROMPT, Sampling(max_new_tokens=4, seed=i)) for i in range(8)))
    assert engine.stats.prefill_tokens <= 2 * len(PROMPT)
    assert engine.stats.decode_steps <= 8


async def test_a_later_turn_computes_only_what_is_new(make: Make) -> None:
    engine = make()
    sampling = Sampling(max_new_tokens=10, seed=1)
    first = await engine.generate(PROMPT, sampling)
    before = engine.stats.prefill_tokens
    later = [*PROMPT, *first.ids, 50, 51, 52]
    with_cache = await engine.generate(later, sampling)
    assert engine.stats.prefill_tokens - before <= 5
    plain = await make(prefix_cache_mb=0).generate(later, sampling)
    assert with_cache.ids == plain.ids
    assert max(abs(a - b) for a, b in zip(with_cache.logprobs, plain.logprobs, strict=True)) < 1e-4


async def test_what_all_prompts_begin_with_is_computed_once(make: Make) -> None:
    engine = make()
    prompts = [[*PROMPT, 100 + i, 7] for i in range(6)]
    await asyncio.gather(*(engine.generate(p, Sampling(max_new_tokens=2)) for p in prompts))
    assert engine.stats.prefill_tokens <= 2 * len(PROMPT) + 6 * 2


async def test_an_adapter_switch_forgets_the_prefixes_of_the_old_one(
    make: Make, tiny_adapters: tuple[Path, Path]
) -> None:
    engine, fresh = make(), make(prefix_cache_mb=0)
    greedy = Sampling(max_new_tokens=8, temperature=0)
    await engine.generate(PROMPT, greedy)
    for served in (engine, fresh):
        await served.load_adapter(tiny_adapters[0], 1)
    found, expected = await engine.generate(PROMPT, greedy), await fresh.generate(PROMPT, greedy)
    assert found.ids == expected.ids
    assert max(abs(a - b) for a, b in zip(found.logprobs, expected.logprobs, strict=True)) < 1e-5


async def test_deterministic_mode_gives_the_same_bits_in_any_company(make: Make) -> None:
    engine = make(deterministic=True)
    sampling = Sampling(max_new_tokens=20, seed=3)
    alone = await engine.generate(PROMPT, sampling)
    crowd = [engine.generate(PROMPT[i:], Sampling(max_new_tokens=9 + i, seed=i)) for i in range(1, 7)]
    among, *_ = await asyncio.gather(engine.generate(PROMPT, sampling), *crowd)
    assert (among.ids, among.logprobs) == (alone.ids, alone.logprobs)


async def test_replies_wait_when_memory_for_keys_and_values_is_short(make: Make) -> None:
    engine = make(kv_cache_mb=1, prefix_cache_mb=0)  # 512 bytes a token: about 2,000 tokens
    sampling = Sampling(max_new_tokens=400, seed=2, stop_token_ids=tuple(range(3, 40)))
    replies = await asyncio.gather(*(engine.generate([*PROMPT, i], sampling) for i in range(60, 72)))
    assert all(reply.finish_reason in ("stop", "length") for reply in replies)


async def test_long_prompts_are_prefilled_in_pieces(make: Make) -> None:
    sampling = Sampling(max_new_tokens=6, seed=1)
    pieces = await make(prefill_tokens=16).generate(PROMPT, sampling)
    whole = await make().generate(PROMPT, sampling)
    assert pieces.ids == whole.ids
    assert max(abs(a - b) for a, b in zip(pieces.logprobs, whole.logprobs, strict=True)) < 1e-4


async def test_a_failing_pass_fails_its_replies_and_the_engine_goes_on(make: Make) -> None:
    engine = make()
    with pytest.raises(IndexError):
        await engine.generate([10**6], Sampling(max_new_tokens=2))
    reply = await engine.generate(PROMPT, Sampling(max_new_tokens=2))
    assert len(reply.ids) in (1, 2)


async def test_a_cancelled_reply_tells_what_was_sampled_until_then(make: Make) -> None:
    engine = make()
    samplings = [Sampling(max_new_tokens=400, seed=seed) for seed in range(16)]
    whole = await asyncio.gather(*(engine.generate(PROMPT, sampling) for sampling in samplings))
    place = max(range(16), key=lambda i: len(whole[i].ids))
    steps = engine.stats.decode_steps
    asking = asyncio.create_task(engine.generate(PROMPT, samplings[place]))
    while engine.stats.decode_steps < steps + 3:  # noqa: ASYNC110 - counted by a thread
        await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(GenerationCancelled) as cancelled:
        await asking
    partial = cancelled.value.partial
    assert partial.finish_reason == "abort" and 3 <= len(partial.ids) < len(whole[place].ids)
    assert partial.ids == whole[place].ids[: len(partial.ids)]
    assert len(partial.logprobs) == len(partial.ids)


async def test_generate_may_be_called_from_several_event_loops(make: Make) -> None:
    engine = make()
    sampling = Sampling(max_new_tokens=5, seed=1)

    def in_own_loop() -> tuple[int, ...]:
        return asyncio.run(engine.generate(PROMPT, sampling)).ids

    results = await asyncio.gather(*(asyncio.to_thread(in_own_loop) for _ in range(3)))
    assert len(set(results)) == 1


async def test_make_engine_opens_what_the_config_names(tiny_folder: Path) -> None:
    folder = ModelFolder(path=tiny_folder, name="tiny", dtype="float32", device="cpu")
    config = load_config(None, ["engine.options.prefix_cache_mb=8"], run__threads=1, engine__max_batch=3)
    engine = make_engine(config, folder)
    assert (engine.name, engine.eos_token_ids, engine.max_context_tokens) == ("transformers", (2,), 512)
    await engine.close()


def test_wrong_engine_settings_are_config_errors(tiny_folder: Path) -> None:
    folder = ModelFolder(path=tiny_folder, name="tiny", dtype="float32", device="cpu")
    wrong = load_config(None, ["engine.options.prefix_cache=8", "engine.options.prefill_tokens=0"])
    with pytest.raises(ConfigError, match="2 wrong engine option"):
        make_engine(wrong, folder)
    with pytest.raises(ConfigError, match="in this process"):
        make_engine(load_config(None, [], engine__url="http://127.0.0.1:1"), folder)
    with pytest.raises(UsageError, match="transfromers"):
        make_engine(load_config(None, [], engine__name="transfromers"), folder)
