"""What a user can set about boxes in Docker."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class DockerConfig(BaseModel):
    """Options of the `docker` provider."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str | None = None
    """Address of the engine (`unix:///path`, `tcp://host:port`). None: DOCKER_HOST, else the local socket."""
    image: str | None = None
    """Of boxes that name none. None: castform/base:local where the engine has it, else debian:bookworm-slim."""
    pull: Literal["missing", "never"] = "missing"
    """Whether images that the engine lacks are fetched from their registry."""
    max_boxes: int | None = Field(default=None, ge=1)
    """Boxes at a time, starting ones included; more wait. None: as many as are asked for."""
    endpoint: Literal["auto", "namespace", "socket"] = "auto"
    """How a model is made reachable: through the box's network namespace (root, local engine), or
    through a mounted socket and a forwarder that runs in the box. auto: the first where it works."""
    outside_view: bool = True
    """As root on the engine's machine: see and end what runs in boxes from outside, without the engine.
    Off, or where it does not work: by shells that the engine starts in the box, which is slower."""
    new_privileges: bool = False
    """Let set-user-id programs (sudo, su by others than root) give more rights inside the box."""
    capabilities: tuple[str, ...] = ()
    """Linux capabilities that root in a box has beside the few that are always kept, as in SYS_PTRACE."""
    build_network: bool = True
    """Let the RUN lines of a build reach the network."""
    build_memory_mb: int = Field(default=4096, ge=64)
    """MiB that each RUN line of a build may use, swap included."""
    engine_timeout_seconds: float = Field(default=60.0, gt=0)
    """For one answer of the engine, builds and running commands apart."""
