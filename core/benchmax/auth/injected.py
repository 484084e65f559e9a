"""Keys by name: an environment holds the name, the process that runs it binds the key.

So a bundled environment carries no secret, and the same environment runs with any key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from benchmax.auth.providers import ModelAuth, ModelRequestContext, check_model_auth

_bindings: ContextVar[Mapping[str, ModelAuth] | None] = ContextVar("benchmax_model_auth", default=None)


@dataclass(frozen=True)
class InjectedAuth:
    """A reference, safe to serialise, that is looked up at every request."""

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError("name must be a non-empty string")

    async def headers_for_request(self, context: ModelRequestContext) -> Mapping[str, str]:
        """Return the headers of the provider bound to the name. RuntimeError when none is."""
        return await self.resolve().headers_for_request(context)

    def resolve(self) -> ModelAuth:
        """Return the provider that is bound to the name here and now."""
        provider = (_bindings.get() or {}).get(self.name)
        if provider is None:
            raise RuntimeError(f"No runtime model-auth provider was injected for {self.name!r}.")
        if isinstance(provider, InjectedAuth):
            raise RuntimeError(f"{self.name!r} is bound to another InjectedAuth, not to a provider")
        return provider


@contextmanager
def bind_model_auth(providers: Mapping[str, ModelAuth]) -> Iterator[None]:
    """Bind providers to names for everything that runs inside.

    Bindings nest: an inner one adds to the outer ones and wins where both use a name.
    ValueError for a blank name, TypeError for something that is not a ModelAuth.
    """
    for name, provider in providers.items():
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"model-auth names must be non-empty strings, not {name!r}")
        check_model_auth(provider)
    token = _bindings.set({**(_bindings.get() or {}), **providers})
    try:
        yield
    finally:
        _bindings.reset(token)
