"""The embedder against a real HTTP server on loopback."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from benchmax.envs import StaticBearerAuth
from benchmax.rag import DEFAULT_EMBED_MODEL, OpenAIEmbedder

AUTH = StaticBearerAuth("k3y")


class Vectors:
    """Serves what `answer` makes of the texts; keeps requests and keys."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.bodies: list[Any] = []
        self.keys: list[str] = []

    async def __aenter__(self) -> Vectors:
        app = web.Application()
        app.router.add_post("/v1/embeddings", self._serve)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.base_url = f"http://{host}:{port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        self.keys.append(request.headers["Authorization"])
        data = [
            {"object": "embedding", "index": index, "embedding": vector}
            for index, vector in self.answer(body["input"])
        ]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        return web.json_response({"object": "list", "model": body["model"], "data": data, "usage": usage})


async def test_vectors_come_back_in_the_order_of_the_texts() -> None:
    async with Vectors(lambda texts: reversed([(i, [float(len(t))]) for i, t in enumerate(texts)])) as server:
        embed = OpenAIEmbedder(DEFAULT_EMBED_MODEL, server.base_url, AUTH)
        assert await embed(["a", "bcd", ""]) == [[1.0], [3.0], [0.0]]
        assert await embed([]) == []
    assert len(server.bodies) == 1
    assert server.bodies[0]["model"] == "text-embedding-3-large"
    assert server.keys == ["Bearer k3y"]
    assert "k3y" not in repr(embed)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda texts: [(0, [1.0])], "gave 1 embeddings"),
        (lambda texts: [(0, [1.0]), (0, [1.0])], "indices"),
        (lambda texts: [(0, [1.0]), (1, [1.0, 2.0])], "different lengths"),
    ],
)
async def test_an_endpoint_that_miscounts_is_an_error(answer: Any, words: str) -> None:
    async with Vectors(answer) as server:
        with pytest.raises(RuntimeError, match=words):
            await OpenAIEmbedder("m", server.base_url, AUTH)(["a", "b"])


async def test_only_lists_of_texts_are_embedded() -> None:
    embed = OpenAIEmbedder("m", "http://127.0.0.1:9/v1", AUTH)
    for texts in ("abc", [1], [None]):
        with pytest.raises(TypeError, match="list of texts"):
            await embed(texts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"model": " "}, ValueError),
        ({"base_url": ""}, ValueError),
        ({"auth": "key"}, TypeError),
        ({"timeout": 0}, ValueError),
        ({"timeout": float("inf")}, ValueError),
        ({"timeout": True}, TypeError),
        ({"max_retries": -1}, ValueError),
        ({"max_retries": 1.5}, TypeError),
    ],
)
def test_a_senseless_setting_is_refused(settings: dict[str, Any], error: type[Exception]) -> None:
    good = {"model": "m", "base_url": "http://x/v1", "auth": AUTH}
    OpenAIEmbedder(**good, timeout=None, max_retries=0)  # type: ignore[arg-type]
    with pytest.raises(error):
        OpenAIEmbedder(**(good | settings))
