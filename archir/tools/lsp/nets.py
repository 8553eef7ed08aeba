"""What the nets of a text come to: shapes along its pipes, choices, counts and costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from archir.costs.scopes import Range, ranges
from archir.costs.sums import Terms
from archir.diagnostics.errors import ArchError, Span
from archir.diagnostics.work import MOST_WORK, anew, bounded
from archir.diagrams.cases import Choice, Value, leaves, varies
from archir.ir.graph import Decision, Graph
from archir.language.elaboration.context import Context
from archir.language.elaboration.elaborate import elaborate
from archir.language.elaboration.locals import walk
from archir.language.elaboration.recursion import keeping
from archir.language.elaboration.values import Tensor, show
from archir.language.syntax import ast
from archir.spaces.space import Space
from archir.tools.lsp.view import View

MOST_VALUES = 6
"""Different values of one piece of syntax that are kept."""
_MOST_PLACES = 20_000
_WORK = MOST_WORK
_A_COST = 1 / 8
"""The share of the budget that the costs of one block or net may take."""
_COSTS = ("params", "macs")
Hint = tuple[int, str]
"""An offset, and what is shown behind it."""


@dataclass
class Net:
    """A net of a text that could be elaborated."""

    graph: Graph
    values: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    """What pieces of syntax come to, by their places: types of tensors, and other values."""
    _asked: dict[str | None, dict[str, Range] | None] = field(default_factory=dict)

    @cached_property
    def space(self) -> Space:
        """Its architectures."""
        return Space(self.graph)

    @cached_property
    def size(self) -> int | None:
        """How many architectures there are; None where counting takes too much."""
        try:
            with bounded(_WORK):
                return self.space.satisfying
        except ArchError:
            return None

    def depending(self, choice: Decision) -> int | None:
        """In how many architectures a choice is made."""
        try:
            with bounded(_WORK):
                return self.space.holding(choice.active)
        except ArchError:
            return None

    def choices(self, start: int, end: int, path: str) -> list[Decision]:
        """The choices whose alternatives are written in a part of a file."""
        found = []
        for decision in self.graph.decisions.values():
            places = decision.choice.places
            if places and all(one.source.name == path and start <= one.start <= one.end <= end for one in places):
                found.append(decision)
        return found

    @cached_property
    def costs(self) -> dict[str, Range] | None:
        """Parameters and MACs of whole architectures; None where that takes too much."""
        return self._ranges(None)

    def of_block(self, name: str) -> dict[str, Range] | None:
        """Parameters and MACs of the first call of a block."""
        scope = next((scope for scope, block in self.graph.blocks.items() if block == name), None)
        return self._ranges(scope) if scope is not None else None

    def _ranges(self, scope: str | None) -> dict[str, Range] | None:
        if scope not in self._asked:
            self._asked[scope] = self._range(scope)
        return self._asked[scope]

    def _range(self, scope: str | None) -> dict[str, Range] | None:
        if None in self._asked.values():
            return None  # one that took too much is enough
        try:
            with bounded(_WORK), anew(_A_COST):
                account = self.space.account
                parts = {name: Terms() for name in _COSTS}
                for number, costs in account.contributions.items():
                    own = self.graph[number].scope
                    if scope is None or own == scope or own.startswith((f"{scope}.", f"{scope}[")):
                        for name in _COSTS:
                            parts[name].update(costs.get(name, Terms()))
                return dict(zip(_COSTS, ranges(account.sums(parts)), strict=True))
        except ArchError:
            return None


def nets(view: View) -> list[Net]:
    """The nets of a text that are sound, as their parameters' defaults have them."""
    if view.problems:
        return []
    found = []
    with bounded(_WORK), keeping():
        for name in view.module.nets:
            values: dict[tuple[int, int], list[str]] = {}
            try:
                graph = elaborate(
                    view.text, view.path, folder=view.folder, root=view.folder, net=name, seen=_Watch(view.path, values)
                )
            except ArchError:
                continue
            found.append(Net(graph, values))
    return found


class _Watch:
    """Writes down what pieces of syntax of one file come to."""

    def __init__(self, path: str, values: dict[tuple[int, int], list[str]]) -> None:
        self.path, self.values = path, values

    def __call__(self, context: Context, span: Span, value: Value) -> None:
        """Keep a value, but of the first few that differ no more."""
        if span.source.name != self.path or len(self.values) > _MOST_PLACES:
            return
        kept = self.values.setdefault((span.start, span.end), [])
        if len(kept) < MOST_VALUES:
            for said in _said(context, value):
                if said not in kept:
                    kept.append(said)


def _said(context: Context, value: Value) -> Iterator[str]:
    types = getattr(context, "types", {})
    for number, leaf in enumerate(leaves(value) if varies(value) else [value]):
        if number == MOST_VALUES:
            return
        if isinstance(leaf, Tensor):
            yield str(types[leaf.node])
        elif isinstance(leaf, (bool, int, float, str, tuple)) or leaf is None:
            yield show(leaf)


def shapes(view: View, found: list[Net]) -> list[Hint]:
    """The types behind each pipe's targets, and behind names that are no pipes."""
    hints = []
    for definition in view.module.definitions():
        for part in walk(definition):
            if isinstance(part, ast.Pipe):
                for target in part.targets:
                    said = _types(found, target.span)
                    if said:
                        hints.append((target.span.end, _short(said)))
    return hints


def totals(view: View, found: list[Net]) -> list[Hint]:
    """Behind the header of a block, what its first call costs; of a net, how many architectures there are, too."""
    hints = []
    for definition in view.module.definitions():
        at = view.text.find("{", definition.params[-1].span.end if definition.params else definition.name.span.end)
        for net in found:
            name = definition.name.text
            if definition.word == "net" and net.graph.name == name:
                said = [] if net.size is None else [f"{net.size:,} architecture{'s' if net.size != 1 else ''}"]
                hints.append((at + 1, ", ".join([*said, *_worded(net.costs)])))
                break
            if definition.word != "net" and (costs := net.of_block(name)) is not None:
                hints.append((at + 1, ", ".join(_worded(costs))))
                break
    return [(at, text) for at, text in hints if text]


def _worded(costs: dict[str, Range] | None) -> list[str]:
    words = {"params": "parameters", "macs": "MACs"}
    return [f"{amounts(costs[name])} {words[name]}" for name in _COSTS] if costs is not None else []


def amounts(found: Range) -> str:
    """A range of a cost, rounded: `1.2 M`, or `0.8 to 1.2 M`."""
    least, greatest = amount(found.least), amount(found.greatest)
    return least if least == greatest else f"{least} to {greatest}"


def amount(value: int) -> str:
    """A number as people say it: `431`, `1.23 K`, `4.51 M`."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("K", 10**3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return str(value)


def _types(found: list[Net], span: Span) -> list[str]:
    said = [one for net in found for one in net.values.get((span.start, span.end), []) if "[" in one]
    return list(dict.fromkeys(said))


def _short(types: list[str]) -> str:
    """Types in a word: sizes that differ beside each other."""
    heads = {one.partition("[")[0] for one in types}
    dims = [one.partition("[")[2].rstrip("]").split(", ") for one in types]
    if len(heads) == 1 and len({len(one) for one in dims}) == 1:
        merged = ["|".join(list(dict.fromkeys(axis))[:4]) for axis in zip(*dims, strict=True)]
        return f"{heads.pop()}[{', '.join(merged)}]"
    return " or ".join(types[:3])


def label_of(choice: Choice) -> str:
    """A choice in a line: what it is called, and what there is to choose from."""
    names = ", ".join(map(str, choice.alternatives[:12])) + (", ..." if len(choice.alternatives) > 12 else "")
    take = f"{choice.take} of " if choice.take is not None else ""
    return f"`{choice.path}`: {take}{names}"
