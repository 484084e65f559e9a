"""Do tool results answer tool calls: each once, in the order of the calls, before anything else?"""

from __future__ import annotations

from collections.abc import Iterator

from benchmax.sft.issues import Fault
from benchmax.sft.wording import named, shown


class CallWindow:
    """The calls of a row so far, and the window in which those of the last assistant message are answered.

    A window opens behind an assistant message with calls and closes at the next message that is
    no tool result, or at the end of the row.
    """

    def __init__(self) -> None:
        self.seen: set[str] = set()
        """Ids of all calls of the row so far."""
        self._ids: list[str] = []
        self._answered: list[bool] = []
        self._first = 0
        """No call before this one is without its result."""
        self._waiting: dict[str, list[int]] = {}
        """Calls without a result by their id, the last one first."""
        self._location = ""
        self._late: set[str] = set()
        """Ids whose window closed before they had a result."""

    def open(self, location: str, ids: list[str]) -> None:
        """Wait for the results of these calls; `location` is that of the `tool_calls`."""
        self._location, self._ids, self._answered = location, ids, [False] * len(ids)
        self._first, self._waiting = 0, {}
        for place in reversed(range(len(ids))):
            self._waiting.setdefault(ids[place], []).append(place)

    def close(self) -> Iterator[Fault]:
        """Yield `result_missing` when calls are without a result."""
        missing = [name for name, answered in zip(self._ids, self._answered, strict=True) if not answered]
        self._ids, self._answered, self._waiting = [], [], {}
        self._late.update(missing)
        if missing:
            text = f"tool calls {named(missing)} have no tool result before the next other message"
            yield Fault("result_missing", self._location, text)

    def answer(self, name: str, location: str) -> Iterator[Fault]:
        """Take the result of a call; yield what is wrong with where it stands."""
        places = self._waiting.get(name)
        if places:
            place = places.pop()
            while self._answered[self._first]:
                self._first += 1
            if self._first < place:
                first = self._ids[self._first]
                text = f"the result of {shown(name)} stands before that of {shown(first)}, which was called first"
                yield Fault("result_out_of_order", location, text)
            self._answered[place] = True
            return
        if name in self._late:
            self._late.discard(name)
            text = f"the result of {shown(name)} comes after its tool-call window closed: results follow their calls at once"
            yield Fault("result_late", location, text)
        elif name in self.seen:
            yield Fault("result_duplicate", location, f"the call {shown(name)} has a result already")
        else:
            yield Fault(
                "result_unknown_id", location, f"no message before this one makes a call {shown(name)}"
            )
