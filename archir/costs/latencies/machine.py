"""Description of the machine that measurements run on: processor, GPUs, number of cores, and clocks."""

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
    """Return the processor's name as the operating system reports it."""
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def gpu() -> str:
    """Return the names of the NVIDIA GPUs, separated by commas; empty if the system reports none."""
    return ", ".join(_gpus_in_proc(Path("/proc/driver/nvidia/gpus")) or _gpus_from_smi())


def _gpus_in_proc(folder: Path) -> list[str]:
    """Return the names of the GPUs from the Linux driver's files in /proc."""
    names = []
    for listing in sorted(folder.glob("*/information")):
        lines = listing.read_text(encoding="utf-8", errors="replace").splitlines()
        names += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return names


@cache
def _gpus_from_smi() -> list[str]:
    """Return the names of the GPUs from `nvidia-smi`, for Windows and WSL2, which have no such files in /proc."""
    program = shutil.which("nvidia-smi") or shutil.which("nvidia-smi", path="/usr/lib/wsl/lib")
    if program is None:
        return []
    command = [program, "--query-gpu=name", "--format=csv,noheader"]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):  # the program may be installed without a GPU
        return []
    return [line.strip() for line in completed.stdout.splitlines() if line.strip()]


def cores() -> int:
    """Return the number of processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def clock(threads: int) -> tuple[str, Callable[[], int]]:
    """Return a clock for timing computations on the processor: a name, and a function that returns nanoseconds.

    For a computation in one thread, the clock is the thread's processor time, which other programs do not affect, if
    the resolution of that clock is 1 us. For several threads, the clock is wall time.
    """
    if threads == 1 and time.get_clock_info("thread_time").resolution <= 1e-6:
        return "thread time", time.thread_time_ns
    return "wall time", time.perf_counter_ns
