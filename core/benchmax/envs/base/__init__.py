"""BaseEnv: the chat and tool loop as an environment."""

from __future__ import annotations

from benchmax.envs.base.dataset import JsonlDataset, resolve_dataset_path
from benchmax.envs.base.env import BaseEnv
from benchmax.envs.base.rollout import BaseRollout
from benchmax.envs.shared_types import JsonRow, Message, Messages, Tool

__all__ = [
    "BaseEnv",
    "BaseRollout",
    "JsonRow",
    "JsonlDataset",
    "Message",
    "Messages",
    "Tool",
    "resolve_dataset_path",
]
