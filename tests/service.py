"""The serving example in a process of its own, and its clients."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from tests.conftest import EXAMPLES

FOLDER = EXAMPLES / "serve"
_SLOW = """
import sys, time
sys.path.insert(0, {folder!r})
import model, service
run = model.Model.run
model.Model.run = lambda self, samples: (time.sleep({seconds}), run(self, samples))[1]
service.main()
"""
RAW, JSON = "application/octet-stream", "application/json"


class Answer(NamedTuple):
    """Status, headers and body of a response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def command(model: Path, *options: str, slow: float | None = None) -> list[str]:
    """Return the command that starts the service; `slow` are seconds that each batch takes longer."""
    script = [str(FOLDER / "service.py")]
    if slow is not None:
        script = ["-c", _SLOW.format(folder=str(FOLDER), seconds=slow)]
    return [sys.executable, "-W", "error", *script, str(model), "--port", "0", "--threads", "1", *options]


@dataclass
class Running:
    """A running service."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def ask(
        self, path: str = "/predict", body: bytes | None = None, kind: str | None = None, method: str | None = None,
        **headers: str,
    ) -> Answer:  # fmt: skip
        """Return the response to one request, on its own connection."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(
                method or ("GET" if body is None else "POST"), path, body,
                named | ({} if kind is None else {"content-type": kind}),
            )  # fmt: skip
            got = connection.getresponse()
            return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())
        finally:
            connection.close()

    def counted(self) -> dict[str, float]:
        """Return the service's counters."""
        lines = self.ask("/metrics").body.decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def stop(self) -> int:
        """Send SIGTERM, wait, and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def running(model: Path, folder: Path, *options: str, slow: float | None = None) -> Iterator[Running]:
    """Run a service within the `with` statement."""
    log = folder / "service.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command(model, *options, slow=slow), stdout=file, stderr=file)
    try:
        deadline = time.monotonic() + 60
        while not (started := re.search(r"running on http://127\.0\.0\.1:(\d+)", log.read_text("utf-8"))):
            assert process.poll() is None, log.read_text("utf-8")
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield Running(process, int(started[1]), log)
    finally:
        process.kill()
        process.wait()


class Client:
    """A keep-alive connection without threads, many of which fit in a process."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def ask(self, path: str, body: bytes = b"", kind: str = RAW) -> Answer:
        """Return the response to a POST, or a GET without a body. Raises OSError or EOFError if there is none."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        line = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nhost: loopback\r\ncontent-type: {kind}\r\n"
        writer.write(f"{line}content-length: {len(body)}\r\n\r\n".encode() + body)
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        answer = Answer(int(first.split()[1]), headers, await reader.readexactly(int(headers["content-length"])))
        if headers.get("connection") == "close":
            await self._close()
        return answer

    async def _close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            await self._streams[1].wait_closed()
            self._streams = None


async def ask(port: int, path: str, body: bytes = b"", kind: str = RAW) -> Answer:
    """Return the response to one request, on its own connection."""
    async with Client(port) as client:
        return await client.ask(path, body, kind)


@dataclass
class Load:
    """The results of many requests."""

    latencies: list[float] = field(default_factory=list)
    """Seconds, of those that were answered rightly."""
    wrong: list[str] = field(default_factory=list)
    """What went wrong with the others."""

    def __str__(self) -> str:
        p50, p99 = 1e3 * np.percentile(self.latencies, [50, 99])
        return f"{len(self.latencies)} requests, p50 {p50:.1f} ms, p99 {p99:.1f} ms"


async def load(port: int, cases: Sequence[Case], clients: int, seconds: float) -> Load:
    """Run clients that send the next request as soon as the last is answered, each with inputs of its own.

    They end after `seconds`, or when the service says that it closes the connection.
    """
    results, deadline = Load(), time.monotonic() + seconds

    async def client(own: Sequence[Case]) -> None:
        asked = 0
        async with Client(port) as connection:
            while time.monotonic() < deadline:
                case, begin = own[asked % len(own)], time.perf_counter()
                asked += 1
                try:
                    answer = await connection.ask("/predict", case.body, case.kind)
                except (OSError, EOFError) as error:
                    results.wrong.append(f"request {asked}: {error!r}")
                    break
                if answer.status == 200 and case.right(answer):
                    results.latencies.append(time.perf_counter() - begin)
                else:
                    results.wrong.append(f"request {asked}: {answer}")
                if answer.headers.get("connection") == "close":
                    break

    await asyncio.gather(*(client(cases[number::clients]) for number in range(clients)))
    return results


@dataclass(frozen=True)
class Case:
    """A request and its expected answer."""

    kind: str
    body: bytes
    wanted: NDArray[Any]

    def right(self, answer: Answer) -> bool:
        """True if a response is correct."""
        (output,) = answer.json["outputs"].values()
        return np.allclose(output, self.wanted, rtol=1e-4, atol=1e-5)


def cases(model: Path, count: int, seed: int = 0) -> list[Case]:
    """Return random samples of a model with one input, as bytes and JSON in turn, with the outputs of onnxruntime."""
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    (model_input,) = session.get_inputs()
    rng, requests = np.random.default_rng(seed), []
    for number in range(count):
        sample = rng.standard_normal(model_input.shape[1:]).astype(np.float32)
        expected = session.run(None, {model_input.name: sample[None]})[0][0]
        body = json.dumps({"inputs": sample.tolist()}).encode() if number // 64 % 2 else sample.tobytes()
        requests.append(Case(JSON if number // 64 % 2 else RAW, body, expected))
    return requests
