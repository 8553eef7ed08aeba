"""A model over HTTP: python service.py net.onnx --port 8000. See README.md."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import uvicorn
from batching import Batcher, FullError
from model import Arrays, Model, UnservableError
from numpy.typing import NDArray
from samples import accepted, decoded, memory, most_bytes
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_CLASSES = 5
"""The likeliest classes, of which an answer tells."""


@dataclass(frozen=True)
class Settings:
    """How much is taken at once, and how long things may take, in seconds."""

    batch: int = 32
    wait: float = 0.002
    queue: int = 256
    timeout: float = 10.0
    memory: int = 256 * 2**20
    connections: int = 1024


class Service:
    """The endpoints, and what they share."""

    def __init__(self, model: Model, settings: Settings) -> None:
        self._model, self._settings = model, settings
        self._batcher: Batcher[Arrays, Arrays] = Batcher(
            model.run, size=settings.batch, wait=settings.wait, room=settings.queue
        )
        self._answers: Counter[int] = Counter()
        self._held = 0
        self.draining = False
        """Whether this is about to stop."""

    def app(self) -> Starlette:
        """The ASGI application."""
        routes = [
            Route("/predict", self._predict, methods=["POST"]),
            Route("/healthz", self._health),
            Route("/readyz", self._readiness),
            Route("/metadata", self._metadata),
            Route("/metrics", self._metrics),
        ]
        return Starlette(
            routes=routes,
            middleware=[Middleware(_Watched, service=self)],
            exception_handlers={HTTPException: _refusal},
            lifespan=self._lifespan,
        )

    def answered(self, status: int) -> None:
        """Count an answer."""
        self._answers[status] += 1

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        serving = asyncio.create_task(self._batcher.serve())
        yield
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    async def _predict(self, request: Request) -> Response:
        if request.headers.get("content-encoding", "identity") != "identity":
            raise HTTPException(415, "bodies are taken as they are, without a content encoding")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        with self._room(kind, request) as most:
            sample = await run_in_threadpool(decoded, kind, await self._body(request, most), self._model.inputs)
            try:
                async with asyncio.timeout(self._settings.timeout):
                    outputs = await self._batcher.answer(sample)
            except (FullError, TimeoutError):
                raise _busy() from None
        if not all(np.isfinite(array).all() for array in outputs.values() if array.dtype.kind == "f"):
            raise HTTPException(422, "of this input, the model computes numbers that are not finite")
        answer: dict[str, Any] = {"outputs": {name: array.tolist() for name, array in outputs.items()}}
        if self._model.labels:
            answer["classes"] = _classes(outputs[self._model.outputs[0].name], self._model.labels)
        return JSONResponse(answer)

    @contextmanager
    def _room(self, kind: str, request: Request) -> Iterator[int]:
        """Memory for a body and what becomes of it; the most bytes that it may have. What is refused holds none."""
        if kind not in accepted(self._model.inputs):
            decoded(kind, b"", self._model.inputs)  # says what is taken
        most = most_bytes(kind, self._model.inputs)
        length = int(request.headers.get("content-length", most))
        if length > most:
            raise _too_large(most)
        needed = memory(kind, length, self._model.inputs)
        if needed > self._settings.memory:
            raise HTTPException(413, f"such a body may take {needed} bytes; all requests have {self._settings.memory}")
        if self._held + needed > self._settings.memory:
            raise _busy()
        self._held += needed
        try:
            yield length
        finally:
            self._held -= needed

    async def _body(self, request: Request, most: int) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(self._settings.timeout):
                async for part in request.stream():
                    body += part
                    if len(body) > most:
                        raise _too_large(most)
        except TimeoutError:
            raise HTTPException(408, "the body did not come in time") from None
        except ClientDisconnect:
            raise HTTPException(400, "the body ended early") from None
        return bytes(body)

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def _readiness(self, _: Request) -> Response:
        if self.draining:
            return JSONResponse({"status": "draining"}, 503)
        return JSONResponse({"status": "ready"})

    async def _metadata(self, _: Request) -> Response:
        model = self._model
        slots = {"inputs": model.inputs, "outputs": model.outputs}
        described = {name: [one.described() for one in found] for name, found in slots.items()}
        return JSONResponse({**described, "metadata": model.metadata})

    async def _metrics(self, _: Request) -> Response:
        """Counters, in the text format of Prometheus."""
        lines = [f'serve_answers_total{{status="{status}"}} {n}' for status, n in sorted(self._answers.items())]
        batcher = self._batcher
        lines += [f"serve_batches_total {batcher.batches}", f"serve_samples_total {batcher.samples}"]
        lines += [f"serve_waiting {batcher.waiting}", f"serve_memory_bytes {self._held}"]
        return PlainTextResponse("\n".join(lines) + "\n")


class _Watched:
    """Counts answers, and closes connections when the service is about to stop."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._service.answered(message["status"])
                if self._service.draining:
                    MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        await self._app(scope, receive, watched)


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"a body has {most} bytes at most, as a sample of the model may have")


def _busy() -> HTTPException:
    return HTTPException(503, "too many requests for now", {"retry-after": "1"})


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def _classes(logits: NDArray[Any], labels: list[str]) -> list[dict[str, Any]]:
    """The likeliest classes, by the softmax of a network's output."""
    exact = logits.astype(np.float64)
    powers = np.exp(exact - exact.max())
    chances = powers / powers.sum()
    return [
        {"label": labels[which], "probability": float(chances[which])} for which in np.argsort(-chances)[:MOST_CLASSES]
    ]


class Server(uvicorn.Server):
    """Stops in two steps: for `notice` seconds it says so, and answers; then it takes no connection, and finishes.

    A load balancer needs the first step: it sends requests until it has seen that /readyz fails.
    """

    def __init__(self, config: uvicorn.Config, service: Service, notice: float) -> None:
        super().__init__(config)
        self._service, self._notice = service, notice
        self._until = float("inf")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal begins the notice; a second one ends it."""
        self._until = time.monotonic() + (0 if self._service.draining else self._notice)
        self._service.draining = True

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second."""
        self.should_exit |= time.monotonic() >= self._until
        return await super().on_tick(counter)


def main() -> None:
    """The command line."""
    usual = Settings()
    parser = argparse.ArgumentParser(description="Serve an ONNX model over HTTP.")
    parser.add_argument("model", type=Path, help="what `archir export` wrote")
    parser.add_argument("--host", default="127.0.0.1", help="[%(default)s]")
    parser.add_argument("--port", type=int, default=8000, help="[%(default)s]")
    parser.add_argument("--threads", type=int, default=0, help="threads that compute [all]")
    parser.add_argument("--batch", type=int, default=usual.batch, help="most samples of a batch [%(default)s]")
    parser.add_argument("--wait", type=float, default=usual.wait, help="seconds a batch gathers [%(default)s]")
    parser.add_argument("--queue", type=int, default=usual.queue, help="most requests that wait [%(default)s]")
    parser.add_argument("--timeout", type=float, default=usual.timeout, help="seconds for a request [%(default)s]")
    parser.add_argument("--memory", type=int, default=usual.memory, help="bytes for all requests [%(default)s]")
    parser.add_argument("--connections", type=int, default=usual.connections, help="at a time, at most [%(default)s]")
    parser.add_argument("--notice", type=float, default=2.0, help="seconds from SIGTERM to closing [%(default)s]")
    given = parser.parse_args()
    settings = Settings(given.batch, given.wait, given.queue, given.timeout, given.memory, given.connections)
    try:
        model = Model(given.model, given.threads)
        model.warm_up(settings.batch)
    except UnservableError as error:
        sys.exit(f"{given.model} is not served: {error}")
    service = Service(model, settings)
    config = uvicorn.Config(
        service.app(), host=given.host, port=given.port, ws="none", access_log=False,
        limit_concurrency=settings.connections,
        timeout_graceful_shutdown=round(2 * given.timeout) + 1,
    )  # fmt: skip
    Server(config, service, given.notice).run()


if __name__ == "__main__":
    main()
