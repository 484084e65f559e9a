"""Environments made of Harbor task folders. Harbor need not be installed."""

from __future__ import annotations

from benchmax.envs.harbor.bundled_agent import BundledAgentSource, BundledHarborAgent
from benchmax.envs.harbor.configs import (
    AgentConfig,
    ArtifactConfig,
    DatasetConfig,
    EnvironmentConfig,
    VerifierConfig,
)
from benchmax.envs.harbor.credentials import (
    CustomSandboxCredentials,
    DaytonaCredentials,
    ModalCredentials,
    SandboxCredentials,
)
from benchmax.envs.harbor.dataset import HarborDataset
from benchmax.envs.harbor.env import HarborAttempt, HarborEnv
from benchmax.envs.harbor.trial import HarborTrial, HarborTrialResult, HarborTrialTemplate, TrialRunner

__all__ = [
    "AgentConfig",
    "ArtifactConfig",
    "BundledAgentSource",
    "BundledHarborAgent",
    "CustomSandboxCredentials",
    "DatasetConfig",
    "DaytonaCredentials",
    "EnvironmentConfig",
    "HarborAttempt",
    "HarborDataset",
    "HarborEnv",
    "HarborTrial",
    "HarborTrialResult",
    "HarborTrialTemplate",
    "ModalCredentials",
    "SandboxCredentials",
    "TrialRunner",
    "VerifierConfig",
]
