"""What a figure was measured on."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable
from functools import cache
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
    return ", ".join(_listed(Path("/proc/driver/nvidia/gpus")) or _told()) or "unknown"


def _listed(folder: Path) -> list[str]:
    """As the driver for Linux lists them."""
    found = []
    for listing in sorted(folder.glob("*/information")):
        lines = listing.read_text(encoding="utf-8", errors="replace").splitlines()
        found += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return found


@cache
def _told() -> list[str]:
    """As the driver's own program tells them: Windows, and Linux inside of it (WSL2), have no such list."""
    program = shutil.which("nvidia-smi") or shutil.which("nvidia-smi", path="/usr/lib/wsl/lib")
    if program is None:
        return []
    asked = [program, "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):  # the program alone is no GPU
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


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
