"""Whether a section means a mixture: what a run asks before it loads anything."""

from __future__ import annotations

from castform.config import read_environment_file
from castform.environment_section import EnvironmentSection
from castform.home import expand_home


def find_mixture(section: EnvironmentSection) -> EnvironmentSection | None:
    """Return the section with the mix: this one, or that of the TOML it names; None where there is none.

    Raises ConfigError when the TOML cannot be read.
    """
    if section.mix:
        return section
    if not section.id.endswith(".toml"):
        return None
    found = read_environment_file(expand_home(section.id), section.args)
    return found if found.mix else None
