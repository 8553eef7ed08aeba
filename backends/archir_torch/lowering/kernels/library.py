"""Shared library of the CPU kernels, compiled once per machine and kept in the user's cache directory.

The kernels are plain C++ without torch's headers, so that compilation takes seconds. They receive the addresses of
tensors. Sizes are run-time arguments: no network requires recompilation.
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

from archir.diagnostics.errors import ArchError, describe_error, fail
from archir.utils import files

SOURCE = Path(__file__).parent / "source"
"""Directory with the C++ source of the kernels."""
FLAGS = ("-O3", "-std=c++17", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
"""Compiler flags that do not depend on the machine."""
PRECISIONS = {torch.float32: "f32", torch.float64: "f64"}
"""Suffixes of the kernels' names, by dtype; other dtypes have no kernels."""


def compiler() -> str:
    """Return the command name of the C++ compiler; empty if none is installed."""
    for name in (os.environ.get("CXX", ""), "g++", "clang++"):
        if name and shutil.which(name):
            return name
    return ""


def unavailable_reason() -> str:
    """Return why kernels cannot be compiled on this machine; empty if they can."""
    if sys.platform == "win32":
        return "compiled kernels do not support Windows"
    if not compiler():
        return f"there is no C++ compiler (`{os.environ.get('CXX') or 'g++'}`)"
    return ""


def library_folder() -> Path:
    """Return the directory in which compiled libraries are stored."""
    return files.cache_folder() / "kernels"


@cache
def load_library() -> ctypes.CDLL:
    """Load the kernel library; compile it first if necessary.

    Raises ArchError (A1109) if the library cannot be compiled or stored.
    """
    try:
        path = build_library()
        try:
            return ctypes.CDLL(str(path))
        except OSError:  # the file is truncated, or was compiled for another machine
            path.unlink(missing_ok=True)
            return ctypes.CDLL(str(build_library()))
    except OSError as error:
        raise _kernel_error(f"kernels cannot be kept in `{library_folder()}`: {describe_error(error)}") from error


def is_built() -> bool:
    """Return True if the library has already been compiled on this machine."""
    try:
        return _path(compiler(), _flags()).exists()
    except OSError:
        return False


def build_library() -> Path:
    """Return the path of the kernel library; compile the library first if this machine does not have it yet."""
    name, flags = compiler(), _flags()
    path = _path(name, flags)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.parent.stat()
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _kernel_error(f"no kernels are loaded from `{path.parent}`: other users can write to this folder")
    if path.exists():
        return path
    with tempfile.TemporaryDirectory(dir=path.parent) as temporary_folder:
        draft = Path(temporary_folder) / path.name
        command = [name, str(SOURCE / "library.cpp"), *flags, "-o", str(draft)]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            message = next((line for line in run.stderr.splitlines() if "error" in line), run.stderr.strip())
            raise _kernel_error(f"kernels cannot be compiled: {message}")
        os.replace(draft, path)
    return path


def _kernel_error(text: str) -> ArchError:
    """Return an error (A1109) whose hint is to turn compiled kernels off."""
    return fail("A1109", text, None, "training.compile = false")


def _path(name: str, flags: Sequence[str]) -> Path:
    return library_folder() / f"{_key(name, flags)}.so"


def _flags() -> list[str]:
    return [*FLAGS, *_machine_flags(), *_openmp_flags()]


def _machine_flags() -> list[str]:
    return ["-mcpu=native"] if platform.machine() in ("arm64", "aarch64") else ["-march=native"]


def _openmp_flags() -> list[str]:
    """Return the flags that link the OpenMP library of torch itself.

    If two OpenMP libraries were loaded, the threads of each would wait for those of the other.
    """
    torch_libraries = sorted((Path(torch.__file__).parent / "lib").glob("libgomp*"))
    return ["-fopenmp", *map(str, torch_libraries[:1])] if sys.platform == "linux" else []


def _key(name: str, flags: Sequence[str]) -> str:
    """Return a hash that identifies a compiled library.

    It is computed from the source, the compiler, the flags and the processor.
    """
    digest = hashlib.sha256()
    for path in sorted(SOURCE.iterdir()):
        digest.update(path.read_bytes())
    version = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
    digest.update("\0".join([*flags, version, platform.machine(), _processor()]).encode())
    return digest.hexdigest()[:24]


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
"""Signature of each kernel as a string: p for an address, n for an integer, d for a double."""
_KINDS: dict[str, type[ctypes.c_void_p | ctypes.c_int64 | ctypes.c_double]] = {
    "p": ctypes.c_void_p,
    "n": ctypes.c_int64,
    "d": ctypes.c_double,
}


@cache
def kernel_function(name: str, dtype: torch.dtype) -> Callable[..., None]:
    """Return the C function of a kernel, by kernel name and dtype."""
    kernel = load_library()[f"{name}_{PRECISIONS[dtype]}"]
    kernel.argtypes, kernel.restype = [_KINDS[kind] for kind in ARGUMENTS[name]], None
    return kernel


def call_kernel(name: str, dtype: torch.dtype, *arguments: Any) -> None:
    """Call a kernel's variant for a dtype.

    Tensors are passed as addresses, None as the null pointer, and tuples as arrays of addresses and integers.
    """
    values = [
        argument.data_ptr()
        if isinstance(argument, torch.Tensor)
        else address_array(argument)
        if isinstance(argument, tuple)
        else argument
        for argument in arguments
    ]
    kernel_function(name, dtype)(*values, torch.get_num_threads())


def address_array(values: Sequence[Any]) -> Any:
    """Convert integers and tensors (by address) to a C array of 64-bit integers."""
    numbers = [value.data_ptr() if isinstance(value, torch.Tensor) else value or 0 for value in values]
    return (ctypes.c_int64 * len(numbers))(*numbers)


def has_kernels(*tensors: torch.Tensor | None, without_gradients: bool = False) -> bool:
    """Return True if kernels can process these tensors together; None is ignored.

    The first tensor must be a non-empty map [N, C, H, W]. All must be plain CPU tensors of the same dtype. Autocast
    must be off. Gradients must be enabled unless `without_gradients` is set, which is for operations that torch
    computes slowly in evaluation, too.
    """
    first, *others = [tensor for tensor in tensors if tensor is not None]
    return (
        first.dim() == 4
        and first.dtype in PRECISIONS
        and first.numel() > 0
        and all(x.device.type == "cpu" and x.dtype == first.dtype and type(x) in TENSOR_TYPES for x in (first, *others))
        and all(x.dim() == 4 or x.is_contiguous() for x in others)
        and (without_gradients or torch.is_grad_enabled())
        and not torch.is_autocast_enabled("cpu")
    )


TENSOR_TYPES = (torch.Tensor, torch.nn.Parameter)
"""Exact classes of tensors that kernels accept; subclasses are not accepted."""


def to_channels_last(x: torch.Tensor) -> torch.Tensor:
    """Convert a map to channels-last memory format."""
    return x.contiguous(memory_format=torch.channels_last)


def empty_map(shape: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    """Return an uninitialised map in channels-last memory format."""
    return torch.empty(tuple(shape), dtype=like.dtype, device=like.device, memory_format=torch.channels_last)
