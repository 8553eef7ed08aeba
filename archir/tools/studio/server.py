"""The page, served to a browser on this machine. It needs the extra `serve` (starlette, uvicorn)."""

from __future__ import annotations

import json
import secrets
import socket
import threading
from contextvars import Context, copy_context
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from archir.diagnostics.errors import ArchError
from archir.diagnostics.work import stop
from archir.language.elaboration.files import read
from archir.tools.studio.asked import MOST_TEXT, Asked, AskedError
from archir.tools.studio.desk import Answer, Desk
from archir.tools.studio.policy import policy
from archir.utils.files import write_atomic

HOST = "127.0.0.1"
MOST_BYTES = 4 * MOST_TEXT + 100_000
"""Of a question."""
_FILES = {
    "/studio.js": "text/javascript; charset=utf-8",
    "/studio.css": "text/css; charset=utf-8",
    "/LICENSES.txt": "text/plain; charset=utf-8",
}
_NEWEST = 32
"""Kinds of questions and pages, of which the newest question is known."""


def page(name: str) -> bytes:
    """A file of the page."""
    return (files("archir.tools.studio") / "page" / name).read_bytes()


class Studio:
    """Answers a page about one text, which may be that of a file: then it can be saved there.

    One question is answered at a time. A newer one of the same kind from the same page takes the place of those that
    wait, and ends the one at hand: nobody waits for that any more.
    """

    def __init__(self, port: int, file: Path | None = None) -> None:
        self.port, self.file = port, file
        self.token = secrets.token_urlsafe(24)
        self._desk = Desk(file.name if file is not None else "space.arch", file.parent if file is not None else None)
        self._one = threading.Lock()
        self._newest: dict[tuple[str, str], object] = {}
        self._working: tuple[tuple[str, str], Context] | None = None

    @property
    def address(self) -> str:
        """Where the page is, with what opens it."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    def text(self) -> str:
        """What the file says; nothing, where there is none yet. Raises ArchError (A0801)."""
        return read(self.file) if self.file is not None and self.file.exists() else ""

    def app(self) -> ASGIApp:
        """The ASGI application."""
        routes = [
            Route("/", self._page),
            Route("/text", self._text),
            Route("/save", self._save, methods=["POST"]),
            Route("/ask/{kind}", self._ask, methods=["POST"]),
            *(Route(path, _file) for path in _FILES),
        ]
        return _Guarded(
            Starlette(routes=routes, exception_handlers={AskedError: _unasked, ArchError: _unread, OSError: _unread}),
            self,
        )

    async def _page(self, _: Request) -> Response:
        return Response(page("index.html"), media_type="text/html; charset=utf-8")

    async def _text(self, _: Request) -> Response:
        """The text to begin with: of the file, or an example."""
        if self.file is None:
            return JSONResponse({"name": "space.arch", "text": None, "mark": None})
        text = await run_in_threadpool(self.text)
        return JSONResponse({"name": self.file.name, "text": text, "mark": _mark(text)})

    async def _save(self, request: Request) -> Response:
        """Write the file, unless it was changed by others since the page read it."""
        if self.file is None:
            return _refused(403, "no file was given: archir studio FILE")
        fields = await _fields(request)
        asked = Asked(fields)
        text, mark = asked.text(), asked.text("mark", 64)
        if mark != _mark(await run_in_threadpool(self.text)):
            return _refused(409, f"{self.file.name} was changed by something else; copy your text, and load the page")
        await run_in_threadpool(write_atomic, self.file, text.encode())
        return JSONResponse({"mark": _mark(text)})

    async def _ask(self, request: Request) -> Response:
        kind = request.path_params["kind"]
        if kind not in self._desk.kinds:
            return _refused(404, f"there are no questions `{kind}`")
        fields = await _fields(request)
        whose = Asked(fields).text("page", 64), kind
        answer = await run_in_threadpool(self._answer, whose, fields)
        return JSONResponse(answer) if answer is not None else _refused(409, "a newer question came")

    def _answer(self, whose: tuple[str, str], fields: Any) -> Answer | None:
        """The answer to a question, or None where a newer one has come."""
        this = object()
        self._newest.pop(whose, None)
        self._newest[whose] = this
        while len(self._newest) > _NEWEST:
            self._newest.pop(next(iter(self._newest)), None)
        working = self._working
        if working is not None and working[0] == whose:
            stop(working[1])
        with self._one:
            if self._newest.get(whose) is not this:
                return None
            context = copy_context()
            self._working = whose, context
            try:
                answer = context.run(self._desk.ask, whose[1], fields)
            finally:
                self._working = None
        return answer if self._newest.get(whose) is this else None


class _Guarded:
    """Lets through what the page itself asks, on this machine; says to browsers what a page may do."""

    def __init__(self, app: ASGIApp, studio: Studio) -> None:
        self._app, self._studio = app, studio

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        refusal = self._refusal(Request(scope))
        await (self._app(scope, receive, sending) if refusal is None else refusal(scope, receive, sending))

    def _refusal(self, request: Request) -> Response | None:
        port = self._studio.port
        hosts = {f"{name}:{port}" for name in (HOST, "localhost")}
        origin = request.headers.get("origin")
        if request.headers.get("host") not in hosts:
            return _refused(403, "this page is for this machine alone")
        if origin is not None and origin not in {f"http://{host}" for host in hosts}:
            return _refused(403, "another page asks")
        if request.url.path in _FILES:
            return None
        given = request.query_params.get("token", "") if request.url.path == "/" else _bearer(request)
        if secrets.compare_digest(given.encode(), self._studio.token.encode()):
            return None
        text = "This page opens by the whole address that `archir studio` printed, with its token.\n"
        return PlainTextResponse(text, 403)


_HEADERS = [
    (b"content-security-policy", policy().encode()),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


def _bearer(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token if kind == "Bearer" else ""


async def _file(request: Request) -> Response:
    path = request.url.path
    return Response(page(path[1:]), media_type=_FILES[path])


async def _fields(request: Request) -> Any:
    """What a question says. Raises AskedError for what is no JSON, or long."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise AskedError("questions are JSON")
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                raise AskedError("that is too long")
    except ClientDisconnect:
        raise AskedError("the question ended early") from None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise AskedError("questions are JSON") from None


async def _unasked(_: Request, error: Exception) -> Response:
    return _refused(400, str(error))


async def _unread(_: Request, error: Exception) -> Response:
    said = error.diagnostics[0].message if isinstance(error, ArchError) else str(error)
    return _refused(500, f"the file cannot be read or written: {said}")


def _refused(status: int, why: str) -> Response:
    return JSONResponse({"refused": why}, status)


def _mark(text: str) -> str:
    """What tells a text from others."""
    return sha256(text.encode()).hexdigest()


def serve(studio: Studio, bound: socket.socket) -> None:
    """Answer until Ctrl-C."""
    settings = uvicorn.Config(
        studio.app(), log_level="error", access_log=False, server_header=False, lifespan="off",
        timeout_graceful_shutdown=1, limit_concurrency=64, ws="none",
    )  # fmt: skip
    uvicorn.Server(settings).run(sockets=[bound])
