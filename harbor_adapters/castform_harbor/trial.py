"""One attempt at a Harbor task: box, agent, verification, reward; in Harbor's order, in Harbor's folders.

The reward is apart from the status. What fails that is not the agent leaves no reward, and never a
zero. Every box is closed whatever happens, a cancellation included.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from castform.errors import CastformError
from castform.harness.contract import Harness, HarnessError, HarnessResult
from castform.sandbox.contract import BoxRequest, Capabilities, ModelEndpoint, SandboxProvider
from castform.sandbox.errors import ExecTimeoutError
from castform.sandbox.model_calls import ModelCalls
from castform_harbor.artifacts import Carried, collect_artifacts, place_artifacts, run_collect_hooks
from castform_harbor.box import AGENT_LOGS, Box, start_box
from castform_harbor.errors import InfraError, StepSetupError
from castform_harbor.healthcheck import wait_until_healthy
from castform_harbor.output import (
    CONFIG_FILE,
    ERROR_FILE,
    LOCK_FILE,
    LOG_FILE,
    RESULT_FILE,
    TrialLog,
    make_folder,
    make_trial_folder,
    write_json,
    write_text,
)
from castform_harbor.reference_agents import bind_harness
from castform_harbor.result_document import TrialIdentity, make_config, make_lock, make_result
from castform_harbor.secrets_scrub import scrub_document, scrub_folder
from castform_harbor.task import HarborTask
from castform_harbor.task_config import StepConfig
from castform_harbor.trial_plan import TrialPlan, check_trial
from castform_harbor.trial_record import (
    STATUS_OF,
    Record,
    Span,
    choose_failure,
    combine_rewards,
    describe_ending,
    timed,
)
from castform_harbor.trial_types import GRADED, StepOutcome, TrialOptions, TrialOutcome, TrialStatus
from castform_harbor.verifier import clear_verifier, fetch_logs, verify

__all__ = ["StepOutcome", "TrialOptions", "TrialOutcome", "TrialStatus", "run_trial"]

AGENT_GRACE_SECONDS = 30.0
"""How much later than the harness's own limit, inside the box, the agent is given up from outside."""
CLOCK_SECONDS = 0.5
"""How much earlier than by our clock a limit that is kept inside the box may be up."""
STEP_SETUP_SECONDS = 600.0
TRAJECTORY_FILE = "trajectory.json"
OUTPUT_FILE = "output.txt"
"""The end of what the agent's program wrote."""


async def run_trial(
    task: HarborTask,
    *,
    harness: Harness,
    provider: SandboxProvider,
    trials_dir: Path,
    trial_name: str,
    endpoint: ModelEndpoint | None = None,
    options: TrialOptions | None = None,
    capabilities: Capabilities | None = None,
    on_phase: Callable[[str], None] = lambda phase: None,
) -> TrialOutcome:
    """Run one attempt and return how it ended; its files lie in `trials_dir/trial_name`.

    `on_phase` is told, in a few words, what begins: the box, the agent, the tests.

    What goes wrong on the way is in the outcome, not raised. Raises UsageError, before anything
    starts, for what the sandboxes or this machine do not have (`capabilities` spares the provider's
    check), for a folder that is there already; CancelledError when cancelled, after every box is
    closed and result.json says so.
    """
    options = options or TrialOptions()
    capabilities = capabilities or await provider.check()
    plan = check_trial(
        task, harness=harness, options=options, capabilities=capabilities, trial_name=trial_name
    )
    folder = make_trial_folder(trials_dir, trial_name)
    identity = TrialIdentity(
        task=task,
        trial_name=trial_name,
        trials_dir=trials_dir,
        agent=harness.name,
        agent_version=harness.version,
        model=endpoint.model if endpoint else None,
        provider=provider.name,
        options=options,
    )
    write_json(folder / LOCK_FILE, make_lock(identity))
    write_json(folder / CONFIG_FILE, make_config(identity))
    trial = _Trial(plan, identity, harness, provider, endpoint, folder, on_phase)
    try:
        return await trial.run()
    finally:
        trial.write_result()


class _Trial:
    """What is going on in one trial."""

    def __init__(
        self,
        plan: TrialPlan,
        identity: TrialIdentity,
        harness: Harness,
        provider: SandboxProvider,
        endpoint: ModelEndpoint | None,
        folder: Path,
        on_phase: Callable[[str], None],
    ) -> None:
        self._say = on_phase
        self._plan = plan
        self._identity = identity
        self._harness = harness
        self._provider = provider
        self._endpoint = endpoint
        self._folder = folder
        self._log = TrialLog(folder / LOG_FILE)
        self._records: list[Record] = []
        self._before = Record()
        self._warnings = list(plan.task.warnings)
        self._whole, self._start_span, self._setup_span = Span(), Span(), Span()
        self._tests_were_here = False

    async def run(self) -> TrialOutcome:
        """Go through the phases. Whatever they raise is noted; a cancellation goes on."""
        with timed(self._whole):
            try:
                await self._go()
            except asyncio.CancelledError as error:
                self._fail(self._before, error)
                raise
            except (CastformError, HarnessError) as error:
                self._fail(self._before, error)
            except Exception as error:  # noqa: BLE001 - a provider's or an agent program's own fault
                self._fail(self._before, error)
        return self._make_outcome()

    async def _go(self) -> None:
        plan = self._plan
        request, loose, warnings = plan.agent_request()
        self._warn(warnings)
        self._say("its box is being built and started")
        async with self._open(request, loose, "the agent's box") as box:
            await wait_until_healthy(box, plan.task.config.environment.healthcheck)
            await self._set_up(box)
            for step in plan.phases:
                record = Record(name=step.name if step else None)
                self._records.append(record)
                await self._run_step(box, step, record, is_last=step is plan.phases[-1])
                if self._stops_after(step, record):
                    break

    async def _set_up(self, box: Box) -> None:
        limit = self._plan.setup_seconds()
        self._say(f"{self._harness.name} is being set up")
        with timed(self._setup_span):
            try:
                async with asyncio.timeout(limit) as scope:
                    await self._harness.setup(box.sandbox)
            except TimeoutError as error:
                if not scope.expired():
                    raise
                raise HarnessError(f"setting up {self._harness.name} took longer than {limit:g} s") from error
        self._log.write(f"{self._harness.name} is set up")

    async def _run_step(self, box: Box, step: StepConfig | None, record: Record, *, is_last: bool) -> None:
        place = self._folder / "steps" / step.name if step else self._folder
        try:
            if step is not None:
                await self._prepare_step(box, step)
            await self._run_agent(box, step, record)
            carried = await self._carry_out(box, step, place)
            if not self._plan.options.verify or record.status not in GRADED:
                return
            with timed(record.verifier_span):
                await self._verify(box, step, record, place, carried, is_last=is_last)
        except (CastformError, HarnessError) as error:
            self._fail(record, error)
        except asyncio.CancelledError as error:
            record.fail(error)
            raise
        except Exception as error:  # noqa: BLE001 - a provider's or an agent program's own fault
            self._fail(record, error)

    async def _prepare_step(self, box: Box, step: StepConfig) -> None:
        """Make the box what the step starts from: no trace of an earlier one's tests, its own files."""
        await box.keep('rm -rf -- "$1" && mkdir -p "$1" && chmod 777 "$1"', AGENT_LOGS)
        if self._tests_were_here:
            await clear_verifier(box, tests=True, looks=False)
            self._tests_were_here = False
        files = self._plan.task.step_folder(step.name) / "workdir"
        user = self._plan.agent_of(step).user
        if files.is_dir():
            await box.sandbox.upload(files, box.workdir)
        if (files / "setup.sh").is_file() or step.healthcheck is not None:
            await box.use_network(self._plan.agent_request()[0].network)
        if (files / "setup.sh").is_file():
            script = f"{box.workdir.rstrip('/')}/setup.sh"
            done = await box.sandbox.exec([box.shell, script], user=user, timeout_seconds=STEP_SETUP_SECONDS)
            if done.exit_code != 0:
                told = (done.error_text or done.text).strip()[-500:]
                raise StepSetupError(
                    f"setup.sh of step {step.name} ended with exit code {done.exit_code}: {told}"
                )
        await wait_until_healthy(box, step.healthcheck, user=user)

    async def _run_agent(self, box: Box, step: StepConfig | None, record: Record) -> None:
        """Let the agent work; how it ends is noted, a failure of anything else is raised."""
        plan = self._plan
        policy = plan.agent_network(step)
        await box.use_network(policy or plan.agent_request()[0].network)
        task = plan.agent_task(step, box)
        harness = bind_harness(self._harness, plan.task, step.name if step else None, plan.host_env)
        limit = task.timeout_seconds
        on_step = f" on step {step.name}" if step else ""
        self._log.write(f"{harness.name} starts{on_step}")
        self._say(f"{harness.name} works{on_step}" + (f", for at most {limit:g} s" if limit else ""))
        began = asyncio.get_running_loop().time()
        calls = ModelCalls()
        endpoint = replace(self._endpoint, calls=calls) if self._endpoint else None
        with timed(record.agent_span):
            try:
                async with asyncio.timeout(None if limit is None else limit + AGENT_GRACE_SECONDS) as scope:
                    result = await harness.run(task, box.sandbox, endpoint)
            except TimeoutError as error:
                if scope.expired():
                    await box.sandbox.end_processes()
                elif not isinstance(error, ExecTimeoutError) or not _is_over(limit, began):
                    raise  # a slow box, or a limit of the harness's own, is no end of the agent's time
                result = HarnessResult(status="timeout")
        record.agent_result = result
        status = STATUS_OF[result.status]
        if status != "ok":
            record.note_agent(status, describe_ending(result, limit))
        self._log.write(f"{harness.name} ended: {status}")
        failure = calls.find_failure()
        if failure is not None:
            raise InfraError(
                f"{failure}, and nothing after that",
                hint="does the server run, and are --base-url, the key and the model's name right?",
            )

    async def _carry_out(self, box: Box, step: StepConfig | None, place: Path) -> list[Carried]:
        """Copy logs and artifacts out of the agent's box, after the hooks that write them."""
        most = self._plan.options.max_download_bytes
        self._warn(await fetch_logs(box, AGENT_LOGS, place / "agent", max_bytes=most))
        result = self._records[-1].agent_result
        make_folder(place / "agent")
        if result is not None and result.trajectory is not None:
            try:
                write_json(place / "agent" / TRAJECTORY_FILE, result.trajectory)
            except (TypeError, ValueError, RecursionError) as error:
                self._warn([f"the agent's {TRAJECTORY_FILE} cannot be written: {error}"])
        if result is not None and result.output:
            write_text(place / "agent" / OUTPUT_FILE, result.output)
        self._warn(await run_collect_hooks(box, self._plan.hooks_of(step)))
        carried = await collect_artifacts(
            box, self._plan.artifacts_of(step), place / "artifacts", max_bytes=most
        )
        for item in carried:
            if item.problem:  # for a task's author; an agent that wrote nothing is no fault of the run
                self._log.write(f"artifact {item.source} was not carried out: {item.problem}")
        return carried

    async def _verify(
        self,
        box: Box,
        step: StepConfig | None,
        record: Record,
        place: Path,
        carried: list[Carried],
        *,
        is_last: bool,
    ) -> None:
        plan, mode = self._plan, self._plan.mode_of(step)
        self._say("the tests run" + (f" for step {step.name}" if step else ""))
        record.verifier = mode
        most = plan.options.max_download_bytes
        if mode == "shared":
            if not plan.options.keep_agent_processes:
                await box.sandbox.end_processes()
            await box.use_network(plan.verifier_network(step))
            self._tests_were_here = True
            found = await verify(box, plan.tests_of(step), place / "verifier", max_bytes=most)
        else:
            if is_last:
                await box.sandbox.close()
            request, loose = plan.verifier_request(step)
            async with self._open(request, loose, "the verifier's box") as own:
                self._warn(await place_artifacts(own, carried))
                found = await verify(own, plan.tests_of(step), place / "verifier", max_bytes=most)
        self._warn(found.warnings)
        record.rewards = found.rewards.values
        record.test_exit_code = found.exit_code
        self._log.write(f"the tests ended with exit code {found.exit_code}: {dict(found.rewards.values)}")

    def _stops_after(self, step: StepConfig | None, record: Record) -> bool:
        """Say whether the steps end here: one failed without a reward, or did not reach what it had to."""
        if record.status not in GRADED or step is None:
            return True
        if not self._plan.options.verify:
            return False
        rewards = record.rewards or {}
        return any(
            name not in rewards or rewards[name] < threshold for name, threshold in step.min_reward.items()
        )

    @asynccontextmanager
    async def _open(self, request: BoxRequest, loose: Path | None, what: str) -> AsyncIterator[Box]:
        span = Span() if self._start_span.started else self._start_span
        with timed(span):
            box = await start_box(self._provider, request, upload=loose)
        try:
            self._log.write(f"{what} started in {span.seconds:.2f} s: {box.sandbox.id}")
            self._warn(box.sandbox.notes)
            yield box
        finally:
            try:
                await box.sandbox.close()
            except Exception as error:  # noqa: BLE001 - a provider's own fault; the trial's end stands
                self._warn([f"{what} could not be closed: {error}"])

    def _warn(self, warnings: Iterable[str]) -> None:
        for warning in warnings:
            if warning not in self._warnings:
                self._warnings.append(warning)
                self._log.write(f"warning: {warning}")

    def _fail(self, record: Record, error: BaseException) -> None:
        record.fail(error)
        self._log.write(f"{record.status}: {record.error}")
        write_text(self._folder / ERROR_FILE, "".join(traceback.format_exception(error)))

    def _make_outcome(self) -> TrialOutcome:
        records = [self._before, *self._records]
        failure = choose_failure(records)
        seconds = {
            "environment_setup": self._start_span.seconds,
            "agent_setup": self._setup_span.seconds,
            "agent_execution": sum(record.agent_span.seconds for record in self._records),
            "verifier": sum(record.verifier_span.seconds for record in self._records),
            "total": self._whole.seconds,
        }
        rewards = combine_rewards(self._records, self._plan.task.config.reward_strategy)
        return TrialOutcome(
            task_name=self._plan.task.name,
            trial_name=self._identity.trial_name,
            trial_dir=self._folder,
            status=failure.status if failure else "ok",
            error=failure.error if failure else None,
            rewards=rewards if self._before.status == "ok" else None,
            steps=tuple(record.as_outcome() for record in self._records),
            warnings=tuple(self._warnings),
            seconds={name: round(value, 3) for name, value in seconds.items()},
        )

    def write_result(self) -> None:
        """Write result.json, after the secrets are out of the other files: where it is, the trial is whole."""
        outcome = self._make_outcome()
        secrets = self._plan.secrets(self._endpoint)
        scrub_folder(self._folder, secrets)
        result = make_result(
            self._identity,
            records=self._records,
            before=self._before,
            rewards=outcome.rewards,
            status=outcome.status,
            error=outcome.error,
            warnings=outcome.warnings,
            whole=self._whole,
            environment_setup=self._start_span,
            agent_setup=self._setup_span,
            folder=self._folder,
        )
        write_json(self._folder / RESULT_FILE, scrub_document(result, secrets))


def _is_over(limit: float | None, began: float) -> bool:
    """Say whether the agent's time is up. The clock of a box may be ahead of ours."""
    return limit is not None and asyncio.get_running_loop().time() - began >= limit - CLOCK_SECONDS
