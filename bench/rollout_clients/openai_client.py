"""The openai client and a string comparison, nothing kept; with --aiohttp, on its aiohttp transport."""

from __future__ import annotations

import asyncio
import sys

import openai
from arguments import question, read_arguments
from measure import measure


async def run(base_url: str, rollouts: int, concurrency: int, *, aiohttp: bool) -> int:
    numbers = iter(range(rollouts))
    right = 0
    http_client = openai.DefaultAioHttpClient() if aiohttp else None
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none", http_client=http_client) as client:

        async def work() -> None:
            nonlocal right
            for number in numbers:
                reply = await client.chat.completions.create(
                    model="mock", messages=[{"role": "user", "content": question(number)}]
                )
                right += reply.choices[0].message.content == "42"

        await asyncio.gather(*(work() for _ in range(concurrency)))
    return right


if __name__ == "__main__":
    use_aiohttp = "--aiohttp" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--aiohttp"]
    arguments = read_arguments()
    measure(
        lambda: asyncio.run(
            run(arguments.base_url, arguments.rollouts, arguments.concurrency, aiohttp=use_aiohttp)
        ),
        arguments.rollouts,
    )
