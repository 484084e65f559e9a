"""A model server that is a script, with the faults that real ones have. Real HTTP on loopback; no model, no key."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from castform.endpoint import SessionGrant
from castform.scripted_endpoint import ScriptedEndpoint
from castform.scripted_replies import Answer, Fault, Script, ScriptedRequest, make_reply
from castform.testing.troubles import Schedule, befall


class MockEndpoint(ScriptedEndpoint):
    """Answers chat requests with the given replies in order, or with a function of the request.

    It is an `Endpoint` for `run_group`, and an OpenAI server for any client::

        with MockEndpoint(["4"], faults=[every(3, rate_limited())]) as endpoint:
            client = openai.OpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key)

    Each session starts at the first reply; a request beyond the last one is answered 400. Of
    several `faults` the first that has something for a request wins. Streaming and `n` work
    as they do at any server.
    """

    def __init__(
        self,
        replies: Sequence[Answer] | Script,
        *,
        faults: Sequence[Schedule] = (),
        model: str = "mock",
    ) -> None:
        super().__init__(replies if callable(replies) else _in_order(list(replies)), model=model)
        self.asked: list[ScriptedRequest] = []
        """Every request so far, those with faults too; of `n` choices the first."""
        self._faults = tuple(faults)
        self._grant: SessionGrant | None = None

    def answer(self, script: Script, request: ScriptedRequest) -> Answer:
        if request.choice == 0:
            self.asked.append(request)
        for schedule in self._faults:
            trouble = schedule(request, len(self.asked) - 1)
            if trouble is not None:
                return befall(make_reply(script(request)), trouble)
        return script(request)

    @property
    def base_url(self) -> str:
        """An OpenAI-compatible address, ends in /v1; the server starts when it is first asked for."""
        return self._own_session().base_url

    @property
    def api_key(self) -> str:
        """The key that goes with `base_url`."""
        return self._own_session().api_key

    def _own_session(self) -> SessionGrant:
        if self._grant is None:
            self._grant = self.add_session("own")
        return self._grant

    def __enter__(self) -> MockEndpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> MockEndpoint:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _in_order(replies: Sequence[Answer]) -> Script:
    def answer(request: ScriptedRequest) -> Answer:
        if request.index < len(replies):
            return replies[request.index]
        return Fault(
            status=400,
            message=f"request {request.index + 1} of a conversation, but the script has {len(replies)} replies",
        )

    return answer
