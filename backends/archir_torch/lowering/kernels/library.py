"""The library of kernels: compiled once for each machine and kept in the user's cache.

It is plain C++ without torch's headers, so compiling takes seconds, and is called with addresses of tensors. Sizes are
arguments: no network needs another compilation.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from archir.diagnostics.errors import ArchError, fail
from archir.utils import files

SOURCE = Path(__file__).parent / "source"
FLAGS = ("-O3", "-std=c++17", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
PRECISIONS = {torch.float32: "f32", torch.float64: "f64"}
"""Types of numbers that there are kernels for."""


def compiler() -> str:
    """The C++ compiler to use, or nothing."""
    for name in (os.environ.get("CXX", ""), "g++", "clang++"):
        if name and shutil.which(name):
            return name
    return ""


def impossible() -> str:
    """Why nothing can be compiled for the CPU; nothing, if it can be."""
    if sys.platform == "win32":
        return "there are no compiled kernels on Windows"
    if not compiler():
        return f"there is no C++ compiler (`{os.environ.get('CXX') or 'g++'}`)"
    return ""


def folder() -> Path:
    """Where libraries are kept."""
    return files.cache() / "kernels"


@cache
def library() -> ctypes.CDLL:
    """The library. Raises ArchError (A1109) if it cannot be compiled, or kept."""
    try:
        path = built()
        try:
            return ctypes.CDLL(str(path))
        except OSError:  # it was cut off, or is another machine's
            path.unlink(missing_ok=True)
            return ctypes.CDLL(str(built()))
    except OSError as error:
        raise _refused(f"kernels cannot be kept in `{folder()}`: {error}") from error


def is_built() -> bool:
    """Whether this machine has compiled it."""
    try:
        return _path(compiler(), _flags()).exists()
    except OSError:
        return False


def built() -> Path:
    """The library's file, compiled if this machine has not compiled it yet."""
    name, flags = compiler(), _flags()
    path = _path(name, flags)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.parent.stat()
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _refused(f"kernels are not taken from `{path.parent}`, where others can put theirs")
    if path.exists():
        return path
    with tempfile.TemporaryDirectory(dir=path.parent) as room:
        made = Path(room) / path.name
        command = [name, str(SOURCE / "library.cpp"), *flags, "-o", str(made)]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            said = next((line for line in run.stderr.splitlines() if "error" in line), run.stderr.strip())
            raise _refused(f"kernels cannot be compiled: {said}")
        os.replace(made, path)
    return path


def _refused(text: str) -> ArchError:
    return fail("A1109", text, None, "training.compile = false")


def _path(name: str, flags: Sequence[str]) -> Path:
    return folder() / f"{_key(name, flags)}.so"


def _flags() -> list[str]:
    return [*FLAGS, *_machine_flags(), *_threads()]


def _machine_flags() -> list[str]:
    return ["-mcpu=native"] if platform.machine() in ("arm64", "aarch64") else ["-march=native"]


def _threads() -> list[str]:
    """Threads are those of torch: of two libraries, each would wait for the other's."""
    own = sorted((Path(torch.__file__).parent / "lib").glob("libgomp*"))
    return ["-fopenmp", *map(str, own[:1])] if sys.platform == "linux" else []


def _key(name: str, flags: Sequence[str]) -> str:
    """What a library depends on: the source, the compiler, the flags and the processor."""
    found = hashlib.sha256()
    for path in sorted(SOURCE.iterdir()):
        found.update(path.read_bytes())
    version = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
    found.update("\0".join([*flags, version, platform.machine(), _processor()]).encode())
    return found.hexdigest()[:24]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "".join(line for line in lines[:64] if line.startswith(("flags", "model name", "Features")))


ARGUMENTS = {
    "moments": "pnnddppppn",
    "norm_forward": "pnnpnpn",
    "norm_backward": "ppnnpnpppn",
    "depthwise_forward": "pppnppn",
    "depthwise_backward": "ppppnpppppn",
    "statistics": "ppnnddpppn",
    "separable_forward": "pppnppnpppn",
    "separable_backward": "ppppnppnppppppn",
    "sum_forward": "pnnnpn",
    "sum_backward": "pppnnnn",
    "attention_forward": "ppppppn",
    "attention_backward": "ppppppppppn",
    "pool_forward": "ppnnpn",
    "pool_backward": "pppnnpn",
}
"""The arguments of each function: addresses, whole numbers, and numbers of double precision."""
_KINDS: dict[str, type[ctypes.c_void_p | ctypes.c_int64 | ctypes.c_double]] = {
    "p": ctypes.c_void_p,
    "n": ctypes.c_int64,
    "d": ctypes.c_double,
}


@cache
def function(name: str, dtype: torch.dtype) -> Callable[..., None]:
    """A kernel for numbers of a type."""
    found = library()[f"{name}_{PRECISIONS[dtype]}"]
    found.argtypes, found.restype = [_KINDS[kind] for kind in ARGUMENTS[name]], None
    return found


def call(name: str, dtype: torch.dtype, *arguments: Any) -> None:
    """Run a kernel for numbers of a type; tensors are given as addresses, None as no address, lists as arrays."""
    given = [
        one.data_ptr() if isinstance(one, torch.Tensor) else array(one) if isinstance(one, tuple) else one
        for one in arguments
    ]
    function(name, dtype)(*given, torch.get_num_threads())


def array(values: Sequence[Any]) -> Any:
    """Numbers and addresses, one behind the other in memory."""
    numbers = [one.data_ptr() if isinstance(one, torch.Tensor) else one or 0 for one in values]
    return (ctypes.c_int64 * len(numbers))(*numbers)


def suits(*tensors: torch.Tensor | None) -> bool:
    """Whether there are kernels for a map [N, C, H, W], the first one, and what belongs to it."""
    first, *others = [tensor for tensor in tensors if tensor is not None]
    return (
        first.dim() == 4
        and first.dtype in PRECISIONS
        and first.numel() > 0
        and all(
            one.device.type == "cpu" and one.dtype == first.dtype and type(one) in PLAIN for one in (first, *others)
        )
        and all(one.dim() == 4 or one.is_contiguous() for one in others)
        and torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
    )


PLAIN = (torch.Tensor, torch.nn.Parameter)


def laid_out(x: torch.Tensor) -> torch.Tensor:
    """A map pixel by pixel in memory."""
    return x.contiguous(memory_format=torch.channels_last)


def empty(shape: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    """A map that is not written yet."""
    return torch.empty(tuple(shape), dtype=like.dtype, device=like.device, memory_format=torch.channels_last)
