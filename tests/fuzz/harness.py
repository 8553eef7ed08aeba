"""What whatever comes in may do: be taken, or be refused with a diagnostic, soon and in little memory."""

from __future__ import annotations

import random
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import click

from archir.diagnostics.errors import ArchError

SECONDS = 5
"""Of processor time."""
MOST_MEMORY = 2**30
"""Bytes by which a case may make this process grow."""

Case = tuple[object, Callable[[], object]]
"""What is put in, to be shown, and what takes it."""
Maker = Callable[[random.Random], Case]
Kind = Callable[[Path], Maker]
"""Makes a maker of cases, which may write into a folder."""


@dataclass
class Finding:
    """A case that did something else."""

    seed: str
    put_in: object
    what: str

    def __str__(self) -> str:
        return f"--- {self.seed}\n{str(self.put_in)[:2000]}\n{self.what}"


class TooLongError(BaseException):
    """A case took too long. It is no Exception, so that nothing on the way takes it for its own."""


@contextmanager
def _limited(seconds: float) -> Generator[None, None, None]:
    def stop(_: int, frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _highest(anew: bool = False) -> int:
    """The most memory that this process has had, in KiB; anew, from now on, where the system can begin anew: Linux."""
    try:
        if anew:
            Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def tried(case: Case, seed: str, seconds: float = SECONDS, most: int = MOST_MEMORY) -> Finding | None:
    """What a case did that it may not."""
    put_in, take = case
    memory = _highest(anew=True)
    try:
        with _limited(seconds):
            take()
    except ArchError as error:
        str(error)
    except click.UsageError as error:
        error.format_message()
    except TooLongError:
        return Finding(seed, put_in, f"more than {seconds} s\n{traceback.format_exc()[-1500:]}")
    except (SystemExit, Exception) as error:
        return Finding(seed, put_in, f"{type(error).__name__}\n{traceback.format_exc()[-1500:]}")
    grown = 1024 * (_highest() - memory)
    if grown > most:
        return Finding(seed, put_in, f"grew by {grown / 2**20:,.0f} MiB")
    return None


def found(make: Maker, name: str, count: int, first: int = 0) -> list[Finding]:
    """What cases of these seeds did that they may not; of several that end at the same line, the first."""
    findings: dict[str, Finding] = {}
    for number in range(first, first + count):
        seed = f"{name}:{number}"
        one = tried(make(random.Random(seed)), seed)
        if one is not None:
            findings.setdefault("\n".join(one.what.splitlines()[-3:]), one)
        if sys.stderr.isatty() and number % 100 == 0:
            print(number, file=sys.stderr, end="\r")
    return [*findings.values()]
