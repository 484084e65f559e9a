"""BaseEnv: the chat and tool loop as an environment."""

from __future__ import annotations

from benchmax.envs.base.dataset_path import resolve_dataset_path
from benchmax.envs.base.env import BaseEnv
from benchmax.envs.base.rollout import BaseRollout

__all__ = ["BaseEnv", "BaseRollout", "resolve_dataset_path"]
