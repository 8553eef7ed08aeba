"""What a figure was measured on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path


def processor() -> str:
    """The processor's name, as far as the system tells."""
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def gpu() -> str:
    """The names of the NVIDIA GPUs, as far as the system tells."""
    found = []
    for listing in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        lines = listing.read_text(encoding="utf-8", errors="replace").splitlines()
        found += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return ", ".join(found) or "unknown"


def cores() -> int:
    """The processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def clock(threads: int) -> tuple[str, Callable[[], int]]:
    """What to time computations on the processor with, in nanoseconds, and its name.

    What one thread computes is timed by the processor time of that thread, which other programs do not lengthen; that
    takes a fine clock. Several threads are timed by the clock on the wall.
    """
    if threads == 1 and time.get_clock_info("thread_time").resolution <= 1e-6:
        return "thread time", time.thread_time_ns
    return "wall time", time.perf_counter_ns
