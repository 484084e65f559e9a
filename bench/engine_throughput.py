"""Output tokens a second of the transformers engine beside `model.generate`, same weights, same run.

    python bench/engine_throughput.py [--model smollm2-135m] [--batches 1,8,32,64] [--threads 2]

Prompts of 64 random ids, 48 new tokens each, temperature 1, prefill included; every row has a
prompt of its own unless `--siblings N` gives each prompt N rows. Rounds alternate between the two so that
a busy machine slows both; the ratio of medians is what counts. One JSON line a batch size.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time

import torch

from castform.calls import Sampling
from castform.config import ModelSection
from castform_trainer.engines.transformers import TransformersEngine
from castform_trainer.models import load_causal_lm, open_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--batches", default="1,8,32,64")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--siblings", type=int, default=1)
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--new-tokens", type=int, default=48)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    folder = open_model(ModelSection(id=args.model))
    model = load_causal_lm(folder.path, dtype=folder.dtype, device=folder.device)
    engine = TransformersEngine(folder, max_batch=64, threads=args.threads, prefix_cache_mb=0)
    engine.eos_token_ids = ()  # every reply runs to its limit, here and there
    for batch in map(int, args.batches.split(",")):
        times: dict[str, list[float]] = {"castform": [], "generate": []}
        for turn in range(args.rounds):
            prompts = make_prompts(batch, args.siblings, args.prompt_tokens, turn, model.config.vocab_size)
            times["castform"].append(time_castform(engine, prompts, args.new_tokens))
            times["generate"].append(time_generate(model, prompts, args.new_tokens))
        rate = {name: batch * args.new_tokens / statistics.median(taken) for name, taken in times.items()}
        print(
            json.dumps(
                {
                    "batch": batch,
                    "siblings": args.siblings,
                    "castform_tokens_per_second": round(rate["castform"], 1),
                    "generate_tokens_per_second": round(rate["generate"], 1),
                    "ratio": round(rate["castform"] / rate["generate"], 2),
                }
            ),
            flush=True,
        )
    asyncio.run(engine.close())


def make_prompts(batch: int, siblings: int, length: int, turn: int, vocabulary: int) -> list[list[int]]:
    """Return `batch` prompts, each distinct one `siblings` times in a row."""
    generator = torch.Generator().manual_seed(1000 * batch + turn)
    distinct = torch.randint(100, vocabulary, (-(-batch // siblings), length), generator=generator).tolist()
    return [distinct[index // siblings] for index in range(batch)]


def time_castform(engine: TransformersEngine, prompts: list[list[int]], new_tokens: int) -> float:
    """Return the seconds until every reply is there."""

    async def sample() -> None:
        requests = [
            engine.generate(prompt, Sampling(max_new_tokens=new_tokens, seed=seed))
            for seed, prompt in enumerate(prompts)
        ]
        await asyncio.gather(*requests)

    started = time.perf_counter()
    asyncio.run(sample())
    return time.perf_counter() - started


def time_generate(model: object, prompts: list[list[int]], new_tokens: int) -> float:
    """Return the seconds of one padded `generate` call over all rows."""
    ids = torch.tensor(prompts)
    started = time.perf_counter()
    with torch.inference_mode():
        model.generate(  # type: ignore[attr-defined]  # transformers has no type information
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            max_new_tokens=new_tokens,
            min_new_tokens=new_tokens,
        )
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
