"""HTTP service of an ONNX model: python service.py net.onnx --port 8000. See README.md."""

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
from samples import accepted_types, decode, max_bytes, memory
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_CLASSES = 5
"""Number of classes in an answer, the most probable ones."""


@dataclass(frozen=True)
class Settings:
    """Limits of the service; times are in seconds, `memory` in bytes."""

    batch: int = 32
    wait: float = 0.002
    queue: int = 256
    timeout: float = 10.0
    memory: int = 256 * 2**20
    connections: int = 1024


class Service:
    """The endpoints and their shared state."""

    def __init__(self, model: Model, settings: Settings) -> None:
        self._model, self._settings = model, settings
        self._batcher: Batcher[Arrays, Arrays] = Batcher(
            model.run, size=settings.batch, wait=settings.wait, capacity=settings.queue
        )
        self._answers: Counter[int] = Counter()
        self._held = 0
        self.draining = False
        """True once the service is about to stop."""

    def app(self) -> Starlette:
        """Return the ASGI application."""
        routes = [
            Route("/predict", self._predict, methods=["POST"]),
            Route("/healthz", self._health),
            Route("/readyz", self._readiness),
            Route("/metadata", self._metadata),
            Route("/metrics", self._metrics),
        ]
        return Starlette(
            routes=routes,
            middleware=[Middleware(_CountingMiddleware, service=self)],
            exception_handlers={HTTPException: _refusal},
            lifespan=self._lifespan,
        )

    def count_answer(self, status: int) -> None:
        """Count an answer of a status."""
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
        with self._reserved_memory(kind, request) as max_size:
            sample = await run_in_threadpool(decode, kind, await self._body(request, max_size), self._model.inputs)
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
    def _reserved_memory(self, kind: str, request: Request) -> Iterator[int]:
        """Reserve memory for a body and its sample, and yield the size limit of the body.

        Raises HTTPException if the body is refused; then nothing is reserved.
        """
        if kind not in accepted_types(self._model.inputs):
            decode(kind, b"", self._model.inputs)  # raises the error that lists the accepted types
        max_size = max_bytes(kind, self._model.inputs)
        length = int(request.headers.get("content-length", max_size))
        if length > max_size:
            raise _too_large(max_size)
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

    async def _body(self, request: Request, max_size: int) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(self._settings.timeout):
                async for part in request.stream():
                    body += part
                    if len(body) > max_size:
                        raise _too_large(max_size)
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
        descriptions = {name: [slot.description() for slot in group] for name, group in slots.items()}
        return JSONResponse({**descriptions, "metadata": model.metadata})

    async def _metrics(self, _: Request) -> Response:
        """Return counters in the text format of Prometheus."""
        lines = [f'serve_answers_total{{status="{status}"}} {n}' for status, n in sorted(self._answers.items())]
        batcher = self._batcher
        lines += [f"serve_batches_total {batcher.batches}", f"serve_samples_total {batcher.samples}"]
        lines += [f"serve_waiting {batcher.waiting}", f"serve_memory_bytes {self._held}"]
        return PlainTextResponse("\n".join(lines) + "\n")


class _CountingMiddleware:
    """Middleware that counts answers, and closes connections when the service is about to stop."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counting_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._service.count_answer(message["status"])
                if self._service.draining:
                    MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        await self._app(scope, receive, counting_send)


def _too_large(max_size: int) -> HTTPException:
    return HTTPException(413, f"a body has {max_size} bytes at most, as a sample of the model may have")


def _busy() -> HTTPException:
    return HTTPException(503, "too many requests for now", {"retry-after": "1"})


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def _classes(logits: NDArray[Any], labels: list[str]) -> list[dict[str, Any]]:
    """Return the most probable classes, by the softmax of a network's output."""
    values = logits.astype(np.float64)
    exponentials = np.exp(values - values.max())
    probabilities = exponentials / exponentials.sum()
    return [
        {"label": labels[index], "probability": float(probabilities[index])}
        for index in np.argsort(-probabilities)[:MAX_CLASSES]
    ]


class Server(uvicorn.Server):
    """Stops in two steps: for `notice` seconds it fails /readyz and still answers; then it closes its socket and
    finishes.

    A load balancer needs the first step: it sends requests until it has seen that /readyz fails.
    """

    def __init__(self, config: uvicorn.Config, service: Service, notice: float) -> None:
        super().__init__(config)
        self._service, self._notice = service, notice
        self._until = float("inf")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start the notice on the first signal; end it on the second."""
        self._until = time.monotonic() + (0 if self._service.draining else self._notice)
        self._service.draining = True

    async def on_tick(self, counter: int) -> bool:
        """Stop after the notice; uvicorn calls this ten times a second."""
        self.should_exit |= time.monotonic() >= self._until
        return await super().on_tick(counter)


def main() -> None:
    """Run the command line."""
    defaults = Settings()
    parser = argparse.ArgumentParser(description="Serve an ONNX model over HTTP.")
    parser.add_argument("model", type=Path, help="ONNX model written by archir")
    parser.add_argument("--host", default="127.0.0.1", help="[%(default)s]")
    parser.add_argument("--port", type=int, default=8000, help="[%(default)s]")
    parser.add_argument("--threads", type=int, default=0, help="threads for computing [all]")
    parser.add_argument("--batch", type=int, default=defaults.batch, help="maximum samples of a batch [%(default)s]")
    parser.add_argument(
        "--wait", type=float, default=defaults.wait, help="seconds that a batch waits for more samples [%(default)s]"
    )
    parser.add_argument("--queue", type=int, default=defaults.queue, help="maximum queued requests [%(default)s]")
    parser.add_argument(
        "--timeout", type=float, default=defaults.timeout, help="time limit of a request, seconds [%(default)s]"
    )
    parser.add_argument(
        "--memory", type=int, default=defaults.memory, help="memory for all requests, bytes [%(default)s]"
    )
    parser.add_argument(
        "--connections", type=int, default=defaults.connections, help="maximum open connections [%(default)s]"
    )
    parser.add_argument("--notice", type=float, default=2.0, help="seconds from SIGTERM to closing [%(default)s]")
    arguments = parser.parse_args()
    settings = Settings(
        arguments.batch, arguments.wait, arguments.queue, arguments.timeout, arguments.memory, arguments.connections
    )
    try:
        model = Model(arguments.model, arguments.threads)
        model.warm_up(settings.batch)
    except UnservableError as error:
        sys.exit(f"{arguments.model} is not served: {error}")
    service = Service(model, settings)
    config = uvicorn.Config(
        service.app(), host=arguments.host, port=arguments.port, ws="none", access_log=False,
        limit_concurrency=settings.connections,
        timeout_graceful_shutdown=round(2 * arguments.timeout) + 1,
    )  # fmt: skip
    Server(config, service, arguments.notice).run()


if __name__ == "__main__":
    main()
