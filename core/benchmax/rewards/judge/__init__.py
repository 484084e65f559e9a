"""Language models that judge: a verdict is read with distrust, and an outage is never a score."""

from __future__ import annotations

from benchmax.rewards.judge.dispatch import ask_judge
from benchmax.rewards.judge.errors import JudgeError
from benchmax.rewards.judge.fencing import fence
from benchmax.rewards.judge.judge import Judge
from benchmax.rewards.judge.verdict import read_number, read_verdict

__all__ = ["Judge", "JudgeError", "ask_judge", "fence", "read_number", "read_verdict"]
