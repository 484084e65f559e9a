"""The model that a box is connected to, and nothing beside it."""

from __future__ import annotations

import asyncio

from castform.sandbox.contract import NetworkMode, NetworkPolicy
from castform.testing.sandboxes.rule import SandboxRule, check_equal, check_that, claim_isolation
from castform.testing.sandboxes.subject import Examined, run_shell
from castform.testing.sandboxes.upstream import fetch, fetch_all, serve_sessions

_READ_ALL = 'env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2> /dev/null | tr "\\0" "\\n"; true'


async def check_connect(examined: Examined) -> None:
    """Under every policy that the provider has."""
    for mode in sorted(examined.capabilities.networks):
        await _check_connect(examined, mode)


async def _check_connect(examined: Examined, mode: NetworkMode) -> None:
    policy = NetworkPolicy(mode=mode, allowed_hosts=("castform.invalid",) if mode == "allowlist" else ())
    async with (
        serve_sessions() as upstream,
        examined.own_box(examined.make_request(network=policy)) as box,
    ):
        inside = await box.connect(upstream.first)
        check_equal("the model's name inside", inside.model, "model-first")
        check_that(inside.base_url.endswith("/v1"), f"the base URL inside is {inside.base_url}")
        check_that(inside.api_key != upstream.first.api_key, "the key inside is the real one")
        said = await fetch(box, f"{inside.base_url}/models", inside.api_key)
        check_that(
            "status 200" in said and '"first"' in said,
            f"under network {mode!r} the model that was connected answers {said!r}",
        )
        check_equal(
            "the path and key that the server saw",
            upstream.asked[-1],
            ("/sessions/first/v1/models", upstream.first.api_key),
        )


async def check_one_session_only(examined: Examined) -> None:
    async with serve_sessions() as upstream, examined.own_box() as box:
        inside = await box.connect(upstream.first)
        root = inside.root_url
        await fetch(box, f"{inside.base_url}/models", inside.api_key)
        urls = (
            f"{root}/sessions/second/v1/models",
            f"{root}/v1/../../second/v1/models",
            f"{root}/v1/%2e%2e/%2e%2e/second/v1/models",
            f"{root}/v1/models/..%2f..%2f..%2fsecond/v1/models",
            f"{root}//sessions/second/v1/models",
            f"{root}/sessions",
        )
        keys = (inside.api_key, upstream.second.api_key)
        await fetch_all(box, [(url, key) for url in urls for key in keys])
        strange = [path for path, _ in upstream.asked if not path.startswith("/sessions/first/v1/")]
        check_equal("paths that were reached outside of the session", strange, [])
        seen = {key for _, key in upstream.asked}
        check_equal("keys that the server saw", seen, {upstream.first.api_key})


async def check_key_hidden(examined: Examined) -> None:
    async with serve_sessions() as upstream, examined.own_box() as box:
        inside = await box.connect(upstream.first)
        everything = await run_shell(box, _READ_ALL, max_output_bytes=8 << 20)
        check_that(
            upstream.first.api_key not in everything,
            "the real key is in a process's variables or words inside",
        )
        check_that(
            upstream.first.api_key not in inside.api_key + inside.base_url,
            "the real key is part of what a program gets inside",
        )
        said = await fetch(box, f"{inside.base_url}/models", "wrong-key")
        check_that("status 200" not in said, "the relay answers to any key")
        status = await asyncio.to_thread(_ask_outside, f"{upstream.first.base_url}/models", inside.api_key)
        check_equal("the real server's answer to the key of inside", status, 401)


async def check_connect_again(examined: Examined) -> None:
    async with serve_sessions() as upstream, examined.own_box() as box:
        earlier = await box.connect(upstream.first)
        later = await box.connect(upstream.second)
        said = await fetch(box, f"{later.base_url}/models", later.api_key)
        check_that("status 200" in said and '"second"' in said, f"the later model answers {said!r}")
        said = await fetch(box, f"{earlier.base_url}/models", earlier.api_key)
        check_that('"first"' not in said, "the model that was connected before is still reachable")


async def check_other_box(examined: Examined) -> None:
    async with serve_sessions() as upstream, examined.own_box() as one, examined.own_box() as other:
        first = await one.connect(upstream.first)
        second = await other.connect(upstream.second)
        said = await fetch(one, f"{first.base_url}/models", first.api_key)
        check_that('"first"' in said, f"the first box's own model answers {said!r}")
        upstream.asked.clear()
        keys = (first.api_key, second.api_key, upstream.first.api_key)
        await fetch_all(other, [(f"{first.base_url}/models", key) for key in keys])
        reached = [path for path, _ in upstream.asked if "first" in path]
        check_equal("requests of another box that reached the first one's session", reached, [])


def _ask_outside(url: str, key: str) -> int:
    import httpx

    return httpx.get(url, headers={"Authorization": f"Bearer {key}"}, trust_env=False).status_code


RULES = (
    SandboxRule(
        name="connect",
        promise="A connected model answers from inside under every network policy, by a key that is not the real one.",
        check=check_connect,
    ),
    SandboxRule(
        name="connect-one-session",
        promise="Through a connected model no other session and no other path of its server is reached.",
        check=check_one_session_only,
    ),
    SandboxRule(
        name="key-hidden",
        promise="The real key is nowhere inside, and the key of inside opens nothing outside.",
        check=check_key_hidden,
    ),
    SandboxRule(
        name="connect-replaces", promise="A later connect replaces an earlier one.", check=check_connect_again
    ),
    SandboxRule(
        name="connect-other-box",
        promise="A box does not reach the model session of another, even by its keys.",
        check=check_other_box,
        find_disclaimer=claim_isolation,
    ),
)
