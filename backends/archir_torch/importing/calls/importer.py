"""Import of a list of operator calls: run it as a torch module, import this module, and check the result.

The imported network is compared with the file from which the calls were read.
"""

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
from archir.backends.input_ranges import ranged_inputs
from archir.diagnostics.errors import ArchError, Diagnostic, fail
from archir.ir.graph import Graph, enclosing_scopes
from archir.ir.names import is_name
from archir.ir.types import TensorType
from archir.ir.typing import infer
from archir.language.decompiler.imported import Imported, Source, digest, fully_used_tensors
from archir.language.decompiler.spelling import RESERVED
from archir_torch.importing import capture, proof
from archir_torch.importing.calls.constant_folding import MAX_ELEMENTS
from archir_torch.importing.calls.fusing import fuse
from archir_torch.importing.calls.module import CallsModule
from archir_torch.importing.calls.subnetwork import calls_between, without_refused
from archir_torch.importing.partial import largest_component
from archir_torch.lowering.module import Network

Arrays = Mapping[str, NDArray[Any]]
"""Arrays by name."""
TOLERANCE = 1e-4
"""Maximum difference from the file's outputs, relative to the largest magnitude of an output."""
SCALES = (1.0, 10.0, 0.1, 0.01)
"""Scales of random inputs, tried one after the other until the comparison is conclusive."""
NEGLIGIBLE = 2.0**-23
"""Absolute differences up to this value are ignored.

Near 0, the error of onnxruntime's approximate sigmoid can exceed the relative tolerance.
"""
MAX_ATTEMPTS = 16
"""Maximum number of attempts to find a part of the network without unsupported operators."""
TYPES = {"i64": torch.int64, "i32": torch.int32}
"""Torch dtype by archir's integer type."""


def import_calls(
    calls: Calls, reference: Callable[[Arrays, Mapping[str, TensorType], Sequence[str]], Arrays], fixed: bool,
    seed: int = 0, partial: bool = False,
) -> Imported:  # fmt: skip
    """Import a list of calls: return the graph and weights of the network, after comparing it with `reference`.

    `reference` computes the file's outputs: it takes a sample by input name, the types of all inputs, and the names
    of the outputs to compute. `fixed` is True if the file has a fixed batch size of 1. With `partial`, only the
    largest supported part of the network is imported. Raises ArchError (A0916, A3201 to A3203).
    """
    fused_calls = fuse(calls)
    module = CallsModule(fused_calls, fixed).eval()
    problems, types = module.problems(_samples(fused_calls))
    if (problems or calls.input_problems) and not partial:
        raise ArchError(*calls.input_problems, *_distinct(problems))
    if partial:
        fused_calls, left_out = cut_largest_part(
            replace(fused_calls, types={**fused_calls.types, **types}), fixed, problems
        )
        result = _import_and_check(fused_calls, CallsModule(fused_calls, fixed).eval(), reference, seed)
        return replace(result, problems=(*calls.input_problems, *_distinct(left_out)))
    return _import_and_check(fused_calls, module, reference, seed)


def cut_largest_part(calls: Calls, fixed: bool, problems: dict[str, Diagnostic]) -> tuple[Calls, dict[str, Diagnostic]]:
    """Return the supported part of the calls with the most multiply-accumulates, and diagnostics for the rest.

    The part is a list of calls. Raises ArchError (A3202) if there is no supported part.
    """
    left_out = dict(problems)
    for _ in range(MAX_ATTEMPTS):
        part = without_refused(calls, left_out)
        if not part.inputs or not part.outputs:
            break
        module = CallsModule(part, fixed).eval()
        new_problems, types = module.problems(_samples(part))
        calls = replace(calls, types={**calls.types, **types})
        if not new_problems:
            try:
                result = capture.import_module(module, _example(part), part.name)
            except ArchError:
                refused = capture.problems_of(module, _example(part))
                by_call = [(call, refused.get(module.path_of(call))) for call in part.calls]
                new_problems = {call.writes[0]: problem for call, problem in by_call if problem is not None}
                if not new_problems:
                    break
            else:
                best = largest_component(result.graph, infer(result.graph)) if left_out else result.graph
                cut = calls_between(part, best.inputs, best.outputs, _label)
                if not cut.inputs:
                    break
                return cut, left_out
        left_out |= new_problems
    error = Diagnostic("A3202", f"{calls.name} has no part that can be imported")
    raise ArchError(error, *calls.input_problems, *_distinct(left_out))


def _distinct(problems: Mapping[str, Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the diagnostics, only the first of those with the same message."""
    return tuple({problem.message: problem for problem in problems.values()}.values())


def _example(calls: Calls) -> dict[str, Tensor]:
    """Return an example input of one sample, by label.

    Raises ArchError (A3202) if two input names would get the same label.
    """
    labels = {name: _label(name) for name in calls.inputs}
    if len(set(labels.values())) < len(labels):
        raise fail("A3202", f"names of inputs differ only in special characters: {', '.join(labels)}")
    return {
        labels[name]: torch.zeros((1, *type_.shape), dtype=TYPES.get(type_.dtype, torch.float32))
        for name, type_ in calls.inputs.items()
    }


def _samples(calls: Calls) -> dict[str, Tensor]:
    """Return example inputs with the batch size that is used for tracing modules."""
    return {name: x.expand(capture.BATCH, *x.shape[1:]) for name, x in _example(calls).items()}


def _import_and_check(
    calls: Calls, module: CallsModule, reference: Callable[[Arrays, Mapping[str, TensorType], Sequence[str]], Arrays],
    seed: int,
) -> Imported:  # fmt: skip
    """Import a module of calls and compare it with the reference.

    The sources of weights are recorded by their names in the file.
    """
    result = capture.import_module(module, _example(calls), calls.name)
    if any(type_.elements > MAX_ELEMENTS for type_ in infer(result.graph).values()):
        raise fail("A3202", f"{calls.name} has tensors of more than {MAX_ELEMENTS} elements")
    names = {_label(name): name for name in calls.inputs}
    outputs = [*calls.outputs.values()]

    def file_outputs(inputs: Arrays) -> list[NDArray[Any]]:
        results = reference(inputs, calls.inputs, outputs)
        return [results[name] for name in outputs]

    _require_equal(result, names, file_outputs, seed)
    sources = {
        weight: _source_in_file(source, module, result.weights[weight]) for weight, source in result.sources.items()
    }
    complete = fully_used_tensors(sources.values())
    leftover = {name: array for name, array in calls.tensors.items() if name not in complete}
    return replace(result, classes=module_classes(result.graph), sources=sources, rest=leftover)


def _source_in_file(source: Source, calls_module: CallsModule, weight: NDArray[Any]) -> Source:
    """Return a weight's source, named as in the file.

    A tensor that the file computes from stored tensors has no source, unless it is a view of a stored tensor.
    """
    if source.computed:
        return source
    name, tensors = calls_module.tensor_names[source.name], calls_module.calls.tensors
    aliases = tuple(calls_module.tensor_names[other] for other in source.also)
    if name in tensors or name in calls_module.literals:
        return replace(source, name=name, also=aliases)
    if name in calls_module.views:
        root, move = calls_module.views[name]
        return Source(root, tensors[root].shape, (move, *source.moves))
    return Source("", weight.shape, computed=f"what the file computes as {name}", digest=digest(weight))


def _label(name: str) -> str:
    """Convert the name of an input in the file to a valid name of a program."""
    if is_name(name) and name not in RESERVED:
        return name
    label = re.sub(r"\W", "_", name).strip("_") or "input_0"
    return f"input_{label}" if label[0].isdigit() or label in ("input", "net", "in", "output", "block") else label


def _require_equal(
    result: Imported, names: Mapping[str, str], reference: Callable[[Arrays], Sequence[NDArray[Any]]], seed: int
) -> None:
    """Check the network against the reference on a random sample.

    Raises ArchError (A3203) if the outputs differ. Inputs are generated at another scale in two cases: if the
    difference is only due to rounding, which a run of the network in 64 bits shows; or if all outputs are so small
    that the error of an approximation in onnxruntime is relatively large.
    """
    network = proof.network(result.graph, result.weights)
    worst = float("inf")
    for scale in SCALES:
        arrays = _random_inputs(result.graph, scale, seed)
        expected = reference({names[label]: array for label, array in arrays.items()})
        actual = _compute(network, arrays)
        worst = max(_relative_difference(output, target) for output, target in zip(actual, expected, strict=True))
        if worst <= TOLERANCE:
            return
        absolute = max(_max_difference(output, target) for output, target in zip(actual, expected, strict=True))
        if absolute <= NEGLIGIBLE:
            continue
        with torch.no_grad():
            exact = _compute(copy.deepcopy(network).double(), arrays)
        if (
            max(_relative_difference(output, target) for output, target in zip(actual, exact, strict=True))
            < TOLERANCE / 10
        ):
            break
    raise fail("A3203", f"{result.graph.name} differs from its file by {worst:.1e}, relative to its output")


def _random_inputs(graph: Graph, scale: float, seed: int) -> dict[str, NDArray[Any]]:
    """Return random inputs of one sample by label; floating-point numbers are multiplied by `scale`."""
    generator = np.random.default_rng(seed)
    arrays: dict[str, NDArray[Any]] = {}
    for label, type_ in ranged_inputs(graph).items():
        shape = (1, *type_.shape)
        if type_.is_floating:
            arrays[label] = generator.standard_normal(shape, np.float32) * np.float32(scale)
        else:
            arrays[label] = generator.integers(0, type_.integer_limit or 2, shape).astype(f"int{type_.dtype[1:]}")
    return arrays


def _compute(network: Network, arrays: Arrays) -> list[NDArray[Any]]:
    """Run a network on arrays, in the precision of its parameters; return its outputs."""
    dtype = next((tensor.dtype for tensor in network.parameters()), torch.float32)
    tensors = [torch.from_numpy(array) for array in arrays.values()]
    with torch.no_grad():
        results = network(*(tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in tensors))
    return [tensor.numpy() for tensor in (results.values() if isinstance(results, dict) else [results])]


def _max_difference(actual: NDArray[Any], expected: NDArray[Any]) -> float:
    """Return the largest absolute difference of two arrays.

    Returns infinity if their sizes differ, or if a number is finite or NaN in only one of them.
    """
    difference = Difference.of(actual.reshape(-1), expected.reshape(-1)).absolute
    return float("inf") if isnan(difference) else difference


def _relative_difference(actual: NDArray[Any], expected: NDArray[Any]) -> float:
    """Return the largest absolute difference, divided by the largest finite magnitude in the reference."""
    return _max_difference(actual, expected) / (float(np.abs(expected[np.isfinite(expected)]).max(initial=0)) or 1.0)


def module_classes(graph: Graph) -> dict[str, str]:
    """Return a class name for each scope that contains several nodes; the name is the scope's last path component."""
    counts: Counter[str] = Counter()
    for number in graph:
        scope = graph[number].scope
        counts.update({*enclosing_scopes(scope, indexed=True)} - {scope})
    result = {}
    for scope, count in counts.items():
        parts = [part for part in re.findall(r"[A-Za-z_]+", scope.rpartition(".")[2]) if part]
        if count > 1 and parts and len(parts[0]) > 1:
            result[scope] = parts[0]
    return result
