"""The engine over HTTP: a vLLM server, started here or joined by its URL.

Imports neither torch nor vllm. The server has an environment of its own, because it pins
its own torch and transformers. docs/engines.md has the options and the traps.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from castform.calls import Sampling
from castform.errors import CastformError, RunFailedError, UsageError
from castform_trainer.engines.contract import Generation
from castform_trainer.engines.vllm_adapters import AdapterVersions
from castform_trainer.engines.vllm_client import (
    ClientClosedError,
    ServerGoneError,
    ServerRefusedError,
    VllmClient,
)
from castform_trainer.engines.vllm_protocol import (
    NO_LOGPROB,
    BadReplyError,
    make_completion_request,
    make_scoring_request,
    parse_generation,
    parse_scores,
)
from castform_trainer.engines.vllm_server import ServerProcess

SCORES_PER_REQUEST = 16
"""Positions that one canary request scores; a server allows 20 named ids unless told otherwise."""

ADMIN_TIMEOUT_SECONDS = 120.0
"""For loading and unloading an adapter."""


class VllmEngine:
    """An Engine (see the contract) whose sampler is a vLLM server."""

    def __init__(
        self,
        *,
        client: VllmClient,
        base_name: str,
        max_context_tokens: int,
        eos_token_ids: Sequence[int],
        request_timeout_seconds: float,
        work_dir: Path,
        adapter_dir: Path | None = None,
        server: ServerProcess | None = None,
        keep_log: bool = True,
    ) -> None:
        """`work_dir` is the engine's own and goes at `close`. So does `server`, and its log when
        `keep_log` is off and it was still running by then."""
        self.name = "vllm"
        self.max_context_tokens = max_context_tokens
        self.eos_token_ids = tuple(eos_token_ids)
        self.server = server
        self._client = client
        self._timeout = request_timeout_seconds
        self._work_dir = work_dir
        self._adapters = AdapterVersions(adapter_dir or work_dir / "adapters", base_name)
        self._keep_log = keep_log
        self._loading = asyncio.Lock()
        self._closed = False

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, version: int | None = None
    ) -> Generation:
        """See the contract. Raises RunFailedError when the server is gone or refuses."""
        self._check_open()
        room = self.max_context_tokens - len(prompt_ids)
        if not prompt_ids or room < 1:
            raise ValueError(
                f"a prompt of {len(prompt_ids)} tokens leaves no room for a reply in {self.max_context_tokens}"
            )
        with self._adapters.use(version) as used:
            request = make_completion_request(
                self._adapters.name_of(used),
                prompt_ids,
                sampling,
                max_new_tokens=min(sampling.max_new_tokens, room),
                stop_token_ids=[*self.eos_token_ids, *sampling.stop_token_ids],
            )
            try:
                reply = await self._post("/v1/completions", request, self._timeout)
                return parse_generation(reply, prompt_ids, used)
            except ClientClosedError:
                return Generation(ids=(), logprobs=(), finish_reason="abort", version=used)
            except BadReplyError as error:
                raise RunFailedError(f"the vLLM server at {self._client.url}: {error}") from error

    async def load_adapter(self, path: Path, version: int) -> None:
        """See the contract. Raises ValueError for an old version, UsageError for a folder that
        holds no adapter or one that the server does not take."""
        self._check_open()
        await self._client.run(self._load(path, version))

    async def unload(self, version: int) -> None:
        """See the contract."""
        name = self._adapters.name_of(version)
        if version and self._adapters.remove(version):
            await self._post("/v1/unload_lora_adapter", {"lora_name": name}, ADMIN_TIMEOUT_SECONDS)

    async def logprobs(self, ids: Sequence[int], *, version: int | None = None) -> list[float]:
        """See the contract. Each position is a request that samples one token after ids[:i]."""
        self._check_open()
        if not 2 <= len(ids) <= self.max_context_tokens:
            raise ValueError(f"{len(ids)} ids cannot be scored, 2 to {self.max_context_tokens} can")
        with self._adapters.use(version) as used:
            name = self._adapters.name_of(used)
            starts = range(1, len(ids), SCORES_PER_REQUEST)
            parts = await asyncio.gather(*(self._score(name, ids, start) for start in starts))
        return [value for part in parts for value in part]

    async def close(self) -> None:
        """See the contract. A joined server goes on without our adapters."""
        if self._closed:
            return
        self._closed = True
        if self.server is None:
            await self._leave()
        await asyncio.to_thread(self._release)

    async def check_sampling(self) -> None:
        """Raise RunFailedError unless the server reports the distribution that it draws from.

        At temperature 2 the differences between log p must be half of those at temperature 1,
        and no id may be filtered out. Also warms the sampler up.
        """
        name = self._adapters.name_of(0)
        prompt, probes = [self.eos_token_ids[0]] * 2, list(range(16))
        try:
            one, two = [
                parse_scores(await self._post("/v1/completions", request, self._timeout), 1, probes)[0]
                for request in (
                    make_scoring_request(name, [prompt], probes, temperature=t) for t in (1.0, 2.0)
                )
            ]
        except BadReplyError as error:
            raise RunFailedError(
                f"the vLLM server at {self._client.url}: {error}",
                hint="castform is tested with vLLM 0.32; older ones cannot score ids that are named",
            ) from error
        filtered = min(one) <= NO_LOGPROB
        gaps = [(a - one[0]) - 2 * (b - two[0]) for a, b in zip(one, two, strict=True)]
        if filtered or max(map(abs, gaps)) > 0.1:
            raise RunFailedError(
                f"the vLLM server at {self._client.url} reports logprobs before temperature and filters",
                hint="start it with --logprobs-mode processed_logprobs --generation-config vllm",
            )

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the engine is closed")

    async def _load(self, path: Path, version: int) -> None:
        """Runs on the client's loop, one at a time."""
        async with self._loading:
            try:
                copy = await asyncio.to_thread(self._adapters.copy_in, path, version)
                await self._post_zeros(copy)
                await self._post_adapter(copy.name, copy)
            except BaseException as error:
                if not isinstance(error, ValueError):  # then the folder is that of an older version
                    self._adapters.drop_copy(version)
                if isinstance(error, OSError):
                    raise RunFailedError(f"cannot copy the adapter {path} for vLLM: {error}") from error
                raise
            self._adapters.add(version)

    async def _post_zeros(self, copy: Path) -> None:
        zeros = await asyncio.to_thread(self._adapters.make_zeros, copy)
        if zeros is not None:
            await self._post_adapter(*zeros)
            self._adapters.add(0)

    async def _post_adapter(self, name: str, folder: Path) -> None:
        body = {"lora_name": name, "lora_path": str(folder)}
        await self._post("/v1/load_lora_adapter", body, ADMIN_TIMEOUT_SECONDS)

    async def _score(self, name: str, ids: Sequence[int], start: int) -> list[float]:
        positions = range(start, min(start + SCORES_PER_REQUEST, len(ids)))
        targets = [ids[i] for i in positions]
        request = make_scoring_request(name, [ids[:i] for i in positions], targets)
        try:
            reply = await self._post("/v1/completions", request, self._timeout)
            rows = parse_scores(reply, len(targets), targets)
        except BadReplyError as error:
            raise RunFailedError(f"the vLLM server at {self._client.url}: {error}") from error
        return [row[i] for i, row in enumerate(rows)]

    async def _post(self, path: str, body: dict[str, Any], timeout_seconds: float) -> Any:
        """Return the reply (JSON, hence `Any`); what goes wrong is a RunFailedError that says why."""
        try:
            return await self._client.call("POST", path, body, timeout_seconds=timeout_seconds)
        except ServerRefusedError as error:
            raise self._refusal(path, error) from error
        except ServerGoneError as error:
            raise RunFailedError(f"the vLLM server does not answer: {error}{self._log_end()}") from error

    def _refusal(self, path: str, error: ServerRefusedError) -> CastformError:
        alive = self.server is None or self.server.is_running()
        if path.endswith("_lora_adapter") and alive:  # an adapter that does not fit is a 500 there
            not_served = error.message == "Not Found"
            return UsageError(
                f"the vLLM server does not take the adapter: {error.message}",
                hint="start it with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"
                if not_served
                else "a joined server must see engine.options.adapter_dir under the same path",
            )
        end = self._log_end() if error.status >= 500 else ""
        return RunFailedError(f"the vLLM server refused {path} ({error.status}): {error.message}{end}")

    def _log_end(self) -> str:
        return f"\n{self.server.describe_end()}" if self.server is not None else ""

    async def _leave(self) -> None:
        for name in self._adapters.names():
            body = {"lora_name": name}
            try:
                await self._client.call("POST", "/v1/unload_lora_adapter", body, timeout_seconds=5.0)
            except (ServerRefusedError, ServerGoneError, ClientClosedError):
                return  # it is gone or has forgotten them: nothing is left to tidy up

    def _release(self) -> None:
        self._client.close()
        if self.server is not None:
            if self.server.is_running() and not self._keep_log:
                self.server.log_path.unlink(missing_ok=True)
            self.server.stop()
        self._adapters.drop_copies()
        shutil.rmtree(self._work_dir, ignore_errors=True)
