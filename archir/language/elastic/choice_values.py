"""Values of the choices in an elastic space: defaults, and those requested with `--choose`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Literal, get_args

from archir.diagnostics.errors import fail
from archir.diagnostics.hints import suggest

Kind = Literal["widths", "depths", "heads", "kernels", "ratios", "operators"]
"""Kinds of choices, most important first.

Where two choices cannot be combined, only the one of the more important kind becomes a choice.
"""
KINDS: tuple[Kind, ...] = get_args(Kind)[:-1]
"""Kinds made elastic by default: for their smaller values, the weights are slices of the trained weights."""
OPENABLE: tuple[Kind, ...] = get_args(Kind)
"""All kinds that can be made elastic."""
Values = tuple[Fraction, ...]
"""Values of a choice in ascending order, or the fractions of the trained value that were requested for it."""
Request = Mapping[Kind, Values | None]
"""Requested kinds, each with its values: fractions of the trained value, or kernel sizes for `kernels`; None
means the defaults."""

DEFAULT_FRACTIONS = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1))
"""Default values of a choice, as fractions of the trained value."""
MAX_LISTED_DEPTH = 4
"""Up to this trained depth, the default values are all depths from 1."""


def parse_request(text: str) -> Request:
    """Parse the text of `--choose`, such as `widths,kernels=3,5,ratios=0.5,1`. Raises ArchError (A3211) if it is
    invalid."""
    request: dict[Kind, Values | None] = {}
    last: Kind | None = None
    for word in (part.strip() for part in text.split(",")):
        name, equals, first = (part.strip() for part in word.partition("="))
        if not equals and last is not None and request[last] is not None and _number(word) is not None:
            request[last] = (*(request[last] or ()), _parse_value(last, word))
            continue
        last = next((kind for kind in OPENABLE if kind == name), None)
        if last is None:
            raise fail("A3211", f"`--choose` has no kind `{name}`", None, _hint(name))
        if last == "operators" and equals:
            raise fail(
                "A3211", f"`{word}`: operators have no values", None, "write `operators`, then edit the alternatives"
            )
        request[last] = (_parse_value(last, first),) if equals else None
    for kind, values in request.items():
        if values is not None and kind != "kernels":
            _require_smaller(values, f"{kind}=")
    return request


def _require_smaller(values: Values, prefix: str) -> None:
    """Raise ArchError (A3211) if 1 is the only requested fraction; `prefix` is the text before the fractions in
    messages."""
    if set(values) == {1}:
        text = f"`{prefix}1` allows only the trained value and no smaller one"
        raise fail("A3211", text, None, f"add fractions of the trained value: `{prefix}0.5,1`")


def without_last_kind(text: str) -> str | None:
    """Return the request without its least important kind; None if that was the only one."""
    request = parse_request(text)
    least = max(request, key=OPENABLE.index)
    return _format_request({kind: values for kind, values in request.items() if kind != least}) or None


def with_fractions(text: str, kind: Kind, fractions: str) -> str:
    """Set the fractions of one kind (such as `0.5,0.75,1`) in a request. Raises ArchError (A3211)."""
    values = tuple(_parse_value(kind, part.strip(), f"--{kind} ") for part in fractions.split(","))
    _require_smaller(values, f"--{kind} ")
    return _format_request({**parse_request(text), **parse_request(_format_request({kind: values}))})


def _format_request(request: Request) -> str:
    """Format a request in the syntax of `--choose`."""
    return ",".join(
        kind if values is None else f"{kind}={','.join(map(str, values))}" for kind, values in request.items()
    )


def _hint(name: str) -> str:
    """Return a hint for an unknown kind."""
    return (
        suggest(name, OPENABLE)
        or f"the kinds are {', '.join(OPENABLE)}; `widths=0.5,1` gives fractions of the trained value"
    )


def _number(text: str) -> Fraction | None:
    """Parse a number of at most 19 characters without exponent; return None if it is invalid."""
    try:
        return Fraction(text) if len(text) < 20 and "e" not in text.lower() else None
    except (ValueError, ZeroDivisionError):
        return None


def _parse_value(kind: Kind, text: str, prefix: str | None = None) -> Fraction:
    """Parse one requested value of a kind.

    Raises ArchError (A3211) if a kernel size is not odd or a fraction is not in (0, 1].
    """
    prefix = f"{kind}=" if prefix is None else prefix
    value = _number(text)
    if kind == "kernels":
        if value is None or value.denominator != 1 or value < 1 or value % 2 == 0:
            raise fail("A3211", f"`{text}` is not a valid kernel size", None, f"kernel sizes are odd: `{prefix}3,5`")
    elif value is None or not 0 < value <= 1:
        hint = f"fractions are above 0 and at most 1: `{prefix}0.5,0.75,1`"
        raise fail("A3211", f"`{text}` is not a fraction of the trained value", None, hint)
    return value


def choice_values(kind: Kind, trained: Fraction, requested: Values | None) -> Values:
    """Return the values of a choice in ascending order, ending with the trained value.

    If all requested or default values round to the trained value or to 0, only the trained value is returned.
    """
    if kind == "kernels":
        odd = (
            [Fraction(k) for k in range(3, int(trained), 2)]
            if requested is None
            else [k for k in requested if k < trained]
        )
        return (*sorted(set(odd)), trained) if trained % 2 else (trained,)
    if kind == "depths" and requested is None and trained <= MAX_LISTED_DEPTH:
        return tuple(Fraction(k) for k in range(1, int(trained) + 1))
    fractions = sorted({*(DEFAULT_FRACTIONS if requested is None else requested)})
    rounded = {_rounded(kind, part * trained, trained) for part in fractions}
    return (*sorted(value for value in rounded if 0 < value < trained), trained)


def _rounded(kind: Kind, value: Fraction, trained: Fraction) -> Fraction:
    """Round a value of a choice.

    Widths are rounded to the nearest multiple of their step, and are at least one step. Depths and heads are rounded
    up. Ratios become integers if the trained ratio is an integer of at least 3; otherwise they stay unrounded.
    """
    if kind == "ratios":
        return value if trained < 3 or trained.denominator > 1 else Fraction(max(1, round(value)))
    if kind == "widths":
        step = _step(trained)
        return Fraction(max(step, step * int(value / step + Fraction(1, 2))))
    return Fraction(ceil(value))


def _step(width: Fraction) -> int:
    """Return the step between widths: 8, which suits hardware, for widths from 32; 4, 2 or 1 for smaller ones."""
    return next(step for step in (8, 4, 2, 1) if width >= 4 * step or step == 1)


def format_values(values: Sequence[Fraction]) -> str:
    """Return the values of a choice as source text."""
    return ", ".join(str(value) for value in values)
