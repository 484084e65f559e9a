"""`castform harbor run`: task folders, an agent, and what each attempt earned."""

from __future__ import annotations

import argparse
import contextlib
import math
import pkgutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.cli.harbor_arguments import add_task_arguments, add_trial_arguments, check_concurrency
from castform.cli.model_choice import add_endpoint_arguments
from castform.cli.output import print_json, print_note, print_table, print_text
from castform.errors import UsageError

if TYPE_CHECKING:
    from castform.config import RunConfig
    from castform.harness.contract import Harness
    from castform.sandbox.contract import ModelEndpoint

REFERENCE_AGENTS = ("oracle", "nop")
"""Ask no model."""
_SHOWN_ERROR = 90


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    add_task_arguments(parser)
    parser.add_argument(
        "--agent",
        default="oracle",
        metavar="NAME|FILE",
        help="oracle (the tasks' own solutions), nop, a harness, or a TOML that wraps a program; default: oracle",
    )
    add_trial_arguments(parser, concurrency=4)
    add_endpoint_arguments(
        parser, required=False, what="the agent's model: pulled name, folder or hub id; or the server's"
    )
    parser.add_argument("--attempts", type=int, default=1, metavar="K", help="trials per task; default: 1")
    parser.add_argument(
        "--job-name",
        metavar="NAME",
        help="one that is there is gone on with: what has a reward is not run again",
    )
    parser.add_argument(
        "--verifier",
        choices=("task", "fresh"),
        default="task",
        help="fresh: every verification in a new box with the declared artifacts alone; default: as the task says",
    )
    parser.add_argument(
        "--artifact",
        action="append",
        default=[],
        metavar="PATH",
        help="one more path to carry out of the agent's box; a relative one lies in the box's working folder",
    )
    parser.add_argument(
        "--keep-agent-processes",
        action="store_true",
        help="do not end them before the tests run in the agent's box",
    )
    parser.add_argument("--no-network", action="store_true", help="no phase reaches more than the model")
    parser.add_argument(
        "--timeout-multiplier", type=float, default=1.0, metavar="X", help="of every limit in time"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Run the command that was parsed. 0: every trial has a reward; 1: some have none; 2: tasks that
    could not be used, and all others have one."""
    import asyncio

    from castform.cli.signals import interrupt_on_sigterm
    from castform.cli.trainer_calls import settle

    harness = load_agent(args.agent)
    check_arguments(args)
    load = _reach("castform_harbor.tasks:load_usable_tasks")
    tasks, faults = load(args.tasks, dataset=args.dataset)
    if not tasks:
        raise UsageError("no task can be used:" + "".join(f"\n  {fault}" for fault in faults.values()))
    config = read_model_config(args)
    job = make_job(args, tasks, harness, config)
    ended: list[Any] = []  # Any: castform_harbor's JobTrial
    try:
        with interrupt_on_sigterm() as interrupt:
            trials = settle(asyncio.run, interrupt.hold(_run_job(args, job, harness, config, ended)))
    except KeyboardInterrupt:
        if ended:
            _show(args, job.folder, ended, faults)
        print_note(f"stopped: {len(ended)} of {len(job.tasks) * job.attempts} trials have ended")
        if ended:
            print_note(f"the same command with --job-name {job.folder.name} runs the others")
        raise
    shown = _show(args, job.folder, trials, faults)
    if any(trial["rewards"] is None and trial["status"] != "refused" for trial in shown):
        return 1
    return 2 if faults or any(trial["status"] == "refused" for trial in shown) else 0


def _show(
    args: argparse.Namespace, folder: Path, trials: Sequence[Any], faults: dict[str, str]
) -> list[dict[str, Any]]:
    shown = [trial.as_dict() for trial in trials]
    if args.json:
        print_json({**_describe(args, folder), "trials": shown, "unusable": faults, **summarise(shown)})
    else:
        print_trials(shown, faults, folder)
    return shown


def check_arguments(args: argparse.Namespace) -> None:
    """Raise UsageError for options that do not go together, before anything is loaded."""
    from castform.cli.model_choice import check_model_arguments

    check_model_arguments(args)
    check_concurrency(args)
    if args.attempts < 1:
        raise UsageError("--attempts is at least 1")
    if not 0 < args.timeout_multiplier < math.inf:
        raise UsageError("--timeout-multiplier is a number above 0")
    if args.agent in REFERENCE_AGENTS:
        if args.model:
            raise UsageError(
                f"the agent {args.agent} asks no model", hint="leave -m out, or name another --agent"
            )
    elif not args.model:
        raise UsageError(
            f"the agent {args.agent} needs a model", hint="-m NAME, with --base-url for one behind a server"
        )
    if args.job_name is not None and (not args.job_name.strip(". ") or {"/", "\0"} & set(args.job_name)):
        raise UsageError(f"{args.job_name!r} is no name for a job's folder")


def load_agent(name: str) -> Harness:
    """Return the reference agent or the harness of a name."""
    if name in REFERENCE_AGENTS:
        made: Harness = _reach("castform_harbor.reference_agents:make_reference_agent")(name)
        return made
    from castform.harness import load_harness

    return load_harness(name)


def make_job(
    args: argparse.Namespace, tasks: Sequence[Any], harness: Harness, config: RunConfig | None
) -> Any:
    """Return the castform_harbor Job that the command line means. UsageError for an artifact that cannot be one."""
    import secrets
    import time

    artifact = _reach("castform_harbor.task_config:Artifact")
    artifacts = [artifact(source=path) for path in args.artifact]
    for item in artifacts:
        for problem in _reach("castform_harbor.task_parsing:find_artifact_problems")(item):
            raise UsageError(f"--artifact {problem}")
    options = _reach("castform_harbor.trial_types:TrialOptions")(
        verifier=args.verifier,
        timeout_multiplier=args.timeout_multiplier,
        keep_agent_processes=args.keep_agent_processes,
        network="none" if args.no_network else "task",
        artifacts=tuple(artifacts),
    )
    name = args.job_name or f"{time.strftime('%Y-%m-%d__%H-%M-%S')}__{secrets.token_hex(3)}"
    return _reach("castform_harbor.job:Job")(
        tasks=tasks,
        folder=args.jobs_dir.absolute() / name,
        agent=harness.name,
        model=args.model,
        sandbox=args.sandbox,
        source=str(args.tasks),
        attempts=args.attempts,
        concurrency=args.concurrency,
        options=options,
        settings=describe_model(args, config),
    )


def read_model_config(args: argparse.Namespace) -> RunConfig | None:
    """Return the settings of the agent's model; None where the agent asks none."""
    if args.agent in REFERENCE_AGENTS:
        return None
    from castform.config import load_config

    return load_config(None, [], model__id=args.model, sampling__max_new_tokens=args.max_new_tokens)


def describe_model(args: argparse.Namespace, config: RunConfig | None) -> dict[str, str | float | None]:
    """Return what replies of the agent's model depend on, beside its name."""
    if config is None:
        return {}
    from castform.file_digest import digest_files

    return {
        "base_url": args.base_url,
        "adapter_digest": digest_files(args.adapter) if args.adapter else None,
        "temperature": config.eval.temperature if args.temperature is None else args.temperature,
        "max_new_tokens": config.sampling.max_new_tokens,
    }


async def _run_job(
    args: argparse.Namespace, job: Any, harness: Harness, config: RunConfig | None, ended: list[Any]
) -> list[Any]:
    """Run it, telling how it goes; `ended` gets each trial as it ends, for a run that is stopped."""
    from castform.sandbox import load_provider

    total = len(job.tasks) * job.attempts

    def note_end(trial: Any) -> None:
        ended.append(trial)
        said = trial.status if trial.reward is None else f"{trial.status}, reward {trial.reward:g}"
        kept = " (was there already)" if trial.kept else ""
        print_note(f"{trial.name}: {said}{kept}, {len(ended)} of {total}")

    def note_phase(name: str, phase: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # who reads the notes went away: no fault of a trial
            print_note(f"{name}: {phase}")

    provider = load_provider(args.sandbox)
    try:
        done: list[Any] = await _reach("castform_harbor.job:run_job")(
            job,
            harness=harness,
            provider=provider,
            open_models=None if config is None else lambda: _open_models(args, config, job.folder),
            on_trial=note_end,
            on_phase=note_phase,
        )
    finally:
        await provider.aclose()
    return done


@asynccontextmanager
async def _open_models(args: argparse.Namespace, config: RunConfig, folder: Path) -> AsyncIterator[Any]:
    """Give what opens a session of the model for each trial."""
    from castform.calls import Sampling
    from castform.cli.model_choice import open_model
    from castform.endpoint import SessionSpec
    from castform.sandbox.contract import ModelEndpoint

    async with open_model(args, config, log_path=folder / "model-calls.jsonl") as (endpoint, version):
        sampling = Sampling(
            max_new_tokens=config.sampling.max_new_tokens,
            temperature=config.eval.temperature if args.temperature is None else args.temperature,
        )

        @asynccontextmanager
        async def open_session(name: str) -> AsyncIterator[ModelEndpoint]:
            spec = SessionSpec(session_id=name, sampling=sampling, enforce_sampling=False, version=version)
            grant = await endpoint.open_session(spec)
            try:
                yield ModelEndpoint(base_url=grant.base_url, api_key=grant.api_key, model=grant.model)
            finally:
                await endpoint.close_session(name)

        yield open_session


def print_trials(trials: Sequence[dict[str, Any]], faults: dict[str, str], folder: Path) -> None:
    """Write what came out as a table."""
    print_table(
        ["TASK", "ATTEMPT", "STATUS", "REWARD", "SECONDS", "ERROR"],
        [
            [
                trial["task"],
                trial["attempt"],
                trial["status"],
                _show_rewards(trial),
                None if trial["seconds"] is None else f"{trial['seconds']:.1f}",
                _shorten(trial["error"]),
            ]
            for trial in trials
        ],
    )
    print_text()
    for trial in trials:
        if trial["error"] != _shorten(trial["error"]):
            print_text(f"{trial['task']}, attempt {trial['attempt']}: {trial['error']}")
    for fault in faults.values():
        print_text(f"not used: {fault}")
    found = summarise(trials)
    mean = "none" if found["mean_reward"] is None else f"{found['mean_reward']:.3f}"
    print_text(f"mean reward  {mean} over {found['scored']} of {len(trials)} trials")
    print_text(f"files        {folder}")


def summarise(trials: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return how many trials have a reward, the mean of `reward`, and how they ended."""
    rewards = [trial["reward"] for trial in trials if trial["reward"] is not None]
    statuses = [trial["status"] for trial in trials]
    return {
        "scored": sum(trial["rewards"] is not None for trial in trials),
        "mean_reward": sum(rewards) / len(rewards) if rewards else None,
        "statuses": {status: statuses.count(status) for status in dict.fromkeys(statuses)},
    }


def _describe(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    return {"job": str(folder), "agent": args.agent, "model": args.model, "sandbox": args.sandbox}


def _show_rewards(trial: dict[str, Any]) -> str | None:
    rewards = trial["rewards"]
    if rewards is None:
        return None
    if list(rewards) == ["reward"]:
        return f"{rewards['reward']:g}"
    return ", ".join(f"{name} {value:g}" for name, value in rewards.items())


def _shorten(text: str | None) -> str | None:
    if text is None or len(text) <= _SHOWN_ERROR:
        return text
    return f"{text[:_SHOWN_ERROR]}…"


def _reach(reference: str) -> Any:  # a function of castform_harbor, which core may not import
    return pkgutil.resolve_name(reference)
