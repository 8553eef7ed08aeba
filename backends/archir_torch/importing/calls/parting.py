"""Calls without those that cannot be followed, and without those that nothing is asked of."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace

from archir.backends.calls import Calls

LONGEST = 40
"""Characters of an output that the source has no label for."""


def parted(calls: Calls, refused: Container[str]) -> Calls:
    """The calls but for those whose first result is `refused`.

    What these give is an input where its type is known, what they read is an output; so is what calls read that lack
    other operands.
    """
    inputs = dict(calls.inputs)
    known = {*inputs, *calls.tensors, ""}
    wanted: dict[str, None] = {}
    kept = []
    for call in calls.calls:
        if call.writes[0] not in refused and known.issuperset(call.reads):
            kept.append(call)
            known |= {*call.writes}
            continue
        wanted |= dict.fromkeys(call.reads)
        if call.writes[0] in refused:
            given = {name: calls.types[name] for name in call.writes if name in calls.types}
            inputs |= given
            known |= given.keys()
    moving = {*inputs}
    for call in kept:
        if moving & {*call.reads}:
            moving |= {*call.writes} - {""}
    outputs = {label: name for label, name in calls.outputs.items() if name in moving}
    for name in wanted:
        if name in moving and name not in inputs and name not in outputs.values():
            outputs[_free(name, outputs)] = name
    return _needed(replace(calls, inputs=inputs, outputs=outputs, calls=kept))


def between(calls: Calls, inputs: Container[str], outputs: Container[str], label: Callable[[str], str]) -> Calls:
    """The calls that make the outputs of these labels; of inputs, those of these labels are kept."""
    given = {name: type_ for name, type_ in calls.inputs.items() if label(name) in inputs}
    made = {known: name for known, name in calls.outputs.items() if known in outputs}
    return _needed(replace(calls, inputs=given, outputs=made))


def _free(name: str, taken: Container[str]) -> str:
    base = "".join(one if one.isascii() and one.isalnum() else "_" for one in name)[-LONGEST:].strip("_")
    base = base if base and base[0].isalpha() else f"result_{base}"
    made, number = base, 1
    while made in taken:
        number += 1
        made = f"{base}_{number}"
    return made


def _needed(calls: Calls) -> Calls:
    """Without calls, and inputs, that no output needs."""
    wanted, kept = {*calls.outputs.values()}, []
    for call in reversed(calls.calls):
        if wanted & {*call.writes}:
            kept.append(call)
            wanted |= {*call.reads}
    inputs = {name: type_ for name, type_ in calls.inputs.items() if name in wanted}
    return replace(calls, inputs=inputs, calls=kept[::-1])
