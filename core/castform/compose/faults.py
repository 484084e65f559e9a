"""Everything that is wrong with a composed environment, gathered before one error says it all."""

from __future__ import annotations

from dataclasses import dataclass, field

from castform.errors import CastformError, ConfigError, MissingError


@dataclass(slots=True)
class Faults:
    """What was found, in the order it was looked at."""

    lines: list[str] = field(default_factory=list)
    missing: int = 0
    """How many of them are extras that are not installed."""

    def add(self, at: str, message: str) -> None:
        """Note a fault with its place below `[environment]`."""
        self.lines.append(f"environment.{at}: {message}" if at else f"environment: {message}")

    def add_error(self, at: str, error: CastformError) -> None:
        """Note what an error says, its hint included."""
        first, *rest = str(error.args[0]).splitlines()
        text = "; ".join([first.removesuffix(":"), *(line.strip() for line in rest)])
        self.add(at, f"{text} ({error.hint})" if error.hint else text)
        self.missing += isinstance(error, MissingError)

    def raise_if_any(self, where: str) -> None:
        """Raise ConfigError with all of it; MissingError when all that is wrong is what is not installed."""
        if not self.lines:
            return
        count = len(self.lines)
        head = f"{count} fault{'s' if count > 1 else ''} in the environment of {where}:"
        kind = MissingError if self.missing == count else ConfigError
        raise kind(
            "\n".join([head, *(f"  {line}" for line in self.lines)]),
            hint="`castform plugins PLUGIN` shows the parts that a plugin has; docs/composing.md says how they fit",
        )
