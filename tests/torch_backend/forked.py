"""Processes that are forked from one that has imported torch, so that tests can start, kill and combine them
quickly."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from torch.multiprocessing.spawn import start_processes

from archir_torch.training import distributed

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.torch_backend.warm"])


class Command:
    """`archir` with arguments as a process, with the part of the interface of `subprocess.Popen` that tests need."""

    def __init__(self, *arguments: object, environment: Mapping[str, str] | None = None) -> None:
        self._said = Path(mkdtemp()) / "said"
        arguments_of_process = tuple(map(str, arguments)), self._said, dict(environment or {})
        self._process = _CONTEXT.Process(target=_command, args=arguments_of_process)
        self._process.start()

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while it runs."""
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self._process.exitcode is None:
            assert self._process.pid is not None
            os.kill(self._process.pid, number)

    def end(self, seconds: float = 240) -> tuple[int, str]:
        """Wait for the end, and return the exit code and the text of both outputs."""
        self._process.join(seconds)
        code = self._process.exitcode
        if code is None:
            self._process.kill()
            raise subprocess.TimeoutExpired("archir", seconds)
        self._process.close()
        text = self._said.read_text() if self._said.exists() else ""
        rmtree(self._said.parent)
        return code, text


def _command(arguments: tuple[str, ...], said: Path, environment: Mapping[str, str]) -> None:
    from archir.cli import main

    os.environ.update(environment)
    out = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    main(arguments, prog_name="archir")


def python(program: Path) -> tuple[int | None, str, str]:
    """Run a program in its folder, with warnings as errors; return its exit code, output and errors."""
    outputs = [program.with_suffix(f".{name}") for name in ("out", "errors")]
    process = _CONTEXT.Process(target=_program, args=(program, *outputs))
    process.start()
    process.join()
    return process.exitcode, *(path.read_text("utf-8") for path in outputs)


def _program(program: Path, *outputs: Path) -> None:
    for number, path in enumerate(outputs, 1):
        os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY), number)
    os.chdir(program.parent)
    sys.path.insert(0, str(program.parent))
    warnings.simplefilter("error")
    runpy.run_path(str(program), run_name="__main__")


def run_processes(count: int, work: Callable[..., None], *arguments: Any) -> None:
    """Call a function in processes of one torch process group, as `torchrun` starts them; its first argument is the
    rank."""
    start_processes(_one_of, (0, count, _port(), work, arguments), nprocs=count, start_method="forkserver")


def together(count: int, work: Callable[..., None], *arguments: Any) -> None:
    """Like `run_processes`, but the first process is this one, where the test can observe it."""
    port = _port()
    others = start_processes(
        _one_of, (1, count, port, work, arguments), nprocs=count - 1, join=False, start_method="forkserver"
    )
    assert others is not None
    before = dict(os.environ)
    try:
        _one_of(0, 0, count, port, work, arguments)
        while not others.join():
            pass
    finally:
        os.environ.clear()
        os.environ.update(before)
        distributed.stop()
        for other in others.processes:
            other.kill()


def _port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _one_of(index: int, first: int, count: int, port: int, work: Callable[..., None], arguments: Any) -> None:
    rank = str(first + index)
    os.environ |= {"RANK": rank, "WORLD_SIZE": str(count), "LOCAL_RANK": rank}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    work(first + index, *arguments)


def archir(rank: int, folder: Path, *arguments: str) -> None:
    """Run the command `archir` as a process of a group; its output goes to files in a folder."""
    try:
        _command(arguments, folder / f"said-{rank}", {})
    except SystemExit as end:
        if end.code:
            raise RuntimeError((folder / f"said-{rank}").read_text()) from None
