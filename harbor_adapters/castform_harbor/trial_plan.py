"""Decide, before anything starts, what each phase of a trial gets: limits in time, users, environments."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from castform.errors import UsageError
from castform.harness.contract import AgentTask, Harness, McpServer
from castform.sandbox.contract import BoxRequest, Capabilities, ModelEndpoint, NetworkPolicy
from castform.sandbox.request import check_request, check_user
from castform_harbor.box import AGENT_LOGS, Box, choose_network, make_request
from castform_harbor.reference_agents import check_solution
from castform_harbor.secrets_scrub import find_secrets
from castform_harbor.support import check_supported
from castform_harbor.task import HarborTask, find_verifier_image
from castform_harbor.task_config import (
    AgentConfig,
    Artifact,
    CollectHook,
    EnvironmentConfig,
    StepConfig,
    VerifierConfig,
    resolve_verifier_mode,
)
from castform_harbor.task_parsing import find_artifact_problems
from castform_harbor.templates import fill_embedded, fill_templates
from castform_harbor.trial_types import AGENT_SETUP_SECONDS, TrialOptions, UsedVerifier
from castform_harbor.verifier import Tests

TRIAL_LABEL = "harbor.trial"
TASK_LABEL = "harbor.task"
LONGEST_SECONDS = 1e9
"""Thirty years: an agent's deadline is still a number that its program can read."""


@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """A task, what it is run with, and what follows from both. Making one checks every template."""

    task: HarborTask
    options: TrialOptions
    capabilities: Capabilities
    host_env: Mapping[str, str] = field(repr=False)
    labels: Mapping[str, str]

    @property
    def phases(self) -> Sequence[StepConfig | None]:
        return self.task.steps or (None,)

    def agent_of(self, step: StepConfig | None) -> AgentConfig:
        """A step's agent has the task's limit, user and network where it names none."""
        own = self.task.config.agent
        if step is None:
            return own
        return AgentConfig(
            timeout_seconds=own.timeout_seconds
            if step.agent.timeout_seconds is None
            else step.agent.timeout_seconds,
            user=own.user if step.agent.user is None else step.agent.user,
            network=step.agent.network or own.network,
        )

    def verifier_of(self, step: StepConfig | None) -> VerifierConfig:
        """A step's verifier has its own limit in time (Harbor's 600 s), else the task's where it names none."""
        own = self.task.config.verifier
        if step is None:
            return own
        return replace(
            step.verifier,
            env={**own.env, **step.verifier.env},
            user=own.user if step.verifier.user is None else step.verifier.user,
            network=step.verifier.network or own.network,
            environment=step.verifier.environment or own.environment,
            collect=(*own.collect, *step.verifier.collect),
        )

    def agent_seconds(self, step: StepConfig | None) -> float | None:
        """None: no limit."""
        own = self.agent_of(step).timeout_seconds
        base = own if self.options.agent_timeout_seconds is None else self.options.agent_timeout_seconds
        limits = [limit for limit in (base, self.options.max_agent_timeout_seconds) if limit is not None]
        if not limits:
            return None
        return min(LONGEST_SECONDS, min(limits) * self._times(self.options.agent_timeout_multiplier))

    def verifier_seconds(self, step: StepConfig | None) -> float:
        own = self.verifier_of(step).timeout_seconds
        base = own if self.options.verifier_timeout_seconds is None else self.options.verifier_timeout_seconds
        return base * self._times(self.options.verifier_timeout_multiplier)

    def setup_seconds(self) -> float:
        return AGENT_SETUP_SECONDS * self._times(self.options.agent_setup_timeout_multiplier)

    def artifacts_of(self, step: StepConfig | None) -> tuple[Artifact, ...]:
        return (*self.task.config.artifacts, *(step.artifacts if step else ()), *self.options.artifacts)

    def hooks_of(self, step: StepConfig | None) -> tuple[CollectHook, ...]:
        return self.verifier_of(step).collect

    def mode_of(self, step: StepConfig | None) -> UsedVerifier:
        mode = resolve_verifier_mode(self.task.config, step)
        return "fresh" if mode == "shared" and self.options.verifier == "fresh" else mode

    def agent_request(self) -> tuple[BoxRequest, Path | None, list[str]]:
        """Return the agent's box, what is uploaded to its working folder, and warnings."""
        environment = self.task.config.environment
        network, warning = choose_network(environment, self.capabilities, self.options)
        request = self._request(environment, environment.docker_image, self.task.environment, network)
        return request, self._loose_files(environment), [warning] if warning else []

    def verifier_request(self, step: StepConfig | None) -> tuple[BoxRequest, Path | None]:
        """Return the box of a verification that is not the agent's, and what is uploaded into it."""
        config = self.task.config
        if self.mode_of(step) == "fresh":
            environment, image, context = config.environment, config.environment.docker_image, None
            loose = self._loose_files(environment)
        else:
            environment = self.verifier_of(step).environment or config.environment
            found = find_verifier_image(self.task.folder, config, step)
            image, context = found.docker_image, found.context
            loose = None if found.holds_tests else self._loose_files(config.environment)
        network = self.verifier_network(step, environment)
        return self._request(environment, image, context or self.task.environment, network), loose

    def agent_network(self, step: StepConfig | None) -> NetworkPolicy | None:
        """The network of the agent's phase; None: its box's."""
        return None if self.options.network == "none" else self.agent_of(step).network

    def verifier_network(
        self, step: StepConfig | None, environment: EnvironmentConfig | None = None
    ) -> NetworkPolicy:
        baseline, _ = choose_network(
            environment or self.task.config.environment, self.capabilities, self.options
        )
        own = None if self.options.network == "none" else self.verifier_of(step).network
        return own or baseline

    def tests_of(self, step: StepConfig | None) -> Tests:
        """Return what a verification runs."""
        config, mode = self.task.config, self.mode_of(step)
        holds = mode == "separate" and find_verifier_image(self.task.folder, config, step).holds_tests
        places = [self.task.tests]
        if step is not None:
            places.append(self.task.step_folder(step.name) / "tests")
        verifier = self.verifier_of(step)
        return Tests(
            folders=() if holds else [place for place in places if place.is_dir()],
            leaves_out=self.task.leaves_out(),
            env={
                **fill_templates(verifier.env, self.host_env, where="[verifier.env]"),
                **self.options.verifier_env,
            },
            user=verifier.user,
            timeout_seconds=self.verifier_seconds(step),
            shared=mode == "shared",
        )

    def agent_task(self, step: StepConfig | None, box: Box) -> AgentTask:
        """Return what the agent is told."""
        environment = self.task.config.environment
        text = self.task.step_instructions[step.name] if step else self.task.instruction
        trajectory = self.task.step_trajectories.get(step.name) if step else self.task.trajectory
        return AgentTask(
            instruction="\n\n".join([text, *self.options.extra_instructions]),
            workdir=box.workdir,
            user=self.agent_of(step).user,
            timeout_seconds=self.agent_seconds(step),
            env=dict(self.options.agent_env),
            mcp_servers=[self._fill_server(server) for server in environment.mcp_servers],
            skills_dir=environment.skills_dir,
            trajectory=trajectory,
            log_dir=AGENT_LOGS,
        )

    def check(self) -> None:
        """Fill every template and look at every request once.

        UsageError names the variables that this machine does not set, and what no box can be asked for.
        """
        config = self.task.config
        check_request(self.agent_request()[0])
        for step in self.phases:
            check_user(self.agent_of(step).user)
        for server in config.environment.mcp_servers:
            self._fill_server(server)
        if not self.options.verify:
            return
        for step in self.phases:
            self.tests_of(step)
            for user in (self.verifier_of(step).user, *(hook.user for hook in self.hooks_of(step))):
                check_user(user)
            if self.mode_of(step) != "shared":
                check_request(self.verifier_request(step)[0])

    def secrets(self, endpoint: ModelEndpoint | None = None) -> frozenset[str]:
        """Return the values that must not stay in the trial's files."""
        config = self.task.config
        environments = [config.environment.env, config.solution_env, self.options.agent_env]
        for step in self.phases:
            verifier = self.verifier_of(step)
            environments += [verifier.env, verifier.environment.env if verifier.environment else {}]
        filled = [{name: self._look_up(value) for name, value in values.items()} for values in environments]
        headers = [
            {name: self._look_up(value) for name, value in server.headers.items()}
            for server in config.environment.mcp_servers
        ]
        model = {"api_key": endpoint.api_key} if endpoint else {}
        return find_secrets(*filled, *headers, self.options.verifier_env, model)

    def _look_up(self, value: str) -> str:
        try:
            return fill_embedded(value, self.host_env, where="a template")
        except UsageError:
            return ""  # what is not set is no secret

    def _fill_server(self, server: McpServer) -> McpServer:
        headers = {
            name: fill_embedded(value, self.host_env, where=f"the MCP server {server.name!r}")
            for name, value in server.headers.items()
        }
        return replace(server, headers=headers)

    def _request(
        self, environment: EnvironmentConfig, image: str | None, context: Path | None, network: NetworkPolicy
    ) -> BoxRequest:
        return make_request(
            environment,
            image=image,
            context=context,
            env=fill_templates(environment.env, self.host_env, where="[environment.env]"),
            network=network,
            options=self.options,
            labels=self.labels,
        )

    def _loose_files(self, environment: EnvironmentConfig) -> Path | None:
        """Return environment/ where its files go into the working folder: an image is named, nothing is built."""
        folder = self.task.environment
        if environment.docker_image is None or not folder.is_dir() or (folder / "Dockerfile").is_file():
            return None
        return folder if any(folder.iterdir()) else None

    def _times(self, multiplier: float | None) -> float:
        return self.options.timeout_multiplier if multiplier is None else multiplier


def make_plan(
    task: HarborTask, options: TrialOptions, capabilities: Capabilities, *, trial_name: str
) -> TrialPlan:
    """Return the plan of a trial. UsageError: a template that cannot be filled, an artifact that is no path."""
    plan = TrialPlan(
        task=task,
        options=options,
        capabilities=capabilities,
        host_env=os.environ if options.host_env is None else options.host_env,
        labels={TRIAL_LABEL: trial_name, TASK_LABEL: task.short_name},
    )
    try:
        plan.check()
    except UsageError as error:
        raise UsageError(f"{task.name} cannot be run: {error}", hint=error.hint) from error
    problems = [problem for item in options.artifacts for problem in find_artifact_problems(item)]
    if problems:
        raise UsageError(f"an artifact {'; an artifact '.join(problems)}")
    return plan


def check_trial(
    task: HarborTask,
    *,
    harness: Harness,
    options: TrialOptions,
    capabilities: Capabilities,
    trial_name: str = "",
) -> TrialPlan:
    """Return the plan of a trial with a harness. Raises the UsageError that `run_trial` would before anything starts."""
    check_supported(task, capabilities, options)
    plan = make_plan(task, options, capabilities, trial_name=trial_name)
    check_solution(harness, task, plan.host_env)
    return plan
