"""Which call a tool result answers: by its id, by the function's name, or in turn."""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmax.sft.limits import MAX_MESSAGES
from benchmax.sft.wording import named, shown
from castform.sft.convert.draft import Draft, Place, Row
from castform.sft.convert.notes import RefusedError


class _OpenCall(NamedTuple):
    source_id: str | None
    """What the source called it."""
    id: str
    name: object


class CallLinks:
    """The calls of a row so far. Every id becomes unique in the row; results follow in the order of the calls.

    `says_ids`: the format has ids, so that one that is missing is worth a note.
    """

    def __init__(self, draft: Draft, *, says_ids: bool = True) -> None:
        self._draft = draft
        self._says_ids = says_ids
        self._taken: set[str] = set()
        self._open: list[_OpenCall] = []
        self._results: list[tuple[int, Row, Place]] = []
        self._place = ""

    def open(self, calls: list[Any], location: str) -> None:
        """Give the calls of a message their ids and wait for their results. RefusedError: they are far too many."""
        if len(calls) > MAX_MESSAGES:
            text = f"{len(calls)} calls need as many results, and a row has at most {MAX_MESSAGES} messages"
            raise RefusedError("too_many_messages", location, text)
        self._place = location
        own = {call["id"] for call in calls if isinstance(call, dict) and isinstance(call.get("id"), str)}
        for number, call in enumerate(calls):
            if not isinstance(call, dict):
                continue
            source = call.get("id")
            if source is not None and (not isinstance(source, str) or not source):
                continue  # for the check of the row to refuse
            place = f"{location}[{number}].id"
            if source is None:
                call["id"] = self._free_id(own)
                if self._says_ids:
                    self._draft.note("call_id_added", place, f"the call got the id {shown(call['id'])}")
            elif source in self._taken:
                call["id"] = self._free_id(own)
                text = (
                    f"{shown(source)} is the id of an earlier call too; this one is {shown(call['id'])} now"
                )
                self._draft.note("call_id_renamed", place, text)
            self._taken.add(call["id"])
            function = call.get("function")
            name = function.get("name") if isinstance(function, dict) else None
            self._open.append(_OpenCall(source, call["id"], name))

    def answer(self, message: Row, index: int, name: object, place: Place) -> None:
        """Take the result that is message `index` of the source, with the function's name where there is one.

        RefusedError: it answers no call.
        """
        source = message.get("tool_call_id")
        answered = {each for each, _, _ in self._results}
        waiting = [each for each in range(len(self._open)) if each not in answered]
        if source is not None:
            found = [each for each in waiting if self._open[each].source_id == source]
        else:
            found = [each for each in waiting if name is None or self._open[each].name == name]
            if not found:
                what = "a result without an id" if name is None else f"a result of {shown(name)}"
                text = f"{what} follows no call that waits for one"
                raise RefusedError("result_unlinked", place.message, text)
            if self._says_ids:
                text = f"the result got the id {shown(self._open[found[0]].id)} of the call it answers"
                self._draft.note("call_id_added", place.message, text)
        if not found:  # for the check of the row to refuse
            self._results.append((len(self._open) + len(self._results), message, place))
            return
        call = self._open[found[0]]
        message["tool_call_id"] = call.id
        if name is not None and name == call.name:
            self._draft.note("name_redundant", f"{place.message}.name", f"the result of {shown(name)}")
        elif name is not None:
            self._draft.keep_fields(place.message, {"name": name}, message=index)
        self._results.append((found[0], message, place))

    def close(self, *, at_end: bool = False) -> None:
        """Write the results behind their calls; at the end of the row, empty ones for calls that have none."""
        if not self._open and not self._results:
            return
        order = [index for index, _, _ in self._results]
        if order != sorted(order):
            self._draft.note(
                "results_reordered", self._place, "results stood in another order than their calls"
            )
        self._results.sort(key=lambda result: result[0])
        missing = [index for index in range(len(self._open)) if index not in order]
        if at_end and missing:
            names = named(self._open[index].id for index in missing)
            self._draft.note("result_added", self._place, f"the row ended without results of {names}")
            for index in missing:
                empty = {"role": "tool", "tool_call_id": self._open[index].id, "content": ""}
                self._results.append((index, empty, Place(self._place, self._place)))
            self._results.sort(key=lambda result: result[0])
        for _, message, place in self._results:
            self._draft.messages.append(message)
            self._draft.places.append(place)
        self._open, self._results = [], []

    def _free_id(self, own: set[str]) -> str:
        number = len(self._taken) + 1
        while f"call_{number}" in self._taken or f"call_{number}" in own:
            number += 1
        return f"call_{number}"
