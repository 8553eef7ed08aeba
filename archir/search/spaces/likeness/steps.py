"""Sums, products and polynomials that depend on an architecture's codes, written out as one function.

What only one case of a choice needs is computed in that case alone. The text of the function has numbers in it and
nothing else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from math import prod
from typing import Any

from archir.base.names.arrays import NDArray, np
from archir.costs.tables import dense
from archir.ir.choices.cases import Value, at, support
from archir.ir.graph import NodeId

PRIME = (1 << 61) - 1
MOST_CELLS = 16_384
"""Of a table of numbers; what depends on more is looked up in its diagram."""
MOST_PARTS = 64
"""Of a sum that is written as one; more are a list, which may be of any length."""
MOST_POWERS = 32
"""Polynomials of a case that are computed anew for each choice it is a case of."""
DEEPEST = 40
"""Cases inside of cases, past which what they need is computed whether they are chosen or not."""

Codes = Sequence[int]
Values = Callable[[Codes], int]
Weighted = Callable[[Codes, Mapping[NodeId, int], list[tuple[int, NodeId]]], int]
"""Of numbers of some steps, too, and a list that steps are added to."""


class Number:
    """An integer that depends on codes."""

    def __init__(self, value: Value, index: Mapping[str, int]) -> None:
        self._value = value
        self._choices = support(value)
        self.places = [index[choice.path] for choice in self._choices]
        """The positions of the choices that it depends on."""

    @cached_property
    def table(self) -> NDArray[np.int64] | None:
        """The integer by the outcomes of these choices; None where they have too many."""
        sizes = [choice.outcomes for choice in self._choices]
        return dense(self._value, self._choices).reshape(sizes) if prod(sizes) <= MOST_CELLS else None

    def at(self, codes: Codes) -> int:
        """The integer of codes, none of which is negative, without a table."""
        taken = zip(self._choices, self.places, strict=True)
        return int(at(self._value, {choice.path: codes[place] for choice, place in taken}))


Polynomial = tuple[int, int | Number, int]
"""The factors of the square and of the number itself, and what is added; or whether there is a square, what both
factors follow from, and 0."""


@dataclass(frozen=True, slots=True)
class Step:
    """How a value comes about: as the sum, or product, of those of other nodes, each with its factor; and then by
    polynomials, one after the other. Or as that of the case of a choice."""

    reads: tuple[tuple[NodeId, int | Number], ...] = ()
    product: bool = False
    start: int = 0
    then: tuple[Polynomial, ...] = ()
    place: int = -1
    cases: tuple[NodeId, ...] = ()
    weighs: bool = False
    """Whether an operation with weights is a part of it."""

    @property
    def needs(self) -> set[NodeId]:
        """The nodes that it may need."""
        return {one for one, _ in self.reads} | {*self.cases}


@dataclass(frozen=True, slots=True)
class Root:
    """What is added up: a step, whether it is there, and how often it counts."""

    step: Step
    there: Number | None
    times: int


def hashed(text: str) -> int:
    """A number that stands for a text."""
    return 1 + int.from_bytes(sha256(text.encode()).digest()[:7])


def powers(number: int, squared: bool) -> tuple[int, int]:
    """The factors of the polynomial that stands for a number: of 1, what changes nothing."""
    return (number, number * 3 % PRIME + 1) if squared and number != 1 else (0, number)


def polynomial(number: int | Number, squared: bool) -> Polynomial:
    """The polynomial that stands for a number."""
    return (squared, number, 0) if isinstance(number, Number) else (*powers(number, squared), 0)


def written(steps: Mapping[NodeId, Step], roots: Sequence[Root]) -> Values:
    """The sum of the roots, as a function of codes."""
    writer = _Writer(steps, roots)
    made: Values = function(list(writer.lines()), writer.names)
    return made


def written_with_weights(steps: Mapping[NodeId, Step], result: NodeId) -> Weighted:
    """The value of a node as a function of codes, where each step that weighs is multiplied by a number that follows
    from its own value, and from one that is given for it, or 0. These steps are added to a list with their values, as
    far as they are computed."""
    writer = _Writer(steps, [Root(Step(((result, 1),)), None, 1)])
    made: Weighted = function(list(writer.lines()), writer.names, "c, w, s")
    return made


def total(constant: int, tables: Iterable[tuple[Sequence[int], NDArray[np.int64]]]) -> Values:
    """The sum of what is looked up in tables, each by the codes at some positions, as a function of codes."""
    names: dict[str, Any] = {}
    lines = [PLAIN, f" t = {constant}"]
    for i, (places, table) in enumerate(tables):
        lines.append(f" t += {_looked_up(f'n{i}', places, table, names)}")
    made: Values = function([*lines, " return t"], names)
    return made


PLAIN = " d = [x if x > 0 else 0 for x in c]"
"""The line before lines that look numbers up by `c`: a choice that is not made is as its first outcome."""


_WORDS = {"def", "value", "if", "else", "for", "in", "return", "sum", "append", "get", "powers", "hash"}
_NAME = re.compile(r"[a-z]\d*|[a-z]\d+_(?:True|False)|True|False")


def function(lines: Sequence[str], names: Mapping[str, Any], given: str = "c") -> Any:
    """The function of what is given of which these are the lines.

    They have numbers in them, and names that are made here, never one that comes from a program; anything else is
    refused, ValueError.
    """
    text = "\n".join([f"def value({given}):", *lines])
    strange = {word for word in re.findall(r"[^\W\d]\w*", text) if word not in _WORDS and not _NAME.fullmatch(word)}
    if strange or re.search(r"[^\w\s()\[\],:.=<>+*%-]", text) or "__" in text:
        raise ValueError(f"a function of codes is made of numbers, not of {', '.join(sorted(strange)) or 'this'}")
    found = dict(names)
    exec(compile(text, "<values>", "exec"), found)  # noqa: S102
    return found["value"]


def chosen(conditions: Sequence[Number | None]) -> Callable[[Codes], tuple[int, ...]]:
    """Codes where a condition holds, or there is none, and -1 elsewhere, as a function of codes."""
    names: dict[str, Any] = {}
    parts = []
    for place, condition in enumerate(conditions):
        held = f" if {named(condition, f'n{place}', names)} else -1" if condition is not None else ""
        parts.append(f"c[{place}]{held}, ")
    made: Callable[[Codes], tuple[int, ...]] = function([PLAIN, f" return ({''.join(parts)})"], names)
    return made


def named(number: Number, name: str, names: dict[str, Any]) -> str:
    """An expression for a number by the outcomes `d`, which asks for a name that is given here."""
    if number.table is None:
        names[name] = number.at
        return f"{name}(d)"
    return _looked_up(name, number.places, number.table, names)


def _looked_up(name: str, places: Sequence[int], table: NDArray[np.int64], names: dict[str, Any]) -> str:
    """What is looked up in a table by the codes at these positions, which asks for a name that is given here."""
    names[name] = table.reshape(-1).tolist()
    return f"{name}[{cell(places, table.shape)}]"


def cell(places: Sequence[int], sizes: Sequence[int]) -> str:
    """An expression for the cell of a table of these sizes that the outcomes `d` at some positions lead to."""
    found = ""
    for place, outcomes in zip(places, sizes, strict=True):
        found = f"({found}) * {outcomes} + d[{place}]" if found else f"d[{place}]"
    return found or "0"


Region = tuple[tuple[NodeId, NodeId], ...]
"""The cases of choices that need something: pairs of a choice's node and the case's."""


class _Writer:
    def __init__(self, steps: Mapping[NodeId, Step], roots: Sequence[Root]) -> None:
        self._roots = roots
        self._steps, self._moved = _compressed(steps, roots)
        self.names: dict[str, Any] = {}
        self._numbers: dict[int, str] = {}
        self._regions: dict[Region, list[NodeId]] = {}
        self._powers: dict[NodeId, list[list[Polynomial]]] = {}
        places: dict[NodeId, Region] = {}

        def read(one: NodeId, here: Region) -> None:
            places[one] = _common(places[one], here) if one in places else here

        for root in self._moved:
            for one in root.step.needs:
                read(one, ())
        for number in sorted(self._steps, reverse=True):
            if number not in places:
                continue
            here, step = places[number], self._steps[number]
            self._regions.setdefault(here, []).append(number)
            for one, _ in step.reads:
                read(one, here)
            if step.cases and (found := self._source(step)) is not None:
                source, self._powers[number] = found
                self._steps[number] = replace(step, reads=((source, 1),))
                read(source, here)
                continue
            for case in dict.fromkeys(step.cases):
                read(case, (*here, (number, case)) if len(here) < DEEPEST else here)

    def _source(self, step: Step) -> tuple[NodeId, list[list[Polynomial]]] | None:
        """The node that all cases of a choice are polynomials of, and these by outcomes; None if there is none."""
        ways = {case: self._way(case) for case in step.cases}
        several = [{one for one, _ in way} for way in ways.values() if way]
        common = set.intersection(*several) if several else set()
        if not common:
            return None
        source, found = max(common), dict[NodeId, list[Polynomial]]()
        for case, way in ways.items():
            then = [*reversed([one for place, some in way if place > source for one in reversed(some)])]
            found[case] = list(_simple(then)) if way else [(0, 0, self._steps[case].start)]
            if len(found[case]) > MOST_POWERS:
                return None
        return source, [found[case] for case in step.cases]

    def _way(self, case: NodeId) -> list[tuple[NodeId, tuple[Polynomial, ...]]]:
        """From a node back, with the polynomial that each is of the next one, as long as it is one; of a constant,
        none."""
        found: list[tuple[NodeId, tuple[Polynomial, ...]]] = []
        while True:
            step = self._steps[case]
            plain = not any(isinstance(second, Number) for _, second, _ in step.then)
            if plain and not (step.reads or step.cases or step.weighs or step.then) and not found:
                return []
            if step.cases or step.product or step.weighs or not plain or step.start:
                return [*found, (case, ())]
            if len(step.reads) != 1 or step.reads[0][1] != 1:
                return [*found, (case, ())]
            found.append((case, step.then))
            case = step.reads[0][0]

    def lines(self) -> Iterator[str]:
        """The lines of the function of codes."""
        yield PLAIN
        yield from self._region((), " ")
        yield " t = 0"
        for root in self._moved:
            condition = f"if {self._number(root.there)}: " if root.there is not None else ""
            yield from self._taken("x", root.step, " ")
            yield f" {condition}t += {root.times} * x"
        yield f" return t % {PRIME}"

    def _region(self, region: Region, indent: str) -> Iterator[str]:
        for number in reversed(self._regions.get(region, [])):
            step = self._steps[number]
            if step.cases:
                yield from self._chosen(number, step, region, indent)
            else:
                yield from self._taken(f"v{number}", step, indent)
                if step.weighs:
                    yield f"{indent}s.append((v{number}, {number}))"
                    yield f"{indent}v{number} = v{number} * hash((v{number}, w.get({number}, 0))) % {PRIME}"

    def _chosen(self, number: NodeId, step: Step, region: Region, indent: str) -> Iterator[str]:
        if number in self._powers:
            self.names[f"q{number}"] = self._powers[number]
            yield f"{indent}x = v{step.reads[0][0]}"
            yield f"{indent}for a, b, e in q{number}[d[{step.place}]]:"
            yield f"{indent} x = ((a * x + b) * x + e) % {PRIME}"
            yield f"{indent}v{number} = x"
            return
        distinct = list(dict.fromkeys(step.cases))
        table = [distinct.index(case) for case in step.cases]
        name = f"k{number}"
        self.names[name] = tuple(table)
        if not any((*region, (number, case)) in self._regions for case in distinct):
            several = ", ".join(f"v{case}" for case in distinct)
            yield f"{indent}v{number} = ({several},)[{name}[d[{step.place}]]]"
            return
        yield f"{indent}k = {name}[d[{step.place}]]"
        yield from self._halved(number, distinct, 0, region, indent)

    def _halved(
        self, number: NodeId, cases: Sequence[NodeId], first: int, region: Region, indent: str
    ) -> Iterator[str]:
        if len(cases) == 1:
            yield from self._region((*region, (number, cases[0])), indent)
            yield f"{indent}v{number} = v{cases[0]}"
            return
        middle = len(cases) // 2
        yield f"{indent}if k < {first + middle}:"
        yield from self._halved(number, cases[:middle], first, region, indent + " ")
        yield f"{indent}else:"
        yield from self._halved(number, cases[middle:], first + middle, region, indent + " ")

    def _taken(self, name: str, step: Step, indent: str) -> Iterator[str]:
        parts = [f"v{one}{self._times(factor)}" for one, factor in step.reads]
        if not step.product:
            parts += [str(step.start)] if step.start or not parts else []
            text = " + ".join(parts) if len(parts) <= MOST_PARTS else f"sum(({', '.join(parts)}))"
        else:
            text = " * ".join(parts)
        if step.then and len(step.reads) == 1 and text == f"v{step.reads[0][0]}":
            before = text
        else:
            before = name
            yield f"{indent}{name} = {f'({text}) % {PRIME}' if len(parts) > 1 else text}"
        for first, second, third in step.then:
            more = f" + {third}" if third else ""
            if isinstance(second, Number):
                yield f"{indent}a, b = {self._factors(second, bool(first))}"
                yield f"{indent}{name} = (a * {before} + b) * {before} % {PRIME}"
            elif first:
                yield f"{indent}{name} = (({first} * {before} + {second}) * {before}{more}) % {PRIME}"
            else:
                yield f"{indent}{name} = ({second} * {before}{more}) % {PRIME}"
            before = name

    def _factors(self, number: Number, squared: bool) -> str:
        found = self._number(number)
        if number.table is None:
            self.names["powers"] = powers
            return f"powers({found}, {squared})"
        name, _, place = found.partition("[")
        self.names[f"{name}_{squared}"] = [powers(one, squared) for one in self.names[name]]
        return f"{name}_{squared}[{place}"

    def _times(self, factor: int | Number) -> str:
        if isinstance(factor, Number):
            return f" * {self._number(factor)}"
        return f" * {factor}" if factor != 1 else ""

    def _number(self, number: Number) -> str:
        name = self._numbers.setdefault(id(number), f"n{len(self._numbers)}")
        return named(number, name, self.names)


def _common(one: Region, other: Region) -> Region:
    """The innermost case that both are in."""
    size = 0
    while size < min(len(one), len(other)) and one[size] == other[size]:
        size += 1
    return one[:size]


def _compressed(steps: Mapping[NodeId, Step], roots: Sequence[Root]) -> tuple[dict[NodeId, Step], list[Root]]:
    """Only what the roots need; what one node alone reads becomes a part of it."""
    stack, readers = [root.step for root in roots], Counter[NodeId]()
    while stack:
        for one in stack.pop().needs:
            readers[one] += 1
            if readers[one] == 1:
                stack.append(steps[one])
    made: dict[NodeId, Step] = {}

    def joined(step: Step) -> Step:
        """A step with what it alone reads."""
        if step.product or step.cases:
            return step
        if len(step.reads) == 1 and isinstance(step.reads[0][1], int):
            one, factor = step.reads[0]
            inner = made[one]
            then = _simple(((0, factor, step.start), *step.then))
            if inner.cases or readers[one] > 1:
                return replace(step, reads=((one, 1),), start=0, then=then)
            then = _simple((*inner.then, *then))
            return _folded(Step(inner.reads, inner.product, inner.start, then, weighs=inner.weighs or step.weighs))
        reads: list[tuple[NodeId, int | Number]] = []
        start = step.start
        for one, factor in step.reads:
            inner = made[one]
            plain = not (inner.cases or inner.product or inner.then or inner.weighs)
            if readers[one] == 1 and factor == 1 and plain:
                reads += inner.reads
                start += inner.start
            else:
                reads.append((one, factor))
        return _folded(replace(step, reads=tuple(reads), start=start))

    for number in sorted(readers):
        made[number] = joined(steps[number])
    return made, [Root(joined(root.step), root.there, root.times) for root in roots]


def _folded(step: Step) -> Step:
    """A constant without polynomials, where it depends on nothing."""
    if step.reads or step.cases or step.weighs:
        return step
    start = step.start
    for first, second, third in step.then:
        if isinstance(second, Number):
            return step
        start = ((first * start + second) * start + third) % PRIME
    return Step(start=start)


def _simple(then: Iterable[Polynomial]) -> tuple[Polynomial, ...]:
    """Fewer polynomials that come to the same: those that have no square are parts of others."""
    found: list[Polynomial] = []
    for first, second, third in then:
        one, other, constant = found[-1] if found else (0, 1, 0)
        if isinstance(second, Number) or isinstance(other, Number) or (first and one):
            found.append((first, second, third))
            continue
        if found:
            found.pop()
        if one:
            new = second * one, second * other, second * constant + third
        else:
            new = (
                first * other * other,
                (2 * first * constant + second) * other,
                (first * constant + second) * constant + third,
            )
        found.append((new[0] % PRIME, new[1] % PRIME, new[2] % PRIME))
    return tuple([one for one in found if one != (0, 1, 0)])
