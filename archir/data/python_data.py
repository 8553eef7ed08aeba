"""Data sets given as Python objects: arrays, torch datasets, or iterables.

All samples are read once, in order, into arrays, so that every access sees the same samples; splits and
resumed runs depend on that. Tensors, PIL images and numbers are converted by numpy.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.data.readers.npz import source_of_arrays
from archir.data.readers.source import Part, Source, classes_of
from archir.diagnostics.errors import ArchError, fail
from archir.plugins import loading

MAX_BYTES = 1 << 32
"""Maximum total size of all samples of a data set, in bytes (4 GiB)."""
MAX_SECONDS = 1800
"""Maximum time in seconds that a data function `MODULE:FUNCTION` may take."""
_SAMPLE_HINT = "a sample is a pair, inputs and targets: each an array, or arrays by name"


def read(data: Any, source_name: str) -> Source:
    """Read a data set that is given as a Python object.

    `data` is a mapping of named arrays; a pair of inputs and targets; a dataset, data loader (its `dataset` is
    read) or iterable of such pairs; or `{"train": ..., "test": ...}` with any of these. `source_name` is its name
    in messages. Raises ArchError (A1102, A1115).
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, Mapping) and {*data} in ({"train"}, {"train", "test"}):
        parts = [_to_part(value, f'{source_name}["{name}"]') for name, value in sorted(data.items(), reverse=True)]
    elif isinstance(data, Mapping):
        return source_of_arrays(
            {str(name): _to_array(value, f'{source_name}["{name}"]') for name, value in data.items()}, source_name
        )
    else:
        parts = [_to_part(data, source_name)]
    for part in parts:
        if len(part) == 0:
            raise fail("A1102", f"{source_name} has no samples")
    return Source.of(parts, classes_of(*parts))


def call_function(name: str) -> Source:
    """Read the data set that the function `MODULE:FUNCTION` returns.

    The module must have been imported already, by a caller who trusts it. Otherwise, a function name in a recipe from
    an unknown source could execute code. Raises ArchError (A1115), also if the function raises or takes more than
    MAX_SECONDS.
    """
    module, _, attribute = name.partition(":")
    if not loading.is_allowed(module):
        hint = f"if it is yours, name it: `--plugin {module}`"
        raise fail("A1115", f"`{name}` is data of a module that was not imported", None, hint)
    try:
        function: Callable[[], Any] = getattr(sys.modules[module], attribute)
        with _time_limit(name):
            data = function()
    except ArchError:
        raise
    except (Exception, SystemExit) as error:
        raise _foreign_error(f"`{name}`", error) from error
    return read(data, f"`{name}`")


@contextmanager
def _time_limit(name: str) -> Iterator[None]:
    """Context manager that raises ArchError (A1115) in its block after `MAX_SECONDS`.

    It works in the main thread on systems with SIGALRM, and has no effect elsewhere. If the block forks, the
    child process exits at the end of the block.
    """
    own = os.getpid()

    def stop(*_: object) -> None:
        hint = "write what it gives as .npy files: npy:FOLDER"
        raise fail("A1115", f"`{name}` gave no data in {MAX_SECONDS:,} seconds", None, hint)

    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    handler = signal.signal(signal.SIGALRM, stop)
    timer = signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)
    try:
        yield
    finally:
        if os.getpid() != own:
            os._exit(0)
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


def _to_part(data: Any, source_name: str) -> Part:
    """Convert named arrays, a pair of arrays, or a dataset to one part (training or held-out) of a source.

    Raises ArchError (A1102, A1115).
    """
    if isinstance(data, Mapping):
        return read(data, source_name).train
    if _is_array(data):
        return source_of_arrays({"x": _to_array(data, source_name)}, source_name).train
    if isinstance(data, tuple) and len(data) == 2 and all(_is_arrays(value) for value in data):
        inputs, targets = (
            {name: _to_array(value, f"`{name}` of {source_name}") for name, value in _by_name(item, usual).items()}
            for item, usual in zip(data, ("input", "target"), strict=True)
        )
        counts = {len(value) if value.ndim else 0 for value in (*inputs.values(), *targets.values())}
        if len(counts) > 1:
            numbers = ", ".join(map(str, sorted(counts)))
            raise fail("A1102", f"{source_name} has arrays of {numbers} samples: every sample has one of each")
        return Part(inputs, targets)
    data = getattr(data, "dataset", data)
    if not isinstance(data, Iterable) and not hasattr(data, "__getitem__"):
        text = f"{source_name} is a {type(data).__name__}: neither arrays, nor a dataset"
        raise fail("A1115", text, None, _SAMPLE_HINT)
    return _stack_samples(_samples(data, source_name), source_name)


def _samples(data: Any, source_name: str) -> Iterator[Any]:
    """Yield all samples in order. Raises ArchError (A1115) if the dataset raises, or yields more or fewer samples
    than its length."""
    count: int | None = None
    try:
        count = len(data)
    except TypeError:
        pass
    except Exception as error:
        raise _foreign_error(source_name, error) from error
    done = 0
    try:
        by_number = count is not None and hasattr(data, "__getitem__")
        for sample in (data[number] for number in range(count or 0)) if by_number else data:
            yield sample
            done += 1
    except ArchError:
        raise
    except Exception as error:
        raise _foreign_error(f"sample {done} of {source_name}", error) from error
    if count is not None and done != count:
        raise fail("A1115", f"{source_name} has a length of {count}, but returned {done} samples")


def _stack_samples(samples: Iterator[Any], source_name: str) -> Part:
    """Stack samples (input, or pair of inputs and targets) into a part.

    Raises ArchError: A1115 (names or shapes differ between samples, or the total exceeds MAX_BYTES), A1102 (no
    samples).
    """
    rows: tuple[dict[str, list[NDArray[Any]]], dict[str, list[NDArray[Any]]]] = ({}, {})
    bytes_left = MAX_BYTES
    for number, sample in enumerate(samples):
        name = f"sample {number} of {source_name}"
        if _is_array(sample):
            sample = (sample, {})
        if not isinstance(sample, Sequence) or len(sample) != 2:
            raise fail("A1115", f"{name} is a {type(sample).__name__}, not a pair", None, _SAMPLE_HINT)
        for item, usual, arrays_by_name in zip(sample, ("input", "target"), rows, strict=True):
            columns = _by_name(item, usual)
            if number and columns.keys() != arrays_by_name.keys():
                own, others = (", ".join(names) or "nothing" for names in (columns, arrays_by_name))
                raise fail("A1115", f"{name} has {own}, and others {others}")
            for column, value in columns.items():
                array = _to_array(value, f"`{column}` of {name}")
                previous = arrays_by_name.setdefault(column, [])
                if previous and previous[0].shape != array.shape:
                    shapes = f"{list(array.shape)}, that of others is {list(previous[0].shape)}"
                    hint = "all samples are of one shape: crop or pad them"
                    raise fail("A1115", f"`{column}` of {name} has shape {shapes}", None, hint)
                previous.append(array.copy())
                bytes_left -= array.nbytes
        if bytes_left < 0:
            text = f"{source_name} has more than {MAX_BYTES >> 30} GiB"
            raise fail("A1115", text, None, "write it as .npy files: npy:FOLDER")
    inputs, targets = ({name: np.stack(values) for name, values in arrays_by_name.items()} for arrays_by_name in rows)
    if not inputs:
        raise fail("A1102", f"{source_name} has no samples")
    return Part(inputs, targets)


def _by_name(value: Any, default_name: str) -> dict[str, Any]:
    """Return named arrays unchanged; give a single array the name `default_name`."""
    return {str(name): item for name, item in value.items()} if isinstance(value, Mapping) else {default_name: value}


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _is_arrays(value: Any) -> bool:
    return all(map(_is_array, value.values())) if isinstance(value, Mapping) else _is_array(value)


def _to_array(value: Any, display_name: str) -> NDArray[Any]:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise _foreign_error(display_name, error) from error
    if array.dtype.kind not in "fiub":
        text = f"{display_name} is not an array of numbers, but {array.dtype if array.size else 'empty'}"
        raise fail("A1115", text, None, _SAMPLE_HINT)
    return array


def _foreign_error(display_name: str, error: BaseException) -> ArchError:
    return fail("A1115", f"{display_name} raised {type(error).__name__}: {error}")
