"""What a judge that gives no verdict costs: the score of a rollout, never a score of zero."""

from __future__ import annotations

from benchmax.envs.shared_types import RolloutFailure


class JudgeError(RolloutFailure):
    """No verdict: the rollout ends unscored with the reason `judge_error`, its siblings go on."""

    def __init__(self, message: str) -> None:
        super().__init__("judge_error", message)

    def __reduce__(self) -> tuple[type[JudgeError], tuple[str]]:  # type: ignore[override]  # one argument fewer
        return type(self), (self.message,)
