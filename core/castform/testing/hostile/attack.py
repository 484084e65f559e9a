"""One attack: what it tries, and the shell script that tries it."""

from __future__ import annotations

from dataclasses import dataclass

BREACH = "BREACH:"
"""Begins a line by which a script says that it got where nothing in a box may get."""
IDLE = "IDLE:"
"""Begins a line by which a script says why it could not try."""
VARIABLES = ("ARTIFACTS", "TESTS", "BASE_URL", "API_KEY", "NEIGHBOUR_URL", "NEIGHBOUR_KEY", "HOSTS", "PORT")
"""What a script knows, each as HOSTILE_<name>; empty where it does not apply."""

_PREAMBLE = """
breach() { echo "BREACH: $*"; }
idle() { echo "IDLE: $*"; exit 0; }
GUARD="@GUARD@"
for there in $GUARD; do
    if [ -e "$there" ]; then breach "a file of this machine is seen inside: $there"; exit 97; fi
done
R=/logs/verifier
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attack:
    """A way to get a reward that was not earned, or out of the box."""

    name: str
    tries: str
    """What it tries, as a clause: "writes the reward itself"."""
    script: str
    """For a POSIX shell. It may call `breach WORDS` where it got out and `idle WORDS` where it cannot try;
    `$R` is the verifier's folder, and variables are `VARIABLES`."""
    seconds: float = 10.0
    """After that it is ended, as an agent is that runs out of time."""
    asks: bool = False
    """Whether it is about the model's session: played where the box is connected to one."""


def write_script(attack: Attack, guard: tuple[str, ...] = ()) -> str:
    """Return the whole script. It does nothing where a file of `guard` is seen: there no box keeps it in.

    Paths of `guard` hold letters, digits and `/._-` alone.
    """
    return _PREAMBLE.replace("@GUARD@", " ".join(guard)).lstrip() + attack.script.strip() + "\n"


def find_breaches(output: str) -> tuple[str, ...]:
    """Return what a script said of where it got."""
    return _find(output, BREACH)


def find_idleness(output: str) -> str:
    """Return why a script could not try; empty when it did."""
    return "; ".join(_find(output, IDLE))


def _find(output: str, word: str) -> tuple[str, ...]:
    lines = [line.strip() for line in output.splitlines()]
    return tuple(dict.fromkeys(line[len(word) :].strip() for line in lines if line.startswith(word)))
