"""Local HTTP server of the studio's page. Needs the extra `serve` (starlette, uvicorn)."""

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
from archir.diagnostics.work import exhaust_budget
from archir.language.elaboration.files import read_program
from archir.pictures.html import policy_hashes
from archir.tools.studio.session import MAX_TEXT, Answer, RequestError, RequestFields, Session
from archir.utils.files import write_atomic


def content_security_policy(script_sources: str = "") -> str:
    """Return the content security policy of the page.

    The page may load its own scripts and styles, and connect to its own origin. Pictures are iframes without a URL,
    which inherit the policy; their script and styles are allowed by hash. `script_sources` is appended to `script-src`.
    """
    scripts, styles = (" ".join(f"'{digest}'" for digest in hashes) for hashes in policy_hashes())
    return (
        f"default-src 'none'; script-src 'self'{script_sources} {scripts}; style-src 'self' {styles}; img-src data:; "
        "connect-src 'self'; worker-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'"
    )


HOST = "127.0.0.1"
"""Address on which the server listens."""
MAX_BYTES = 4 * MAX_TEXT + 100_000
"""Maximum size of a request body in bytes."""
_FILES = {
    "/studio.js": "text/javascript; charset=utf-8",
    "/studio.css": "text/css; charset=utf-8",
    "/LICENSES.txt": "text/plain; charset=utf-8",
}
"""Media type by URL path, for the files of the page that are served without a token."""
_MAX_LATEST = 32
"""Maximum number of (page, kind of request) pairs for which the latest request is remembered."""


def page_file(name: str) -> bytes:
    """Return the content of one of the page's files."""
    return (files("archir.tools.studio") / "page" / name).read_bytes()


class Studio:
    """Application behind the studio's page: answers requests about a program, and saves it if `file` is set.

    Requests are answered one at a time. A newer request of the same kind from the same page cancels the running one and
    replaces the waiting one, as the page no longer needs their answers.
    """

    def __init__(self, port: int, file: Path | None = None) -> None:
        self.port, self.file = port, file
        self.token = secrets.token_urlsafe(24)
        self._session = Session(
            file.name if file is not None else "space.arch", file.parent if file is not None else None
        )
        self._lock = threading.Lock()
        self._latest: dict[tuple[str, str], object] = {}
        self._running: tuple[tuple[str, str], Context] | None = None

    @property
    def address(self) -> str:
        """URL of the page, including the token that is required to open it."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    def text(self) -> str:
        """Return the content of the file, or "" if it does not exist. Raises ArchError (A0801) if it cannot be read."""
        return read_program(self.file) if self.file is not None and self.file.exists() else ""

    def app(self) -> ASGIApp:
        """Return the ASGI application."""
        routes = [
            Route("/", self._page),
            Route("/text", self._text),
            Route("/save", self._save, methods=["POST"]),
            Route("/ask/{kind}", self._ask, methods=["POST"]),
            *(Route(path, _file) for path in _FILES),
        ]
        return _AccessGuard(
            Starlette(
                routes=routes,
                exception_handlers={RequestError: _bad_request, ArchError: _file_error, OSError: _file_error},
            ),
            self,
        )

    async def _page(self, _: Request) -> Response:
        return Response(page_file("index.html"), media_type="text/html; charset=utf-8")

    async def _text(self, _: Request) -> Response:
        """Answer with the initial text: the content of the file, or null if there is no file.

        The page then shows an example.
        """
        if self.file is None:
            return JSONResponse({"name": "space.arch", "text": None, "digest": None})
        text = await run_in_threadpool(self.text)
        return JSONResponse({"name": self.file.name, "text": text, "digest": _digest(text)})

    async def _save(self, request: Request) -> Response:
        """Write the file. If it has changed on disk since the page read it, answer with status 409 instead."""
        if self.file is None:
            return _error_response(403, "there is no file to save to: start with archir studio FILE")
        fields = await _fields(request)
        request_fields = RequestFields(fields)
        text, digest = request_fields.text(), request_fields.text("digest", 64)
        if digest != _digest(await run_in_threadpool(self.text)):
            return _error_response(
                409, f"{self.file.name} was changed by another program; copy your text, then reload the page"
            )
        await run_in_threadpool(write_atomic, self.file, text.encode())
        return JSONResponse({"digest": _digest(text)})

    async def _ask(self, request: Request) -> Response:
        """Answer a request of the page; with null if a newer request has replaced it."""
        kind = request.path_params["kind"]
        if kind not in self._session.kinds:
            return _error_response(404, f"there are no requests of kind `{kind}`")
        fields = await _fields(request)
        page_and_kind = RequestFields(fields).text("page", 64), kind
        return JSONResponse(await run_in_threadpool(self._answer, page_and_kind, fields))

    def _answer(self, page_and_kind: tuple[str, str], fields: Any) -> Answer | None:
        """Return the answer to a request, or None if a newer request of the same kind from the same page replaced
        it."""
        request_id = object()
        self._latest.pop(page_and_kind, None)
        self._latest[page_and_kind] = request_id
        while len(self._latest) > _MAX_LATEST:
            self._latest.pop(next(iter(self._latest)), None)
        running = self._running
        if running is not None and running[0] == page_and_kind:
            exhaust_budget(running[1])
        with self._lock:
            if self._latest.get(page_and_kind) is not request_id:
                return None
            context = copy_context()
            self._running = page_and_kind, context
            try:
                answer = context.run(self._session.ask, page_and_kind[1], fields)
            finally:
                self._running = None
        return answer if self._latest.get(page_and_kind) is request_id else None


class _AccessGuard:
    """ASGI middleware that admits only requests of the studio's own page on this machine, and adds security headers."""

    def __init__(self, app: ASGIApp, studio: Studio) -> None:
        self._app, self._studio = app, studio

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI connection. Connections that are neither HTTP nor lifespan events are dropped."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        refusal = self._refusal(Request(scope))
        await (
            self._app(scope, receive, send_with_headers)
            if refusal is None
            else refusal(scope, receive, send_with_headers)
        )

    def _refusal(self, request: Request) -> Response | None:
        """Return the error response to a request with a wrong host, origin or token, or None if the request is
        admitted."""
        port = self._studio.port
        hosts = {f"{name}:{port}" for name in (HOST, "localhost")}
        origin = request.headers.get("origin")
        if request.headers.get("host") not in hosts:
            return _error_response(403, "this server answers only requests from this machine")
        if origin is not None and origin not in {f"http://{host}" for host in hosts}:
            return _error_response(403, "this server answers only its own page")
        if request.url.path in _FILES:
            return None
        token = request.query_params.get("token", "") if request.url.path == "/" else _bearer_token(request)
        if secrets.compare_digest(token.encode(), self._studio.token.encode()):
            return None
        text = "Open this page with the complete address that `archir studio` printed, including its token.\n"
        return PlainTextResponse(text, 403)


_HEADERS = [
    (b"content-security-policy", content_security_policy().encode()),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
"""Security headers that are added to every response."""


def _bearer_token(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token if kind == "Bearer" else ""


async def _file(request: Request) -> Response:
    path = request.url.path
    return Response(page_file(path[1:]), media_type=_FILES[path])


async def _fields(request: Request) -> Any:
    """Return the parsed JSON body of a request.

    Raises RequestError if the body is not JSON, or is larger than MAX_BYTES.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RequestError("the content type of a request must be application/json")
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BYTES:
                raise RequestError(f"a request may have at most {MAX_BYTES:,} bytes")
    except ClientDisconnect:
        raise RequestError("the request ended before its body was complete") from None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError("the body of a request must be JSON") from None


async def _bad_request(_: Request, error: Exception) -> Response:
    """Exception handler: answer with status 400 to a malformed request."""
    return _error_response(400, str(error))


async def _file_error(_: Request, error: Exception) -> Response:
    """Exception handler: answer with status 500 if the file cannot be read or written."""
    message = error.diagnostics[0].message if isinstance(error, ArchError) else str(error)
    return _error_response(500, f"the file cannot be read or written: {message}")


def _error_response(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def serve(studio: Studio, bound_socket: socket.socket) -> None:
    """Serve the studio on an already bound socket until Ctrl-C."""
    settings = uvicorn.Config(
        studio.app(), log_level="error", access_log=False, server_header=False, lifespan="off",
        timeout_graceful_shutdown=1, limit_concurrency=64, ws="none",
    )  # fmt: skip
    uvicorn.Server(settings).run(sockets=[bound_socket])
