"""The floor: a POST with aiohttp and a string comparison, nothing kept."""

from __future__ import annotations

import asyncio

import aiohttp
from arguments import question, read_arguments
from measure import measure


async def run(base_url: str, rollouts: int, concurrency: int) -> int:
    numbers = iter(range(rollouts))
    right = 0
    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def work() -> None:
            nonlocal right
            for number in numbers:
                body = {"model": "mock", "messages": [{"role": "user", "content": question(number)}]}
                async with session.post(f"{base_url}/chat/completions", json=body) as response:
                    reply = await response.json()
                right += reply["choices"][0]["message"]["content"] == "42"

        await asyncio.gather(*(work() for _ in range(concurrency)))
    return right


if __name__ == "__main__":
    arguments = read_arguments()
    measure(
        lambda: asyncio.run(run(arguments.base_url, arguments.rollouts, arguments.concurrency)),
        arguments.rollouts,
    )
