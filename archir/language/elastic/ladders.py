"""The values that a choice has: by default, and as they were asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Literal, get_args

from archir.diagnostics.errors import fail, suggest

Kind = Literal["widths", "depths", "heads", "kernels", "ratios", "operators"]
"""What may be chosen, the most important first: where two do not go together, the other is left."""
KINDS: tuple[Kind, ...] = get_args(Kind)[:-1]
"""Those that are parts of what was trained, so that trained weights will do: they are opened by default."""
OPENABLE: tuple[Kind, ...] = get_args(Kind)
Ladder = tuple[Fraction, ...]
Asked = Mapping[Kind, Ladder | None]
"""The kinds that are opened; with what they were asked to be: parts of the trained value, or kernels."""

PARTS = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1))
FEW = 4
"""Depths up to this are opened one by one."""


def asked(text: str) -> Asked:
    """What `widths,kernels=3,5,ratios=0.5,1` asks for. Raises ArchError (A3211)."""
    found: dict[Kind, Ladder | None] = {}
    last: Kind | None = None
    for word in (part.strip() for part in text.split(",")):
        name, equals, first = (part.strip() for part in word.partition("="))
        if not equals and last is not None and found[last] is not None and _number(word) is not None:
            found[last] = (*(found[last] or ()), _checked(last, word))
            continue
        last = next((kind for kind in OPENABLE if kind == name), None)
        if last is None:
            raise fail("A3211", f"`{name}` is nothing that `--choose` opens", None, _hint(name))
        if last == "operators" and equals:
            raise fail(
                "A3211", f"`{word}`: operators have no values", None, "write `operators`, and edit what is offered"
            )
        found[last] = (_checked(last, first),) if equals else None
    for kind, values in found.items():
        if values is not None and kind != "kernels":
            _smaller(values, f"{kind}=")
    return found


def _smaller(values: Ladder, form: str) -> None:
    """Raise ArchError (A3211) if parts are nothing smaller; `form` is what they were written behind."""
    if set(values) == {1}:
        text = f"`{form}1` is what was trained, and nothing smaller"
        raise fail("A3211", text, None, f"say which parts of it there are: `{form}0.5,1`")


def fewer(text: str) -> str | None:
    """The same without the least important kind; None if there is no other."""
    wanted = asked(text)
    least = max(wanted, key=OPENABLE.index)
    return _spelt({kind: values for kind, values in wanted.items() if kind != least}) or None


def with_parts(text: str, kind: Kind, parts: str) -> str:
    """The same with these parts of what was trained: `0.5,0.75,1`, as an option of the kind's name has them. Raises
    ArchError (A3211)."""
    values = tuple(_checked(kind, part.strip(), f"--{kind} ") for part in parts.split(","))
    _smaller(values, f"--{kind} ")
    return _spelt({**asked(text), **asked(_spelt({kind: values}))})


def _spelt(wanted: Asked) -> str:
    return ",".join(
        kind if values is None else f"{kind}={','.join(map(str, values))}" for kind, values in wanted.items()
    )


def _hint(name: str) -> str:
    return (
        suggest(name, OPENABLE)
        or f"there are {', '.join(OPENABLE)}; `widths=0.5,1` says which parts of the trained value"
    )


def _number(text: str) -> Fraction | None:
    try:
        return Fraction(text) if len(text) < 20 and "e" not in text.lower() else None
    except (ValueError, ZeroDivisionError):
        return None


def _checked(kind: Kind, text: str, form: str | None = None) -> Fraction:
    form = f"{kind}=" if form is None else form
    value = _number(text)
    if kind == "kernels":
        if value is None or value.denominator != 1 or value < 1 or value % 2 == 0:
            raise fail("A3211", f"`{text}` is no kernel to choose", None, f"kernels are odd: `{form}3,5`")
    elif value is None or not 0 < value <= 1:
        raise fail("A3211", f"`{text}` is no part of what was trained", None, f"parts are up to 1: `{form}0.5,0.75,1`")
    return value


def ladder(kind: Kind, trained: Fraction, wanted: Ladder | None) -> Ladder:
    """The values of a choice, upwards to the trained one; only this if there are none below."""
    if kind == "kernels":
        odd = [Fraction(k) for k in range(3, int(trained), 2)] if wanted is None else [k for k in wanted if k < trained]
        return (*sorted(set(odd)), trained) if trained % 2 else (trained,)
    if kind == "depths" and wanted is None and trained <= FEW:
        return tuple(Fraction(k) for k in range(1, int(trained) + 1))
    parts = sorted({*(PARTS if wanted is None else wanted)})
    found = {_rounded(kind, part * trained, trained) for part in parts}
    return (*sorted(value for value in found if 0 < value < trained), trained)


def _rounded(kind: Kind, value: Fraction, trained: Fraction) -> Fraction:
    if kind == "ratios":
        return value if trained < 3 or trained.denominator > 1 else Fraction(max(1, round(value)))
    if kind == "widths":
        step = _step(trained)
        return Fraction(max(step, step * int(value / step + Fraction(1, 2))))
    return Fraction(ceil(value))


def _step(width: Fraction) -> int:
    """What narrower ones are multiples of: 8 where that leaves some, as hardware likes it."""
    return next(step for step in (8, 4, 2, 1) if width >= 4 * step or step == 1)


def spelt(values: Sequence[Fraction]) -> str:
    """Values as they are written in a choice."""
    return ", ".join(str(value) for value in values)
