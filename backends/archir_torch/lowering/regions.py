"""Networks compiled in regions: what stands between convolutions and products is compiled, each kind of it once.

Convolutions and matrix products run in libraries that a compiler of loops does not beat; norms, activations, pools and
sums between them are bound by memory, and one loop that does all of them reads and writes it once. A network has many
such regions and few kinds of them. The code of a kind takes weights as arguments, so cells of equal sizes
share it.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn

JOINED = frozenset({"activation", "arithmetic", "norm", "pool"})
"""Families of operations that are bound by memory."""

Fetch = Callable[[], Sequence[Tensor]]
"""Gives weights as they are now, in the order of their names."""


Values = list[Any]


class Line(NamedTuple):
    """A call of a function: `values[writes] = function(*values[reads], **weights, **attributes)`."""

    function: Callable[..., Any]
    reads: tuple[int, ...]
    writes: int
    attributes: tuple[tuple[str, Any], ...] = ()
    names: tuple[str, ...] = ()
    fetch: Fetch = tuple
    after: Callable[[Sequence[Tensor]], None] | None = None
    """Called with the weights once the region has run, which may have changed buffers among them."""
    ends: bool = False
    """Whether the region ends here: sums of many terms are made of few kinds."""


class Plain(NamedTuple):
    """A call that is not compiled: of all values and the size of the batch."""

    run: Callable[[Values, int], Any]
    reads: tuple[int, ...]
    writes: int


class Region:
    """Lines that run as one compiled function."""

    def __init__(self, lines: Sequence[Line], kept: Collection[int], kinds: Kinds) -> None:
        inside = {line.writes for line in lines}
        self.reads = tuple(dict.fromkeys(slot for line in lines for slot in line.reads if slot not in inside))
        self.writes = tuple(line.writes for line in lines if line.writes in kept)
        self._fetches = [(line.fetch, line.after) for line in lines if line.names]
        local = {slot: place for place, slot in enumerate([*self.reads, *(line.writes for line in lines)])}
        self._kind = kinds.of(
            tuple(
                (line.function, tuple(local[slot] for slot in line.reads), line.attributes, line.names)
                for line in lines
            ),
            len(self.reads),
            tuple(local[slot] for slot in self.writes),
        )

    def __call__(self, values: Values) -> None:
        """Run all lines."""
        weights = [(fetch(), after) for fetch, after in self._fetches]
        given = [values[slot] for slot in self.reads]
        for held, _ in weights:
            given += held
        for slot, result in zip(self.writes, self._kind(given), strict=True):
            values[slot] = result
        for held, after in weights:
            if after is not None:
                after(held)


class Regional:
    """Lines and plain calls in their order, lines that follow each other joined. `outputs` are slots that stay."""

    def __init__(self, calls: Sequence[Line | Plain], outputs: Collection[int], kinds: Kinds) -> None:
        self._parts: list[tuple[Region | Plain, tuple[int, ...]]] = []
        groups: list[list[Line] | Plain] = []
        for call in calls:
            if isinstance(call, Plain):
                groups.append(call)
            elif groups and isinstance(groups[-1], list) and not groups[-1][-1].ends:
                groups[-1].append(call)
            else:
                groups.append([call])
        wanted = set(outputs)
        for group in reversed(groups):
            if isinstance(group, list) and len(group) == 1 and not group[0].names:
                group = _alone(group[0])
            part = group if isinstance(group, Plain) else Region(group, wanted, kinds)
            self._parts.append((part, tuple(slot for slot in part.reads if slot not in wanted)))
            wanted.update(part.reads)
        self._parts.reverse()

    def run(self, values: Values, batch: int) -> None:
        """Run everything; `values` holds inputs at first, and outputs at last."""
        for part, frees in self._parts:
            if isinstance(part, Plain):
                values[part.writes] = part.run(values, batch)
            else:
                part(values)
            for slot in frees:
                values[slot] = None


def _alone(line: Line) -> Plain:
    """A line that has nothing to be joined with."""
    attributes = dict(line.attributes)
    return Plain(
        lambda values, _: line.function(*(values[slot] for slot in line.reads), **attributes), line.reads, line.writes
    )


class Kinds:
    """Compiled functions by what they do. `compiler` is a backend of `torch.compile`.

    Each is compiled for each of the sizes that it meets: code for any sizes takes five times as long to make, and runs
    no faster.
    """

    def __init__(self, compiler: str = "inductor") -> None:
        self.compiler = compiler
        self._known: dict[Any, Kind] = {}

    def compiled(self) -> int:
        """How many functions were compiled so far, each of them with its gradient."""
        return sum(len(kind.functions) for kind in self._known.values())

    def of(self, program: tuple[Any, ...], operands: int, outputs: tuple[int, ...]) -> Kind:
        """The kind of a region: functions, where each reads from, and what is read of it."""
        key = program, operands, outputs
        if key not in self._known:
            self._known[key] = Kind(partial(_module, program, operands, outputs), self.compiler)
        return self._known[key]


class Kind:
    """What regions that are equal but for their weights compute."""

    def __init__(self, made: Callable[[], fx.GraphModule], compiler: str) -> None:
        self._made, self._compiler = made, compiler
        self.functions: dict[Any, Callable[..., Any]] = {}

    def __call__(self, given: Sequence[Tensor]) -> Sequence[Tensor]:
        """The results of tensors: operands, then weights."""
        key = tuple([(x.shape, x.stride(), x.dtype, x.requires_grad) for x in given])
        if key not in self.functions:  # of a new module, for torch counts how often it compiles one code
            self.functions[key] = torch.compile(self._made(), backend=self._compiler, dynamic=False, fullgraph=True)
            with _compiling():
                first: Sequence[Tensor] = self.functions[key](*given)
            return first
        found: Sequence[Tensor] = self.functions[key](*given)
        return found


@contextmanager
def _compiling() -> Iterator[None]:
    """Masks of truth values are slow on CPUs: what gradients need is computed again from what was read."""
    import torch._functorch.config as gradients  # the compiler takes as long to import as torch

    before, gradients.aggressive_recomputation = gradients.aggressive_recomputation, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what torch's compiler does inside
            yield
    finally:
        gradients.aggressive_recomputation = before


def _module(program: tuple[Any, ...], operands: int, outputs: tuple[int, ...]) -> fx.GraphModule:
    graph = fx.Graph()
    values = [graph.placeholder(f"x{place}") for place in range(operands)]
    numbers = count()
    weights = [{name: graph.placeholder(f"{name}_{next(numbers)}") for name in names} for _, _, _, names in program]
    for (function, reads, attributes, _), held in zip(program, weights, strict=True):
        operand = tuple(values[place] for place in reads)
        values.append(graph.call_function(function, operand, {**held, **dict(attributes)}))
    graph.output(tuple(values[place] for place in outputs))
    return fx.GraphModule(nn.Module(), graph)


def joins(function: Any) -> bool:
    """Whether a function is one of those that are compiled with their neighbours."""
    while isinstance(function, partial):
        function = function.func
    room, _, family = getattr(function, "__module__", "").rpartition(".")
    return room == "archir_torch.lowering.operations" and family in JOINED


def impossible() -> str:
    """Why nothing can be compiled for the CPU; nothing, if it can be."""
    wanted = os.environ.get("CXX", "g++")
    if shutil.which(wanted) or shutil.which("clang++"):
        return ""
    return f"there is no C++ compiler (`{wanted}`), which torch's compiler needs"
