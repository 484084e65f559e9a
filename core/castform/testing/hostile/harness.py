"""An agent program that is an attack: it runs a script in the box where an agent would work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from castform.harness.contract import AgentTask, HarnessResult
from castform.sandbox.contract import ModelEndpoint, Sandbox
from castform.sandbox.errors import ExecTimeoutError
from castform.testing.hostile.attack import Attack, find_breaches, find_idleness, write_script

MAX_OUTPUT_BYTES = 4 << 20
_SHOWN_CHARACTERS = 2000


@dataclass(frozen=True, kw_only=True)
class HostileHarness:
    """Plays one attack. How it ended, and what it said of where it got, is in the result's metadata."""

    attack: Attack
    neighbour: ModelEndpoint | None = None
    """Another rollout's session: the attack gets its address and its real key."""
    env: Mapping[str, str] = field(default_factory=dict)
    """What else it knows; see `VARIABLES`."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Words that must not come to light in the box, beside the real key of the session."""
    guard: tuple[str, ...] = ()
    """Files of this machine: where one is seen inside nothing is played."""

    @property
    def name(self) -> str:
        return f"hostile-{self.attack.name}"

    @property
    def version(self) -> str | None:
        return None

    async def setup(self, sandbox: Sandbox) -> None:
        """There is nothing to set up: a shell is all it takes."""

    async def run(
        self, task: AgentTask, sandbox: Sandbox, endpoint: ModelEndpoint | None = None
    ) -> HarnessResult:
        """Run the script as the agent's user. Errors as `Sandbox.exec`."""
        attack = self.attack
        known = dict(self.env)
        if endpoint is not None:
            inside = await sandbox.connect(endpoint)
            known |= {"BASE_URL": inside.base_url, "API_KEY": inside.api_key}
        if self.neighbour is not None:
            known |= {"NEIGHBOUR_URL": self.neighbour.base_url, "NEIGHBOUR_KEY": self.neighbour.api_key}
        limit = attack.seconds if task.timeout_seconds is None else min(task.timeout_seconds, attack.seconds)
        try:
            done = await sandbox.exec(
                ["sh", "-c", write_script(attack, self.guard)],
                cwd=task.workdir,
                user=task.user,
                env={**task.env, **{f"HOSTILE_{name}": value for name, value in known.items()}},
                timeout_seconds=limit,
                max_output_bytes=MAX_OUTPUT_BYTES,
            )
            status, exit_code = ("finished" if done.exit_code == 0 else "nonzero_exit"), done.exit_code
        except ExecTimeoutError as error:
            done, status, exit_code = error.result, "timeout", None
        said = f"{done.text}\n{done.error_text}"
        hidden = self.secrets | ({endpoint.api_key} if endpoint is not None else frozenset())
        breaches = list(find_breaches(said))
        breaches += ["a secret of this machine is seen in the box"] if any(s in said for s in hidden) else []
        return HarnessResult(
            status="timeout"
            if status == "timeout"
            else "finished"
            if status == "finished"
            else "nonzero_exit",
            exit_code=exit_code,
            output=said[-_SHOWN_CHARACTERS:],
            metadata={"attack": attack.name, "breaches": breaches, "idle": find_idleness(said)},
        )
