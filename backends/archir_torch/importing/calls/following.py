"""Networks that other backends read from files, as archir's: followed by torch, and compared with what they gave."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isnan
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from archir.backends.calls import Calls
from archir.backends.comparison import Difference
from archir.backends.ranges import ranged_inputs
from archir.diagnostics.errors import ArchError, Diagnostic, fail
from archir.ir.graph import Graph
from archir.ir.names import is_name
from archir.ir.types import TensorType
from archir.ir.typing import infer
from archir.language.decompiler.imported import Imported, Source, digest, held
from archir.language.decompiler.spelling import RESERVED
from archir_torch.importing import capture, proof
from archir_torch.importing.calls.fusing import fused
from archir_torch.importing.calls.module import Followed
from archir_torch.importing.calls.parting import between, parted
from archir_torch.importing.calls.static import LARGEST
from archir_torch.importing.partial import largest
from archir_torch.lowering.module import Network

Arrays = Mapping[str, NDArray[Any]]
TOLERANCE = 1e-4
"""The largest difference from the file's own numbers, of the largest number."""
SCALES = (1.0, 10.0, 0.1, 0.01)
"""Of the random inputs."""
SMALLEST = 2.0**-23
"""Differences up to this one may be those of a sigmoid that is near 0: onnxruntime has an approximation of it."""
MOST_TIMES = 16
"""Times that a network is cut, until nothing of it is refused."""
TYPES = {"i64": torch.int64, "i32": torch.int32}


def followed(
    calls: Calls, reference: Callable[[Arrays, Mapping[str, TensorType], Sequence[str]], Arrays], fixed: bool,
    seed: int = 0, partial: bool = False,
) -> Imported:  # fmt: skip
    """The graph and weights of a network, compared with `reference`, which takes one sample by the file's names, the
    types of all that it takes, and the names of what it is to give.

    `fixed` says that it is made for one sample at a time. With `partial`, the largest part is enough if not all can be
    had. Raises ArchError (A0916, A3201 to A3203).
    """
    whole = fused(calls)
    module = Followed(whole, fixed).eval()
    problems, types = module.problems(_samples(whole))
    if (problems or calls.lost) and not partial:
        raise ArchError(*calls.lost, *_distinct(problems))
    if partial:
        whole, left_out = largest_part(replace(whole, types={**whole.types, **types}), fixed, problems)
        found = _imported(whole, Followed(whole, fixed).eval(), reference, seed)
        return replace(found, problems=(*calls.lost, *_distinct(left_out)))
    return _imported(whole, module, reference, seed)


def largest_part(calls: Calls, fixed: bool, problems: dict[str, Diagnostic]) -> tuple[Calls, dict[str, Diagnostic]]:
    """The calls of the part with the most multiply-accumulates that can be had, and all that is left out.

    Raises ArchError (A3202) if there is none.
    """
    left_out = dict(problems)
    for _ in range(MOST_TIMES):
        part = parted(calls, left_out)
        if not part.inputs or not part.outputs:
            break
        module = Followed(part, fixed).eval()
        more, types = module.problems(_samples(part))
        calls = replace(calls, types={**calls.types, **types})
        if not more:
            try:
                found = capture.imported(module, _example(part), part.name)
            except ArchError:
                told = capture.problems_of(module, _example(part))
                here = [(call, told.get(module.place_of(call))) for call in part.calls]
                more = {call.writes[0]: one for call, one in here if one is not None}
                if not more:
                    break
            else:
                best = largest(found.graph, infer(found.graph)) if left_out else found.graph
                cut = between(part, best.inputs, best.outputs, _label)
                if not cut.inputs:
                    break
                return cut, left_out
        left_out |= more
    none = Diagnostic("A3202", f"{calls.name} has no part that can be imported")
    raise ArchError(none, *calls.lost, *_distinct(left_out))


def _distinct(problems: Mapping[str, Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple({one.message: one for one in problems.values()}.values())


def _example(calls: Calls) -> dict[str, Tensor]:
    labels = {name: _label(name) for name in calls.inputs}
    if len(set(labels.values())) < len(labels):
        raise fail("A3202", f"inputs have the same name but for signs: {', '.join(labels)}")
    return {
        labels[name]: torch.zeros((1, *type_.shape), dtype=TYPES.get(type_.dtype, torch.float32))
        for name, type_ in calls.inputs.items()
    }


def _samples(calls: Calls) -> dict[str, Tensor]:
    return {name: x.expand(capture.BATCH, *x.shape[1:]) for name, x in _example(calls).items()}


def _imported(
    calls: Calls, module: Followed, reference: Callable[[Arrays, Mapping[str, TensorType], Sequence[str]], Arrays],
    seed: int,
) -> Imported:  # fmt: skip
    found = capture.imported(module, _example(calls), calls.name)
    if any(type_.elements > LARGEST for type_ in infer(found.graph).values()):
        raise fail("A3202", f"{calls.name} has tensors of more than {LARGEST} numbers")
    names = {_label(name): name for name in calls.inputs}
    outputs = [*calls.outputs.values()]

    def given(inputs: Arrays) -> list[NDArray[Any]]:
        made = reference(inputs, calls.inputs, outputs)
        return [made[name] for name in outputs]

    _prove(found, names, given, seed)
    sources = {weight: _stored(source, module, found.weights[weight]) for weight, source in found.sources.items()}
    whole = held(sources.values())
    rest = {name: array for name, array in calls.tensors.items() if name not in whole}
    return replace(found, classes=classes(found.graph), sources=sources, rest=rest)


def _stored(source: Source, module: Followed, weight: NDArray[Any]) -> Source:
    """A source by the names of the file. What the file computes of its tensors has none, unless it only moves them."""
    if source.computed:
        return source
    name, tensors = module.sources[source.name], module.calls.tensors
    also = tuple(module.sources[other] for other in source.also)
    if name in tensors or name in module.literal:
        return replace(source, name=name, also=also)
    if name in module.views:
        root, move = module.views[name]
        return Source(root, tensors[root].shape, (move, *source.moves))
    return Source("", weight.shape, computed=f"what the file computes as {name}", digest=digest(weight))


def _label(name: str) -> str:
    if is_name(name) and name not in RESERVED:
        return name
    made = re.sub(r"\W", "_", name).strip("_") or "input_0"
    return f"input_{made}" if made[0].isdigit() or made in ("input", "net", "in", "output", "block") else made


def _prove(
    found: Imported, names: Mapping[str, str], reference: Callable[[Arrays], Sequence[NDArray[Any]]], seed: int
) -> None:
    """Raise ArchError (A3203) unless the network gives what the reference does for a random sample.

    Other numbers are tried where rounding alone makes a difference, which the same network in 64 bits shows, or where
    outputs are all so small that an approximation does.
    """
    network = proof.network(found.graph, found.weights)
    worst = float("inf")
    for scale in SCALES:
        given = _random(found.graph, scale, seed)
        wanted = reference({names[label]: array for label, array in given.items()})
        made = _outputs(network, given)
        worst = max(_difference(one, other) for one, other in zip(made, wanted, strict=True))
        if worst <= TOLERANCE:
            return
        apart = max(_absolute(one, other) for one, other in zip(made, wanted, strict=True))
        if apart <= SMALLEST:
            continue
        with torch.no_grad():
            exact = _outputs(copy.deepcopy(network).double(), given)
        if max(_difference(one, other) for one, other in zip(made, exact, strict=True)) < TOLERANCE / 10:
            break
    raise fail("A3203", f"{found.graph.name} differs from its file by {worst:.1e}, relative to its output")


def _random(graph: Graph, scale: float, seed: int) -> dict[str, NDArray[Any]]:
    generator = np.random.default_rng(seed)
    given: dict[str, NDArray[Any]] = {}
    for label, type_ in ranged_inputs(graph).items():
        shape = (1, *type_.shape)
        if type_.numeric:
            given[label] = generator.standard_normal(shape, np.float32) * np.float32(scale)
        else:
            given[label] = generator.integers(0, type_.below or 2, shape).astype(f"int{type_.dtype[1:]}")
    return given


def _outputs(network: Network, given: Arrays) -> list[NDArray[Any]]:
    """What a network makes, in numbers as wide as its own."""
    wide = next((one.dtype for one in network.parameters()), torch.float32)
    tensors = [torch.from_numpy(array) for array in given.values()]
    with torch.no_grad():
        made = network(*(one.to(wide) if one.is_floating_point() else one for one in tensors))
    return [one.numpy() for one in (made.values() if isinstance(made, dict) else [made])]


def _absolute(one: NDArray[Any], other: NDArray[Any]) -> float:
    """The largest difference; infinite for other sizes, and where one alone is not finite or nothing is."""
    found = Difference.of(one.reshape(-1), other.reshape(-1)).absolute
    return float("inf") if isnan(found) else found


def _difference(one: NDArray[Any], other: NDArray[Any]) -> float:
    """The largest difference, relative to the largest finite number."""
    return _absolute(one, other) / (float(np.abs(other[np.isfinite(other)]).max(initial=0)) or 1.0)


def classes(graph: Graph) -> dict[str, str]:
    """What paths of nodes say of the modules they were made by: paths that several nodes are in, by their last part."""
    counts: Counter[str] = Counter()
    for number in graph:
        scope = graph[number].scope
        counts.update({scope[: part.end()] for part in re.finditer(r"[^.\[\]]+\]?", scope)} - {scope})
    found = {}
    for scope, times in counts.items():
        parts = [part for part in re.findall(r"[A-Za-z_]+", scope.rpartition(".")[2]) if part]
        if times > 1 and parts and len(parts[0]) > 1:
            found[scope] = parts[0]
    return found
