"""What every engine must do, as checks that run against a live one.

`tests/contract/test_engine_contract.py` runs them on castform's own engines; whoever writes
another engine runs them the same way (docs/engines.md). Each check raises AssertionError with
what was found. Checks in `MODEL_CHECKS` compare with the model itself, in peft and transformers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from castform.calls import Sampling
from castform_trainer.engines.contract import Engine, Generation

TOLERANCE = 1e-4
"""Largest difference of a log probability, float32 (training.md: the canary's bound)."""


@dataclass(kw_only=True, slots=True)
class EngineCase:
    """A live engine and what it should be serving. Checks may share one, in any order."""

    engine: Engine
    vocabulary: int
    """Prompts are made of ids 3 .. vocabulary - 1."""
    decode: Callable[[Sequence[int]], str]
    adapter_folders: tuple[Path, Path]
    """Two different adapters."""
    model_folder: Path | None = None
    """None: there is no model behind (a fake), and `MODEL_CHECKS` cannot run."""
    max_batch: int = 4
    """Replies that the engine samples at the same time; cancellation is tried with more."""
    versions: Iterator[int] = field(default_factory=lambda: count(1))
    """Version numbers to load, upwards."""

    def prompt(self, seed: int, length: int = 12) -> list[int]:
        """Return a prompt that differs from seed to seed from its first token on."""
        return [3 + (seed * 31 + i * i * 7 + i) % (self.vocabulary - 3) for i in range(length)]

    async def load(self, which: int) -> int:
        """Load adapter 0 or 1 as the newest version and return its number."""
        version = next(self.versions)
        await self.engine.load_adapter(self.adapter_folders[which], version)
        return version


Check = Callable[[EngineCase], Awaitable[None]]


async def check_the_seed_decides_the_ids(case: EngineCase) -> None:
    """The same seed gives the same ids, alone or among others; another seed gives others."""
    sampling = Sampling(max_new_tokens=24, seed=11)
    first = await case.engine.generate(case.prompt(1), sampling, version=0)
    others = [case.engine.generate(case.prompt(i), replace(sampling, seed=i), version=0) for i in range(2, 8)]
    again, *_ = await asyncio.gather(case.engine.generate(case.prompt(1), sampling, version=0), *others)
    other = await case.engine.generate(case.prompt(1), replace(sampling, seed=12), version=0)
    assert again.ids == first.ids, "the same seed gave other ids"
    assert other.ids != first.ids, "another seed gave the same ids"
    assert len(first.ids) == len(first.logprobs), "ids and logprobs differ in number"


async def check_samples_of_one_prompt_differ_by_seed_only(case: EngineCase) -> None:
    """Eight siblings at once equal the same eight one after another."""
    samplings = [Sampling(max_new_tokens=12, seed=seed) for seed in range(8)]
    together = await asyncio.gather(*(case.engine.generate(case.prompt(3), s, version=0) for s in samplings))
    alone = [await case.engine.generate(case.prompt(3), s, version=0) for s in samplings]
    assert [g.ids for g in together] == [g.ids for g in alone]
    assert len({g.ids for g in together}) > 4, "siblings with different seeds are alike"


async def check_a_stop_token_ends_the_reply_and_stays(case: EngineCase) -> None:
    """The end id is the last of `ids`, once, and the reason is stop."""
    free = await case.engine.generate(case.prompt(4), Sampling(max_new_tokens=16, seed=5), version=0)
    end = free.ids[6]
    cut = free.ids[: free.ids.index(end) + 1]
    sampling = Sampling(max_new_tokens=16, seed=5, stop_token_ids=(end,))
    stopped = await case.engine.generate(case.prompt(4), sampling, version=0)
    assert (stopped.ids, stopped.finish_reason) == (cut, "stop"), f"{stopped} should end with {end}"


async def check_a_stop_text_ends_the_reply(case: EngineCase) -> None:
    """The reply ends with the token that completes the text, which stays in the record."""
    free = await case.engine.generate(case.prompt(5), Sampling(max_new_tokens=20, seed=6), version=0)
    end = next(
        (i for i in range(1, len(free.ids) - 1) if "\ufffd" not in case.decode(free.ids[i : i + 2])), None
    )
    assert end is not None, "no two tokens of the reply spell text; use another tokenizer"
    text = case.decode(free.ids[end : end + 2])
    expected = next(n for n in range(1, len(free.ids) + 1) if text in case.decode(free.ids[:n]))
    stopped = await case.engine.generate(
        case.prompt(5), Sampling(max_new_tokens=20, seed=6, stop=(text,)), version=0
    )
    assert stopped.ids == free.ids[:expected], f"stop text {text!r} ended after {len(stopped.ids)} tokens"
    assert stopped.finish_reason == "stop"


async def check_a_limit_ends_the_reply_with_length(case: EngineCase) -> None:
    """`max_new_tokens` tokens exactly, unless an end id came first."""
    for limit in (1, 7):
        reply = await case.engine.generate(
            case.prompt(6), Sampling(max_new_tokens=limit, seed=limit), version=0
        )
        if reply.ids[-1] not in case.engine.eos_token_ids:
            assert (len(reply.ids), reply.finish_reason) == (limit, "length")


async def check_the_context_budget_holds(case: EngineCase) -> None:
    """A reply stops at `max_context_tokens`; a prompt that leaves no room is a ValueError."""
    most = case.engine.max_context_tokens
    sampling = Sampling(max_new_tokens=50, seed=3)
    reply = await case.engine.generate(case.prompt(7, most - 3), sampling, version=0)
    assert len(reply.ids) <= 3
    if len(reply.ids) == 3 and reply.ids[-1] not in case.engine.eos_token_ids:
        assert reply.finish_reason == "length"
    for bad in (case.prompt(7, most), []):
        try:
            await case.engine.generate(bad, sampling, version=0)
        except ValueError:
            continue
        raise AssertionError(f"a prompt of {len(bad)} tokens was accepted")


async def check_cancelling_frees_the_place(case: EngineCase) -> None:
    """More long replies than fit are cancelled; the next request is answered at once."""
    long = Sampling(max_new_tokens=case.engine.max_context_tokens, seed=1)
    tasks = [
        asyncio.create_task(case.engine.generate(case.prompt(20 + i), long, version=0))
        for i in range(2 * case.max_batch)
    ]
    await asyncio.sleep(0)  # every task has asked
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(e, asyncio.CancelledError | Generation) for e in ended), ended
    reply = await asyncio.wait_for(
        case.engine.generate(case.prompt(8), Sampling(max_new_tokens=3, seed=2), version=0), timeout=60
    )
    assert reply.finish_reason in ("length", "stop")


async def check_versions_are_kept_apart(case: EngineCase) -> None:
    """None is the newest; a reply says which version sampled it; unloaded and unknown ones are KeyErrors."""
    first, second = await case.load(0), await case.load(1)
    sampling = Sampling(max_new_tokens=6, seed=4)
    wanted = [None, first, 0, second, first, None]
    replies = await asyncio.gather(
        *(case.engine.generate(case.prompt(9), sampling, version=version) for version in wanted)
    )
    assert [r.version for r in replies] == [second, first, 0, second, first, second]
    by_version = {r.version: (r.ids, r.logprobs) for r in replies}
    assert len({str(reply) for reply in by_version.values()}) == 3, "versions answer alike"
    await case.engine.unload(second)
    await case.engine.unload(second)
    assert (await case.engine.generate(case.prompt(9), sampling)).version == first
    for gone in (second, 10**6):
        await _expect(KeyError, case.engine.generate(case.prompt(9), sampling, version=gone))
        await _expect(KeyError, case.engine.logprobs(case.prompt(9), version=gone))
    await _expect(ValueError, case.engine.load_adapter(case.adapter_folders[0], first))
    await case.engine.unload(first)
    assert (await case.engine.generate(case.prompt(9), sampling)).version == 0


async def check_a_reply_keeps_the_version_it_began_with(case: EngineCase) -> None:
    """Loading a version while replies run changes none of them."""
    old = await case.load(0)
    sampling = Sampling(max_new_tokens=40, seed=9)
    expected = await case.engine.generate(case.prompt(10), sampling)
    running = asyncio.create_task(case.engine.generate(case.prompt(10), sampling))
    await asyncio.sleep(0)
    new = await case.load(1)
    after = await case.engine.generate(case.prompt(10), sampling)
    reply = await running
    assert (reply.version, reply.ids) == (old, expected.ids)
    assert after.version == new
    for version in (old, new):
        await case.engine.unload(version)


async def check_logprobs_are_those_of_the_tempered_distribution(case: EngineCase) -> None:
    """log_softmax(logits / T) of the model itself; temperature 0 is the likeliest id, untempered."""
    samplings = [Sampling(max_new_tokens=16, seed=i, temperature=t) for i, t in enumerate((1.0, 0.5, 1.7, 0))]
    replies = await asyncio.gather(
        *(case.engine.generate(case.prompt(30 + s.seed), s, version=0) for s in samplings)
    )
    for sampling, reply in zip(samplings, replies, strict=True):
        _compare(case, case.prompt(30 + sampling.seed), sampling, reply, adapter=None)


async def check_filters_renormalise_the_logprobs(case: EngineCase) -> None:
    """top-k, top-p and both: log p minus the log of what is kept, and nothing else is ever drawn."""
    samplings = [
        Sampling(max_new_tokens=16, seed=1, top_k=5),
        Sampling(max_new_tokens=16, seed=2, top_p=0.6),
        Sampling(max_new_tokens=16, seed=3, top_k=20, top_p=0.8, temperature=1.3),
        Sampling(max_new_tokens=16, seed=4, top_k=1),
        Sampling(max_new_tokens=16, seed=5),
    ]
    replies = await asyncio.gather(
        *(case.engine.generate(case.prompt(40 + s.seed), s, version=0) for s in samplings)
    )
    for sampling, reply in zip(samplings, replies, strict=True):
        _compare(case, case.prompt(40 + sampling.seed), sampling, reply, adapter=None)


async def check_adapters_sample_as_peft_does(case: EngineCase) -> None:
    """Base and two adapters at once: every logprob is that of peft's model."""
    versions = {
        0: None,
        await case.load(0): case.adapter_folders[0],
        await case.load(1): case.adapter_folders[1],
    }
    sampling = Sampling(max_new_tokens=12, seed=8)
    replies = await asyncio.gather(
        *(case.engine.generate(case.prompt(50), sampling, version=v) for v in versions for _ in range(2))
    )
    for reply in replies:
        _compare(case, case.prompt(50), sampling, reply, adapter=versions[reply.version])
    for version in versions:
        await case.engine.unload(version)


async def check_the_canary_matches_peft(case: EngineCase) -> None:
    """`logprobs` of 64 fixed ids under every version, also when the prompt has been seen before."""
    ids = case.prompt(60, 64)
    versions = {
        await case.load(0): case.adapter_folders[0],
        await case.load(1): case.adapter_folders[1],
        0: None,
    }
    for version in (*versions, *versions):
        found = await case.engine.logprobs(ids, version=version)
        logits = reference_logits(case, ids, versions[version])
        expected = [row[i] for row, i in zip(logits.log_softmax(-1).tolist(), ids[1:], strict=False)]
        worst = max(abs(a - b) for a, b in zip(found, expected, strict=True))
        assert worst < TOLERANCE, f"version {version}: log probabilities differ by {worst:.2g}"
    for version in versions:
        await case.engine.unload(version)


async def check_many_syncs_leave_the_base_alone(case: EngineCase) -> None:
    """After 50 loads, each sampled from, the base gives bit for bit what it gave before."""
    ids = case.prompt(61, 24)
    before = await case.engine.logprobs(ids, version=0)
    for turn in range(50):
        version = await case.load(turn % 2)
        await case.engine.generate(case.prompt(62), Sampling(max_new_tokens=1, seed=turn))
        await case.engine.unload(version)
    after = await case.engine.logprobs(ids, version=0)
    worst = max(abs(a - b) for a, b in zip(before, after, strict=True))
    assert worst < 1e-6, f"the base drifted by {worst:.2g}"


async def check_closing_aborts(case: EngineCase) -> None:
    """Waiting calls end with "abort"; later ones are refused. The case's engine is closed afterwards."""
    long = Sampling(max_new_tokens=case.engine.max_context_tokens, seed=1)
    tasks = [asyncio.create_task(case.engine.generate(case.prompt(70 + i), long)) for i in range(3)]
    await asyncio.sleep(0)
    await case.engine.close()
    replies = await asyncio.wait_for(asyncio.gather(*tasks), timeout=60)
    assert {r.finish_reason for r in replies} <= {"abort", "stop"}, replies
    assert all(len(r.ids) == len(r.logprobs) for r in replies)
    await _expect(RuntimeError, case.engine.generate(case.prompt(70), long))


CHECKS: tuple[Check, ...] = (
    check_the_seed_decides_the_ids,
    check_samples_of_one_prompt_differ_by_seed_only,
    check_a_stop_token_ends_the_reply_and_stays,
    check_a_stop_text_ends_the_reply,
    check_a_limit_ends_the_reply_with_length,
    check_the_context_budget_holds,
    check_cancelling_frees_the_place,
    check_versions_are_kept_apart,
    check_a_reply_keeps_the_version_it_began_with,
)
MODEL_CHECKS: tuple[Check, ...] = (
    check_logprobs_are_those_of_the_tempered_distribution,
    check_filters_renormalise_the_logprobs,
    check_adapters_sample_as_peft_does,
    check_the_canary_matches_peft,
    check_many_syncs_leave_the_base_alone,
)


def reference_logits(case: EngineCase, ids: Sequence[int], adapter: Path | None) -> Any:
    """Return float32 logits [len(ids), V] of a plain forward pass, through peft when there is an adapter."""
    import torch
    from peft import PeftModel

    from castform_trainer.models import load_causal_lm

    assert case.model_folder is not None, "this check needs a model"
    model = load_causal_lm(case.model_folder, dtype="float32", device="cpu")
    if adapter is not None:
        model = PeftModel.from_pretrained(model, adapter)
    with torch.inference_mode():
        return model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0].float()


def _compare(
    case: EngineCase, prompt: Sequence[int], sampling: Sampling, reply: Generation, *, adapter: Path | None
) -> None:
    """Hold each logprob of a reply against the model's own distribution, filtered here anew."""
    logits = reference_logits(case, [*prompt, *reply.ids], adapter)[len(prompt) - 1 : -1]
    assert len(reply.ids) == len(reply.logprobs) == len(logits)
    scaled = logits / (sampling.temperature or 1.0)
    for step, (token, found) in enumerate(zip(reply.ids, reply.logprobs, strict=True)):
        logprobs = scaled[step].log_softmax(-1).tolist()
        if sampling.temperature == 0:
            assert logprobs[token] > max(logprobs) - TOLERANCE, (
                f"step {step}: {token} is not the likeliest id"
            )
            expected = logprobs[token]
        else:
            kept = _filter(logprobs, sampling)
            assert token in kept, f"step {step}: {token} was filtered out"
            expected = kept[token]
        assert abs(found - expected) < TOLERANCE, f"step {step}: log p {found:.6f}, expected {expected:.6f}"


def _filter(logprobs: Sequence[float], sampling: Sampling) -> dict[int, float]:
    """The kept ids and their renormalised log probabilities: top-k first, then top-p of what is left."""
    import math

    order = sorted(range(len(logprobs)), key=lambda i: -logprobs[i])
    if sampling.top_k:
        order = order[: sampling.top_k]
    mass = math.fsum(math.exp(logprobs[i]) for i in order)
    kept, reached = [], 0.0
    for i in order:
        kept.append(i)
        reached += math.exp(logprobs[i]) / mass
        if sampling.top_p < 1 and reached >= sampling.top_p:
            break
    total = math.log(math.fsum(math.exp(logprobs[i]) for i in kept))
    return {i: logprobs[i] - total for i in kept}


async def _expect(kind: type[Exception], call: Awaitable[object]) -> None:
    try:
        await call
    except kind:
        return
    raise AssertionError(f"expected {kind.__name__}")
