"""Fusion patterns: each finds a group of operations that equals a library block.

The group is then replaced by a call of the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from archir.ir.op import OPS
from archir.ir.typing import Types
from archir.language.decompiler.program_tree import Item, Loop, Option, Step, inputs_of
from archir.language.decompiler.recurrences import RECURRENT

Arguments = dict[str, Any]
"""Argument values by argument name."""


@dataclass(frozen=True)
class FusionPattern:
    """Pattern of operations that make up a library block.

    `operations` lists the name and operands of each operation. Operand "x" is the input of the block; an integer is the
    index of an earlier operation in the tuple.
    """

    name: str
    library: str
    operations: tuple[tuple[str, tuple[Any, ...]], ...]
    solve: Callable[[Sequence[Arguments], int], Arguments | None]
    """Function that returns the arguments of the equivalent block call, or None if there is no equivalent call.

    It is given the arguments of the matched operations and the input's channel count.
    """


def _has_defaults(arguments: Arguments, op: str, *free: str) -> bool:
    """Return True if all arguments of an operation, except those named in `free`, have their default values."""
    defaults = {field.name: field.default for field in fields(OPS[op])}
    return all(value == defaults[name] for name, value in arguments.items() if name not in free)


def _conv_bn(operations: Sequence[Arguments], channels: int) -> Arguments | None:
    """Return the arguments of the `conv_bn` block that equals these operations, or None if none does."""
    conv, norm = operations
    if not _has_defaults(norm, "batch_norm") or not _has_defaults(
        conv, "conv", "channels", "kernel", "stride", "groups"
    ):
        return None
    return {name: conv[name] for name in ("channels", "kernel", "stride", "groups")}


def _se(operations: Sequence[Arguments], channels: int) -> Arguments | None:
    """Return the arguments of the `se` block that equals these operations, or None if none does."""
    pool, first, _, second, _, _ = operations
    has_defaults = all(
        _has_defaults(conv, "conv", "channels", "kernel", "bias") and conv["kernel"] == 1 for conv in (first, second)
    )
    hidden = first["channels"]
    if not has_defaults or not pool["keep"] or second["channels"] != channels or first["bias"] != second["bias"]:
        return None
    is_exact = channels % hidden == 0
    return {
        "reduction": channels // hidden if is_exact else 16,
        "bias": first["bias"],
        "hidden": None if is_exact else hidden,
    }


def _attention(operations: Sequence[Arguments], channels: int) -> Arguments | None:
    """Return the arguments of the `multi_head_attention` block that equals these operations, or None if none does."""
    packed, query, key, value, core, out = operations
    width = packed["channels"] // 3
    bounds = [(part["start"], part["stop"]) for part in (query, key, value)]
    value_bounds = {(2 * width, 3 * width), (2 * width, None)}
    matches = bounds[:2] == [(0, width), (width, 2 * width)] and bounds[2] in value_bounds
    matches = matches and all(part["axis"] in (None, 1, -1) for part in (query, key, value))
    if not matches or not _has_defaults(core, "attention", "heads", "scale") or packed["bias"] != out["bias"]:
        return None
    default_scale = (width / core["heads"]) ** -0.5
    if core["scale"] not in (None, default_scale) or out["channels"] != channels or packed["channels"] % 3:
        return None
    return {"heads": core["heads"], "bias": packed["bias"], "channels": None if width == channels else width}


def _feed_forward(operations: Sequence[Arguments], channels: int) -> Arguments | None:
    """Return the arguments of the `feed_forward` block that equals these operations, or None if none does."""
    first, act, last = operations
    matches = first["bias"] and last["bias"] and last["channels"] == channels and _has_defaults(act, "gelu")
    return {"ratio": first["channels"] // channels} if matches and first["channels"] % channels == 0 else None


PATTERNS = (
    FusionPattern("conv_bn", "std.resnet", (("conv", ("x",)), ("batch_norm", (0,))), _conv_bn),
    FusionPattern(
        "se",
        "std.gates",
        (
            ("global_avg_pool", ("x",)),
            ("conv", (0,)),
            ("relu", (1,)),
            ("conv", (2,)),
            ("sigmoid", (3,)),
            ("mul", ("x", 4)),
        ),
        _se,
    ),
    FusionPattern(
        "multi_head_attention",
        "std.attention",
        (
            ("linear", ("x",)),
            ("slice", (0,)),
            ("slice", (0,)),
            ("slice", (0,)),
            ("attention", (1, 2, 3)),
            ("linear", (4,)),
        ),
        _attention,
    ),
    FusionPattern(
        "feed_forward", "std.transformer", (("linear", ("x",)), ("gelu", (0,)), ("linear", (1,))), _feed_forward
    ),
)
LIBRARY = {idiom.name: idiom.library for idiom in PATTERNS} | dict.fromkeys(RECURRENT, "std.recurrent")
"""Maps the name of each recognised library block to the library module that defines it."""
DEFAULTS: dict[str, Arguments] = {
    "conv_bn": {"channels": MISSING, "kernel": MISSING, "stride": 1, "groups": 1},
    "se": {"reduction": 16, "bias": True, "hidden": None},
    "multi_head_attention": {"heads": MISSING, "bias": True, "channels": None},
    "feed_forward": {"ratio": 4},
    **RECURRENT,
}
"""Maps the name of each recognised library block to the defaults of its parameters; MISSING marks a required
parameter."""


def fuse_library_blocks(items: Sequence[Item], outputs: Iterable[int], types: Types) -> tuple[Item, ...]:
    """Replace groups of operations that match a fusion pattern by calls of library blocks; return the new
    statements."""
    fused = list(items)
    for idiom in sorted(PATTERNS, key=lambda pattern: -len(pattern.operations)):
        fused = _fuse(idiom, fused, set(outputs), types)
    return tuple(fused)


def _fuse(idiom: FusionPattern, items: list[Item], outputs: set[int], types: Types) -> list[Item]:
    """Replace all matches of one pattern whose intermediate values are read only inside the match."""
    producers = {item.writes[0]: item for item in items if isinstance(item, Step) and len(item.writes) == 1}
    readers: dict[int, list[int]] = {}
    for place, item in enumerate(items):
        for number in inputs_of(item):
            readers.setdefault(number, []).append(place)
    names = [name for name, _ in idiom.operations]
    removed: set[int] = set()
    calls: dict[int, Step] = {}
    for item in items:
        if not isinstance(item, Step) or item.callee != names[-1]:
            continue
        match = _match(idiom, item, producers)
        if match is None or any(id(step) in removed for step in match):
            continue
        results = [step.writes[0] for step in match]
        source = next(
            r
            for step, (_, reads) in zip(match, idiom.operations, strict=True)
            for r, w in zip(step.reads, reads, strict=True)
            if w == "x"
        )
        matched_ids = {id(step) for step in match}
        inner = all(id(items[place]) in matched_ids for number in results[:-1] for place in readers.get(number, []))
        if not inner or set(results[:-1]) & outputs or any(step.weights for step in match):
            continue
        x = types[source]
        arguments = idiom.solve([dict(step.arguments) for step in match], x.channels) if x.rank else None
        if arguments is None:
            continue
        removed |= matched_ids
        calls[id(item)] = Step(idiom.name, (source,), item.writes, arguments, "", idiom.name)
    return [calls.get(id(item), item) for item in items if id(item) in calls or id(item) not in removed]


def _match(idiom: FusionPattern, last: Step, producers: Mapping[int, Step]) -> list[Step] | None:
    """Match a pattern backwards from the step of its last operation; return the steps in pattern order, or None."""
    steps: dict[int, Step] = {len(idiom.operations) - 1: last}
    source: int | None = None
    for place in range(len(idiom.operations) - 1, -1, -1):
        step = steps.get(place)
        name, reads = idiom.operations[place]
        if step is None or step.callee != name or len(step.reads) != len(reads):
            return None
        order = step.reads
        if name == "mul" and order[0] in producers and producers[order[0]].callee == idiom.operations[place - 1][0]:
            order = order[::-1]
        for number, operand in zip(order, reads, strict=True):
            if operand == "x":
                if source is not None and source != number:
                    return None
                source = number
            elif number not in producers or steps.setdefault(operand, producers[number]) is not producers[number]:
                return None
    return [steps[place] for place in range(len(idiom.operations))]


def called_library_blocks(items: Iterable[Item]) -> set[str]:
    """Return the names of the library blocks that statements call."""
    names: set[str] = set()
    for item in items:
        if isinstance(item, Loop | Option):
            names |= called_library_blocks(item.items)
        elif item.callee in LIBRARY:
            names.add(item.callee)
    return names
