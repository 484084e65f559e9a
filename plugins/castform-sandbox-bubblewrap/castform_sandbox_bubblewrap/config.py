"""What a user can set about boxes of bubblewrap."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class BubblewrapConfig(BaseModel):
    """Options of the `bubblewrap` provider."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bwrap: str = "bwrap"
    """The program, by name or path."""
    folder: Path | None = None
    """Where built roots and boxes' folders lie. None: sandboxes/bubblewrap below CASTFORM_HOME."""
    max_boxes: int | None = Field(default=None, ge=1)
    """Boxes at a time, starting ones included; more wait. None: as many as are asked for."""
    first_host_id: int = Field(default=1_879_048_192, ge=65_536, le=4_294_836_224)
    """As root: the host's user and group id that is root in a box; 65,536 ids from there are used.
    They should be nobody's, in /etc/passwd, /etc/subuid and other containers."""
    use_groups: bool = True
    """Set limits by control groups where they can be made; off: by what a plain user could set."""
    use_disks: bool = True
    """As root: give each box a disk of its own, in a file; off: its folder, watched once a second."""
    build_memory_mb: int = Field(default=4096, ge=64)
    """MiB that a build may use."""
    build_disk_mb: int = Field(default=4096, ge=16)
    """MiB that a built root may take."""
