"""Operations that the library has a block for are calls of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from archir.ir.op import OPS
from archir.ir.typing import Types
from archir.language.decompiler.outline import Item, Loop, Option, Step, read_by
from archir.language.decompiler.recurrences import RECURRENT

Bound = Mapping[str, Step]
Arguments = dict[str, Any]


@dataclass(frozen=True)
class Idiom:
    """A block of the library: the operations that it is made of, each with what it reads (`x` is the block's input, a
    number the operation at that place), and the block's arguments, if there are any for which it is the same."""

    name: str
    library: str
    operations: tuple[tuple[str, tuple[Any, ...]], ...]
    solve: Callable[[Sequence[Arguments], int], Arguments | None]
    """Of the operations' arguments, and of the channels of the input."""


def _plain(given: Arguments, op: str, *free: str) -> bool:
    """Whether all but these have their defaults."""
    defaults = {one.name: one.default for one in fields(OPS[op])}
    return all(value == defaults[name] for name, value in given.items() if name not in free)


def _conv_bn(found: Sequence[Arguments], channels: int) -> Arguments | None:
    conv, norm = found
    if not _plain(norm, "batch_norm") or not _plain(conv, "conv", "channels", "kernel", "stride", "groups"):
        return None
    return {name: conv[name] for name in ("channels", "kernel", "stride", "groups")}


def _se(found: Sequence[Arguments], channels: int) -> Arguments | None:
    pool, first, _, second, _, _ = found
    plain = all(_plain(one, "conv", "channels", "kernel", "bias") and one["kernel"] == 1 for one in (first, second))
    hidden = first["channels"]
    if not plain or not pool["keep"] or second["channels"] != channels or first["bias"] != second["bias"]:
        return None
    even = channels % hidden == 0
    return {"reduction": channels // hidden if even else 16, "bias": first["bias"], "hidden": None if even else hidden}


def _attention(found: Sequence[Arguments], channels: int) -> Arguments | None:
    packed, one, two, three, core, out = found
    width = packed["channels"] // 3
    bounds = [(part["start"], part["stop"]) for part in (one, two, three)]
    ends = {(2 * width, 3 * width), (2 * width, None)}
    fits = bounds[:2] == [(0, width), (width, 2 * width)] and bounds[2] in ends
    fits = fits and all(part["axis"] in (None, 1, -1) for part in (one, two, three))
    if not fits or not _plain(core, "attention", "heads", "scale") or packed["bias"] != out["bias"]:
        return None
    usual = (width / core["heads"]) ** -0.5
    if core["scale"] not in (None, usual) or out["channels"] != channels or packed["channels"] % 3:
        return None
    return {"heads": core["heads"], "bias": packed["bias"], "channels": None if width == channels else width}


def _feed_forward(found: Sequence[Arguments], channels: int) -> Arguments | None:
    first, act, last = found
    fits = first["bias"] and last["bias"] and last["channels"] == channels and _plain(act, "gelu")
    return {"ratio": first["channels"] // channels} if fits and first["channels"] % channels == 0 else None


IDIOMS = (
    Idiom("conv_bn", "std.resnet", (("conv", ("x",)), ("batch_norm", (0,))), _conv_bn),
    Idiom(
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
    Idiom(
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
    Idiom("feed_forward", "std.transformer", (("linear", ("x",)), ("gelu", (0,)), ("linear", (1,))), _feed_forward),
)
LIBRARY = {idiom.name: idiom.library for idiom in IDIOMS} | dict.fromkeys(RECURRENT, "std.recurrent")
"""Where the library has the blocks that are recognised."""
DEFAULTS: dict[str, Arguments] = {
    "conv_bn": {"channels": MISSING, "kernel": MISSING, "stride": 1, "groups": 1},
    "se": {"reduction": 16, "bias": True, "hidden": None},
    "multi_head_attention": {"heads": MISSING, "bias": True, "channels": None},
    "feed_forward": {"ratio": 4},
    **RECURRENT,
}
"""What the library's blocks take, and where nothing is given."""


def idiomatic(items: Sequence[Item], outputs: Iterable[int], types: Types) -> tuple[Item, ...]:
    """The same statements, with calls of the library."""
    made = list(items)
    for idiom in sorted(IDIOMS, key=lambda one: -len(one.operations)):
        made = _with(idiom, made, set(outputs), types)
    return tuple(made)


def _with(idiom: Idiom, items: list[Item], outputs: set[int], types: Types) -> list[Item]:
    makers = {item.writes[0]: item for item in items if isinstance(item, Step) and len(item.writes) == 1}
    readers: dict[int, list[int]] = {}
    for place, item in enumerate(items):
        for number in read_by(item):
            readers.setdefault(number, []).append(place)
    names = [name for name, _ in idiom.operations]
    gone: set[int] = set()
    calls: dict[int, Step] = {}
    for item in items:
        if not isinstance(item, Step) or item.callee != names[-1]:
            continue
        found = _matched(idiom, item, makers)
        if found is None or any(id(step) in gone for step in found):
            continue
        written = [step.writes[0] for step in found]
        source = next(
            r
            for step, (_, reads) in zip(found, idiom.operations, strict=True)
            for r, w in zip(step.reads, reads, strict=True)
            if w == "x"
        )
        whole = {id(step) for step in found}
        inner = all(id(items[place]) in whole for number in written[:-1] for place in readers.get(number, []))
        if not inner or set(written[:-1]) & outputs or any(step.weights for step in found):
            continue
        x = types[source]
        given = idiom.solve([dict(step.arguments) for step in found], x.channels) if x.rank else None
        if given is None:
            continue
        gone |= whole
        calls[id(item)] = Step(idiom.name, (source,), item.writes, given, "", idiom.name)
    return [calls.get(id(item), item) for item in items if id(item) in calls or id(item) not in gone]


def _matched(idiom: Idiom, last: Step, makers: Mapping[int, Step]) -> list[Step] | None:
    """The steps of an idiom, from its last one on backwards."""
    found: dict[int, Step] = {len(idiom.operations) - 1: last}
    source: int | None = None
    for place in range(len(idiom.operations) - 1, -1, -1):
        step = found.get(place)
        name, reads = idiom.operations[place]
        if step is None or step.callee != name or len(step.reads) != len(reads):
            return None
        order = step.reads
        if name == "mul" and order[0] in makers and makers[order[0]].callee == idiom.operations[place - 1][0]:
            order = order[::-1]
        for number, wanted in zip(order, reads, strict=True):
            if wanted == "x":
                if source is not None and source != number:
                    return None
                source = number
            elif number not in makers or found.setdefault(wanted, makers[number]) is not makers[number]:
                return None
    return [found[place] for place in range(len(idiom.operations))]


def uses(items: Iterable[Item]) -> set[str]:
    """The library's blocks that statements call."""
    found: set[str] = set()
    for item in items:
        if isinstance(item, Loop | Option):
            found |= uses(item.items)
        elif item.callee in LIBRARY:
            found.add(item.callee)
    return found
