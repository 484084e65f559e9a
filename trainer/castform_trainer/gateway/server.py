"""The gateway: an HTTP server on a thread and an event loop of its own, in front of one engine."""

from __future__ import annotations

import asyncio
import errno
import secrets
import socket
import threading
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from aiohttp import web

from castform.calls import ModelCall
from castform.endpoint import SessionGrant, SessionSpec
from castform.errors import CastformError, MissingError, UsageError
from castform_trainer.engines.contract import Engine
from castform_trainer.gateway.chat import ChatService
from castform_trainer.gateway.marks import make_marks
from castform_trainer.gateway.parsers import knows_thinking, pick_tool_format
from castform_trainer.gateway.record import CallLog
from castform_trainer.gateway.replies import ReplyReader
from castform_trainer.gateway.routes import make_app
from castform_trainer.gateway.sessions import Session, SessionTable
from castform_trainer.gateway.template import TemplateRenderer, find_controls, template_source
from castform_trainer.gateway.tokens import ChatTokenizer, TextCodec

Result = TypeVar("Result")
BACKLOG = 1024


class Gateway:
    """Serves an engine as an OpenAI-compatible endpoint and records every token.

    It has its own thread and loop, so an environment that blocks stalls nobody else. The engine
    belongs to the caller: `close` leaves it running. Not reusable after `close`.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: ChatTokenizer,
        *,
        log_path: Path | None,
        model_name: str,
        host: str = "127.0.0.1",
        port: int = 0,
        retry_grace_seconds: float = 2.0,
    ) -> None:
        """`log_path` None keeps records in memory only. `port` 0 takes a free one.

        `retry_grace_seconds`: how long a reply goes on without its client, for an SDK that retries.
        """
        source = template_source(tokenizer)
        if not source:
            raise MissingError(
                f"the model {model_name} has no chat template",
                hint="use an instruct model, or add chat_template.jinja to the model folder",
            )
        self.engine = engine
        self.model_name = model_name
        self.host = host
        self.port = port
        self.sessions = SessionTable()
        self._admin_key = f"ak-castform-{secrets.token_urlsafe(24)}"
        self._tokenizer = tokenizer
        self._log_path = log_path
        self._grace = retry_grace_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._log: CallLog | None = None
        self._service: ChatService | None = None

    def __repr__(self) -> str:
        return f"Gateway({self.model_name!r}, {self.root_url!r})"

    @property
    def root_url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def admin_key(self) -> str:
        """The key of the session routes. Never logged, not in the repr."""
        return self._admin_key

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def service(self) -> ChatService:
        if self._service is None:
            raise RuntimeError("the gateway has not been started")
        return self._service

    @property
    def failure(self) -> CastformError | None:
        """Why no more calls can be recorded; None while all is well."""
        return self._service.failure if self._service else None

    def start(self) -> Gateway:
        """Bind the port and serve. UsageError when the port is taken."""
        sock = self._bind()
        try:
            controls = find_controls(self._tokenizer, self.engine.eos_token_ids)
            codec = TextCodec(self._tokenizer, controls=controls)
            renderer = TemplateRenderer(self._tokenizer, codec, self.model_name)
            reader = ReplyReader(
                codec=codec,
                tool_format=pick_tool_format(renderer.source),
                thinking=knows_thinking(renderer.source),
                end_ids=frozenset(self.engine.eos_token_ids),
            )
            if self._log_path:
                marks = make_marks(self._tokenizer, renderer.source, model_name=self.model_name)
                self._log = CallLog(self._log_path, marks)
            self._service = ChatService(
                self.engine,
                renderer,
                reader,
                self._log,
                retry_grace_seconds=self._grace,
            )
        except BaseException:
            sock.close()
            raise
        ready = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(sock, ready), name="castform-gateway", daemon=True
        )
        self._thread.start()
        ready.wait()
        if self._loop is None:
            raise RuntimeError("the gateway's thread ended before it served; see its traceback")
        return self

    def close(self) -> None:
        """Abort what runs, stop serving and close the log. Closing twice is fine."""
        if self._loop is None or self._thread is None or not self.is_running:
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._log is not None:
            self._log.close()

    def submit(self, work: Coroutine[Any, Any, Result]) -> asyncio.Future[Result]:
        """Run a coroutine on the gateway's loop, awaited from any other loop."""
        if self._loop is None or not self.is_running:
            work.close()
            raise RuntimeError("the gateway is not running")
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def open_session(self, spec: SessionSpec, *, ttl_seconds: float | None = None) -> SessionGrant:
        """Open a session; it ends by itself after `ttl_seconds`. Gateway loop only."""
        session = self.sessions.add(spec)
        if ttl_seconds is not None:
            loop = asyncio.get_running_loop()
            session.expiry = loop.call_later(ttl_seconds, self._expire, spec.session_id)
        return SessionGrant(
            base_url=f"{self.root_url}/sessions/{quote(spec.session_id, safe='')}/v1",
            api_key=session.key,
            model=self.model_name,
        )

    async def collect(self, session_id: str) -> Sequence[ModelCall]:
        """Return a session's records so far. Gateway loop only."""
        return tuple(self.service.list_calls(self.sessions.find(session_id)))

    async def close_session(self, session_id: str) -> None:
        """End a session and abort what runs in it; an unknown id is fine. Gateway loop only."""
        session = self.sessions.remove(session_id)
        if session is not None:
            await self.service.abort(session)

    def _expire(self, session_id: str) -> None:
        session = self.sessions.remove(session_id, expired=True)
        if session is not None:
            task = asyncio.get_running_loop().create_task(self.service.abort(session))
            self._reaping.add(task)
            task.add_done_callback(self._reaping.discard)

    def _bind(self) -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((self.host, self.port))
            sock.listen(BACKLOG)
        except OSError as error:
            sock.close()
            in_use = error.errno == errno.EADDRINUSE
            reason = "is in use" if in_use else f"cannot be opened: {error.strerror}"
            raise UsageError(
                f"port {self.port} on {self.host} {reason}",
                hint="choose another port, or 0 for any free one",
            ) from error
        self.port = sock.getsockname()[1]
        return sock

    def _run(self, sock: socket.socket, ready: threading.Event) -> None:
        try:
            asyncio.run(self._serve(sock, ready))
        finally:
            ready.set()

    async def _serve(self, sock: socket.socket, ready: threading.Event) -> None:
        self._stop = asyncio.Event()
        self._reaping: set[asyncio.Task[None]] = set()
        runner = web.AppRunner(
            make_app(self), handler_cancellation=True, access_log=None, shutdown_timeout=1.0
        )
        await runner.setup()
        await web.SockSite(runner, sock, backlog=BACKLOG).start()
        self._loop = asyncio.get_running_loop()
        ready.set()
        await self._stop.wait()
        await asyncio.gather(*(self._end(session) for session in self.sessions))
        await asyncio.gather(*self._reaping)
        await runner.cleanup()

    async def _end(self, session: Session) -> None:
        await self.close_session(session.spec.session_id)
