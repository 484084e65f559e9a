"""Run one trial of an agent that travels as files, by the real harbor in this process. Arguments: tasks, command."""

import asyncio
import sys
from pathlib import Path

from benchmax.envs import RolloutRequest, StaticBearerAuth
from benchmax.envs.harbor import (
    AgentConfig,
    BundledAgentSource,
    BundledHarborAgent,
    DatasetConfig,
    EnvironmentConfig,
    HarborEnv,
    HarborTrialTemplate,
    VerifierConfig,
)

AGENT = b"""
from harbor.agents.base import BaseAgent

from .words import COMMAND


class Writer(BaseAgent):
    @staticmethod
    def name():
        return "writer"

    def version(self):
        return "1"

    async def setup(self, environment):
        assert self.model_name == "openai/tiny"

    async def run(self, instruction, environment, context):
        await environment.exec(COMMAND)
        context.metadata = {"termination_reason": "max_turns_exceeded"}
"""


async def main() -> None:
    source = BundledAgentSource.from_files(
        {"agent.py": AGENT, "words.py": f"COMMAND = {sys.argv[2]!r}\n".encode()}
    )
    env = HarborEnv(
        dataset=DatasetConfig(path=sys.argv[1], task_names=["workdir"]),
        eval_ratio=0,
        trial=HarborTrialTemplate(
            agent=BundledHarborAgent(AgentConfig(import_path="agent:Writer"), source),
            environment=EnvironmentConfig(import_path="castform_docker:DockerCli"),
            verifier=VerifierConfig(),
        ),
    )
    dataset = await env.create_dataset("train", Path.cwd())
    auth = StaticBearerAuth("sesame")
    request = RolloutRequest("r-1", dataset[0], "tiny", "http://127.0.0.1:1/v1", auth)
    outcome = (await env.run_group([request]))["r-1"]
    print(dict(outcome.rewards), outcome.termination_reason, outcome.error)


asyncio.run(main())
