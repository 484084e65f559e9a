"""What became of a box's calls to its model: one that was not there must not be taken for a poor agent."""

from __future__ import annotations

GENERATING = frozenset({"completions", "messages", "responses"})
"""Last words of the paths at which a model speaks. Lists of models, counts and embeddings say nothing here."""
_REFUSALS = frozenset({401, 402, 403, 404, 407})
"""Of a server whose key, address or model's name is wrong. One that has answered before is told apart:
then it is the client that asked for something else."""
_FAILURES = frozenset({408, 429})


class ModelCalls:
    """Calls of one endpoint, in the order in which they end. Relays note them; whoever judges an agent looks.

    Source: a server that refuses, cuts off or cannot be reached is infrastructure, and that is never a zero.
    A later answer clears an earlier failure, as clients try again.
    """

    def __init__(self) -> None:
        self.answered = 0
        """Calls at which the model spoke, or found the request itself at fault."""
        self._failure: str | None = None

    def note_status(self, method: str, path: str, status: int) -> None:
        """Note an answer that came whole. `path` without its query."""
        if not _is_generating(method, path):
            return
        failed = status in _FAILURES or status >= 500 or 300 <= status < 400
        if failed or (status in _REFUSALS and not self.answered):
            self._failure = f"the model's server answered {status}"
        elif status not in _REFUSALS:
            self.answered += 1
            self._failure = None

    def note_loss(self, method: str, path: str, words: str) -> None:
        """Note a call without an answer, or with a part of one. `words` say what happened to it."""
        if _is_generating(method, path):
            self._failure = words

    def find_failure(self) -> str | None:
        """Return what is wrong with the model when nothing has been answered since; None where nothing is."""
        return self._failure


def _is_generating(method: str, path: str) -> bool:
    return method == "POST" and path.rpartition("/")[2] in GENERATING
