"""Data that Python has: arrays, datasets, iterables. All samples are read once, in order, into arrays.

So they are the same whenever they are asked for, which splits and runs that go on depend on; tensors, pictures and
numbers are whatever numpy makes arrays of.
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

from archir.data.readers.arrays import arranged
from archir.data.readers.source import Part, Source, classes_of
from archir.diagnostics.errors import ArchError, fail
from archir.plugins import loading

MOST_BYTES = 1 << 32
"""Bytes that all samples of a dataset may have."""
MOST_SECONDS = 1800
"""What a function may take that gives data."""
_SAMPLE = "a sample is a pair, inputs and targets: each an array, or arrays by name"


def read(data: Any, what: str) -> Source:
    """A source of arrays by name; of a pair of inputs and targets; of a dataset, that of a loader, or an iterable of
    such pairs; of `{"train": ..., "test": ...}` with any of these. Raises ArchError (A1102, A1115)."""
    if isinstance(data, Source):
        return data
    if isinstance(data, Mapping) and {*data} in ({"train"}, {"train", "test"}):
        parts = [_part(one, f'{what}["{name}"]') for name, one in sorted(data.items(), reverse=True)]
    elif isinstance(data, Mapping):
        return arranged({str(name): _array(one, f'{what}["{name}"]') for name, one in data.items()}, what)
    else:
        parts = [_part(data, what)]
    for part in parts:
        if len(part) == 0:
            raise fail("A1102", f"{what} has no samples")
    return Source(parts[0], parts[1] if len(parts) > 1 else None, classes_of(*parts))


def called(name: str) -> Source:
    """What `MODULE:FUNCTION` gives. Whoever named it has imported its module: a name that stands in a file from
    elsewhere runs nothing. Raises ArchError (A1115)."""
    module, _, attribute = name.partition(":")
    if not loading.allowed(module):
        hint = f"if it is yours, name it: `--plugin {module}`"
        raise fail("A1115", f"`{name}` is data of a module that was not imported", None, hint)
    try:
        function: Callable[[], Any] = getattr(sys.modules[module], attribute)
        with _limited(name):
            data = function()
    except ArchError:
        raise
    except (Exception, SystemExit) as error:
        raise _raised(f"`{name}`", error) from error
    return read(data, f"`{name}`")


@contextmanager
def _limited(name: str) -> Iterator[None]:
    """Raise ArchError (A1115) in a call after `MOST_SECONDS`, where signals arrive; a process that it forked ends."""
    own = os.getpid()

    def stop(*_: object) -> None:
        hint = "write what it gives as .npy files: npy:FOLDER"
        raise fail("A1115", f"`{name}` gave no data in {MOST_SECONDS:,} seconds", None, hint)

    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    handler = signal.signal(signal.SIGALRM, stop)
    timer = signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
    try:
        yield
    finally:
        if os.getpid() != own:
            os._exit(0)
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


def _part(data: Any, what: str) -> Part:
    if isinstance(data, Mapping) or _is_array(data):
        source = read(data, what) if isinstance(data, Mapping) else arranged({"x": _array(data, what)}, what)
        return source.train
    if isinstance(data, tuple) and len(data) == 2 and all(_is_arrays(one) for one in data):
        columns = [_columns(one, name) for one, name in zip(data, ("input", "target"), strict=True)]
        arrays = [{name: _array(one, f"`{name}` of {what}") for name, one in part.items()} for part in columns]
        counts = {len(one) if one.ndim else 0 for part in arrays for one in part.values()}
        if len(counts) > 1:
            raise fail(
                "A1102",
                f"{what} has arrays of {', '.join(map(str, sorted(counts)))} samples: every sample has one of each",
            )
        return Part(arrays[0], arrays[1])
    data = getattr(data, "dataset", data)
    if not isinstance(data, Iterable) and not hasattr(data, "__getitem__"):
        raise fail("A1115", f"{what} is a {type(data).__name__}: neither arrays, nor a dataset", None, _SAMPLE)
    return _stacked(_samples(data, what), what)


def _samples(data: Any, what: str) -> Iterator[Any]:
    """All samples, in order. Raises ArchError (A1115) if a dataset raises, or has fewer than it says."""
    count: int | None = None
    try:
        count = len(data)
    except TypeError:
        pass
    except Exception as error:
        raise _raised(what, error) from error
    by_number = count is not None and hasattr(data, "__getitem__")
    found = iter(range(count or 0)) if by_number else None
    done = 0
    try:
        stream: Iterator[Any] = (data[number] for number in found) if found is not None else iter(data)
        for sample in stream:
            yield sample
            done += 1
    except ArchError:
        raise
    except Exception as error:
        raise _raised(f"sample {done} of {what}", error) from error
    if count is not None and done != count:
        raise fail("A1115", f"{what} says that it has {count} samples, and gave {done}")


def _stacked(samples: Iterator[Any], what: str) -> Part:
    rows: tuple[dict[str, list[NDArray[Any]]], dict[str, list[NDArray[Any]]]] = ({}, {})
    left = MOST_BYTES
    for number, sample in enumerate(samples):
        name = f"sample {number} of {what}"
        if _is_array(sample):
            sample = (sample, {})
        if not isinstance(sample, Sequence) or len(sample) != 2:
            raise fail("A1115", f"{name} is a {type(sample).__name__}, not a pair", None, _SAMPLE)
        for given, usual, kept in zip(sample, ("input", "target"), rows, strict=True):
            columns = _columns(given, usual)
            if number and columns.keys() != kept.keys():
                raise fail(
                    "A1115", f"{name} has {', '.join(columns) or 'nothing'}, and others {', '.join(kept) or 'nothing'}"
                )
            for column, value in columns.items():
                array = _array(value, f"`{column}` of {name}")
                others = kept.setdefault(column, [])
                if others and others[0].shape != array.shape:
                    text = (
                        f"`{column}` of {name} has shape {list(array.shape)}, that of others is {list(others[0].shape)}"
                    )
                    raise fail("A1115", text, None, "all samples are of one shape: crop or pad them")
                others.append(array.copy())
                left -= array.nbytes
        if left < 0:
            raise fail(
                "A1115", f"{what} has more than {MOST_BYTES >> 30} GiB", None, "write it as .npy files: npy:FOLDER"
            )
    inputs, targets = ({name: np.stack(values) for name, values in kept.items()} for kept in rows)
    if not inputs:
        raise fail("A1102", f"{what} has no samples")
    return Part(inputs, targets)


def _columns(given: Any, usual: str) -> dict[str, Any]:
    return {str(name): value for name, value in given.items()} if isinstance(given, Mapping) else {usual: given}


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _is_arrays(value: Any) -> bool:
    return all(map(_is_array, value.values())) if isinstance(value, Mapping) else _is_array(value)


def _array(value: Any, what: str) -> NDArray[Any]:
    """An array of numbers. Raises ArchError (A1115)."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise _raised(what, error) from error
    if array.dtype.kind not in "fiub":
        raise fail(
            "A1115", f"{what} is no array of numbers, but {array.dtype if array.size else 'empty'}", None, _SAMPLE
        )
    return array


def _raised(what: str, error: BaseException) -> ArchError:
    return fail("A1115", f"{what} raised {type(error).__name__}: {error}")
