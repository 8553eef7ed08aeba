"""The rule of fuzzing: every input is accepted, or refused with a diagnostic, within limits of time and memory."""

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
"""Limit of processor time for a case."""
MAX_GROWTH_BYTES = 2**30
"""Limit of this process's growth during a case, in bytes."""

Case = tuple[object, Callable[[], object]]
"""The input, for messages, and a function that processes it."""
Maker = Callable[[random.Random], Case]
Kind = Callable[[Path], Maker]
"""Creates a maker of cases, which may write into a folder."""


@dataclass
class Finding:
    """A case with a forbidden outcome."""

    seed: str
    put_in: object
    what: str

    def __str__(self) -> str:
        return f"--- {self.seed}\n{str(self.put_in)[:2000]}\n{self.what}"


class TooLongError(BaseException):
    """A case exceeded the time limit. It is not an Exception, so that no handler of the tested code catches it."""


@contextmanager
def _time_limit(seconds: float) -> Generator[None, None, None]:
    def stop(_: int, frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _peak_memory(reset: bool = False) -> int:
    """Return the peak memory of this process in KiB. With `reset`, reset the peak first, which only Linux supports."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run_case(case: Case, seed: str, seconds: float = SECONDS, max_growth: int = MAX_GROWTH_BYTES) -> Finding | None:
    """Run a case, and return its forbidden outcome, if any."""
    put_in, take = case
    memory = _peak_memory(reset=True)
    try:
        with _time_limit(seconds):
            take()
    except ArchError as error:
        str(error)
    except click.UsageError as error:
        error.format_message()
    except TooLongError:
        return Finding(seed, put_in, f"more than {seconds} s\n{traceback.format_exc()[-1500:]}")
    except (SystemExit, Exception) as error:
        return Finding(seed, put_in, f"{type(error).__name__}\n{traceback.format_exc()[-1500:]}")
    grown = 1024 * (_peak_memory() - memory)
    if grown > max_growth:
        return Finding(seed, put_in, f"grew by {grown / 2**20:,.0f} MiB")
    return None


def find_failures(make: Maker, name: str, count: int, first: int = 0) -> list[Finding]:
    """Run cases of some seeds, and return their forbidden outcomes, the first of those that end at the same line."""
    findings: dict[str, Finding] = {}
    for number in range(first, first + count):
        seed = f"{name}:{number}"
        finding = run_case(make(random.Random(seed)), seed)
        if finding is not None:
            findings.setdefault("\n".join(finding.what.splitlines()[-3:]), finding)
        if sys.stderr.isatty() and number % 100 == 0:
            print(number, file=sys.stderr, end="\r")
    return [*findings.values()]
