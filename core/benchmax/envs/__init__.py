"""Everything an environment is written with."""

from __future__ import annotations

from benchmax.auth import InjectedAuth, ModelAuth, StaticBearerAuth, bind_model_auth
from benchmax.envs.base import BaseEnv, BaseRollout
from benchmax.envs.dataset import Dataset, JsonlDataset
from benchmax.envs.environment import Environment
from benchmax.envs.identity import canonical_example_id
from benchmax.envs.reward_values import RewardMap
from benchmax.envs.shared_types import (
    DatasetSplit,
    Example,
    JsonRow,
    Message,
    Messages,
    RolloutAttempt,
    RolloutFailure,
    RolloutOutcome,
    RolloutRequest,
    Tool,
    ValidationDiagnostic,
)
from benchmax.envs.tool_source import ToolSource
from benchmax.envs.tools import FunctionTool

__all__ = [
    "BaseEnv",
    "BaseRollout",
    "Dataset",
    "DatasetSplit",
    "Environment",
    "Example",
    "FunctionTool",
    "InjectedAuth",
    "JsonRow",
    "JsonlDataset",
    "Message",
    "Messages",
    "ModelAuth",
    "RewardMap",
    "RolloutAttempt",
    "RolloutFailure",
    "RolloutOutcome",
    "RolloutRequest",
    "StaticBearerAuth",
    "Tool",
    "ToolSource",
    "ValidationDiagnostic",
    "bind_model_auth",
    "canonical_example_id",
]
