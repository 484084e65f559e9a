"""The HTTP routes of a gateway: sessions behind the admin key, and errors in the words of each client."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aiohttp import web

from castform.calls import Sampling
from castform.endpoint import SessionSpec
from castform_trainer.gateway.client_routes import add_client_routes, pick_dialect
from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.json_reply import make_json_reply
from castform_trainer.gateway.record import encode_call
from castform_trainer.gateway.request import parse_json_object
from castform_trainer.gateway.sampling import read_sampling, settle_sampling
from castform_trainer.gateway.sessions import Session, check_key

if TYPE_CHECKING:
    from castform_trainer.gateway.server import Gateway

MAX_BODY_BYTES = 64 * 1024 * 1024
DEFAULT_TTL_SECONDS = 3600.0
MOST_NEW_TOKENS = 1 << 20  # of a session that sets no limit; the context is the limit then
SAMPLING_FIELDS = frozenset({"max_tokens", "temperature", "top_p", "top_k", "seed", "stop"})
SESSION_FIELDS = frozenset(
    {
        *("model", "model_aliases", "max_context_tokens", "ttl_seconds", "sampling", "enforce_sampling"),
        "version",
    }
)

logger = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(gateway: Gateway) -> web.Application:
    """Return the application that serves a gateway."""
    routes = _Routes(gateway)
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[answer_errors])
    app.router.add_put("/sessions/{id}", routes.open)
    app.router.add_post("/sessions/{id}/collect", routes.collect)
    app.router.add_delete("/sessions/{id}", routes.delete)
    add_client_routes(app, gateway)
    return app


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give every error the JSON body that the client's SDK reads."""
    try:
        return await handler(request)
    except ApiError as found:
        error = found
    except web.HTTPRequestEntityTooLarge:
        error = ApiError(413, "request_too_large", f"the body is larger than {MAX_BODY_BYTES} bytes")
    except web.HTTPException as http:
        error = ApiError(http.status, "unknown_route", f"{request.method} {request.path}: {http.reason}")
    except Exception:
        logger.exception("gateway: %s %s failed", request.method, request.path)
        error = ApiError(500, "internal_error", "the gateway has a bug; see its log")
    return make_json_reply(pick_dialect(request).describe_error(error), status=error.status)


class _Routes:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def open(self, request: web.Request) -> web.Response:
        check_key(request.headers, self._gateway.admin_key)
        body = parse_json_object(await request.read() or b"{}")
        spec = _read_spec(request.match_info["id"], body, model=self._gateway.model_name)
        ttl = _number(body, "ttl_seconds", DEFAULT_TTL_SECONDS)
        grant = await self._gateway.open_session(spec, ttl_seconds=ttl)
        return make_json_reply(
            {"base_url": grant.base_url, "session_key": grant.api_key, "model": grant.model}
        )

    async def collect(self, request: web.Request) -> web.Response:
        session = self._find_for_owner(request)
        if self._gateway.failure is not None:
            raise ApiError(500, "recording_failed", str(self._gateway.failure))
        calls = await self._gateway.collect(session.spec.session_id)
        lines = b",".join(encode_call(call).strip() for call in calls)
        return web.Response(body=b'{"calls":[' + lines + b"]}", content_type="application/json")

    async def delete(self, request: web.Request) -> web.Response:
        session = self._find_for_owner(request)
        await self._gateway.close_session(session.spec.session_id)
        return web.Response(status=204)

    def _find_for_owner(self, request: web.Request) -> Session:
        check_key(request.headers, self._gateway.admin_key)
        return self._gateway.sessions.find(request.match_info["id"])


def _read_spec(session_id: str, body: Mapping[str, Any], *, model: str) -> SessionSpec:
    unknown = sorted(body.keys() - SESSION_FIELDS)
    if unknown:
        raise ApiError(400, "invalid_parameter", f"unknown session fields: {', '.join(unknown)}")
    if body.get("model") not in (None, model):
        raise ApiError(404, "model_not_found", f"this gateway serves {model!r}, not {body['model']!r}")
    sampling = body.get("sampling") or {}
    if not isinstance(sampling, dict) or sampling.keys() - SAMPLING_FIELDS:
        raise ApiError(
            400, "invalid_parameter", f"sampling takes {', '.join(sorted(SAMPLING_FIELDS))}", param="sampling"
        )
    asked = read_sampling({k: v for k, v in sampling.items() if v is not None}, training=True)
    used, _ = settle_sampling(asked, Sampling(max_new_tokens=MOST_NEW_TOKENS), enforce=False)
    limit = _number(body, "max_context_tokens", None)
    aliases = body.get("model_aliases") or []
    if not isinstance(aliases, list) or not all(isinstance(name, str) for name in aliases):
        raise ApiError(
            400, "invalid_parameter", "model_aliases must be a list of names", param="model_aliases"
        )
    version = body.get("version")
    if version is not None and type(version) is not int:
        raise ApiError(400, "invalid_parameter", "version must be an integer", param="version")
    return SessionSpec(
        session_id=session_id,
        sampling=replace(used, seed=asked.seed or 0),
        enforce_sampling=body.get("enforce_sampling") is not False,
        max_context_tokens=None if limit is None else int(limit),
        version=version,
        model_aliases=tuple(aliases),
    )


def _number(body: Mapping[str, Any], name: str, default: float | None) -> float | None:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ApiError(400, "invalid_parameter", f"{name} must be a positive number", param=name)
    return value
