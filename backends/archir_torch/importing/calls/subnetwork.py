"""Extraction of parts from a list of calls: without unsupported calls, or between given inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace

from archir.backends.calls import Calls

MAX_LABEL = 40
"""Maximum number of characters taken from a value's name for the label of an output."""


def without_refused(calls: Calls, refused: Container[str]) -> Calls:
    """Remove the calls whose first result is in `refused`, and connect the rest to new inputs and outputs.

    Results of a removed call become inputs if their types are known, and its operands become outputs. Calls whose
    operands are then unavailable are removed in the same way.
    """
    inputs = dict(calls.inputs)
    available = {*inputs, *calls.tensors, ""}
    operands: dict[str, None] = {}
    kept = []
    for call in calls.calls:
        if call.writes[0] not in refused and available.issuperset(call.reads):
            kept.append(call)
            available |= {*call.writes}
            continue
        operands |= dict.fromkeys(call.reads)
        if call.writes[0] in refused:
            results = {name: calls.types[name] for name in call.writes if name in calls.types}
            inputs |= results
            available |= results.keys()
    varying = {*inputs}
    for call in kept:
        if varying & {*call.reads}:
            varying |= {*call.writes} - {""}
    outputs = {label: name for label, name in calls.outputs.items() if name in varying}
    for name in operands:
        if name in varying and name not in inputs and name not in outputs.values():
            outputs[_unused_label(name, outputs)] = name
    return _without_unused(replace(calls, inputs=inputs, outputs=outputs, calls=kept))


def calls_between(calls: Calls, inputs: Container[str], outputs: Container[str], label: Callable[[str], str]) -> Calls:
    """Return the calls that compute the outputs with the given labels. Only inputs with the given labels are kept."""
    kept_inputs = {name: type_ for name, type_ in calls.inputs.items() if label(name) in inputs}
    kept_outputs = {output_label: name for output_label, name in calls.outputs.items() if output_label in outputs}
    return _without_unused(replace(calls, inputs=kept_inputs, outputs=kept_outputs))


def _unused_label(name: str, taken: Container[str]) -> str:
    """Return a label for a new output that is not in `taken`."""
    base = "".join(char if char.isascii() and char.isalnum() else "_" for char in name)[-MAX_LABEL:].strip("_")
    base = base if base and base[0].isalpha() else f"result_{base}"
    result, number = base, 1
    while result in taken:
        number += 1
        result = f"{base}_{number}"
    return result


def _without_unused(calls: Calls) -> Calls:
    """Remove calls and inputs on which no output depends."""
    needed, kept = {*calls.outputs.values()}, []
    for call in reversed(calls.calls):
        if needed & {*call.writes}:
            kept.append(call)
            needed |= {*call.reads}
    inputs = {name: type_ for name, type_ in calls.inputs.items() if name in needed}
    return replace(calls, inputs=inputs, calls=kept[::-1])
