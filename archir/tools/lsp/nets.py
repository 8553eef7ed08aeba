"""Elaborated nets of a text, which provide tensor types for hints, choices, counts and costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from archir.costs.scopes import CostRange, cost_ranges
from archir.costs.sums import Terms
from archir.diagnostics.errors import ArchError, Span
from archir.diagnostics.work import MAX_WORK, fresh_budget, work_budget
from archir.diagrams.diagram import Choice, Value, leaves, varies
from archir.ir.graph import Decision, Graph
from archir.language.elaboration.context import Context
from archir.language.elaboration.elaborate import elaborate
from archir.language.elaboration.name_analysis import walk
from archir.language.elaboration.recursion import without_gc
from archir.language.elaboration.values import Tensor, show
from archir.language.syntax import ast
from archir.pictures.labels import amount
from archir.spaces.space import Space
from archir.tools.lsp.view import View
from archir.utils.counts import count_noun

MAX_VALUES = 6
"""Maximum number of different values that are kept per syntax node."""
_MAX_SPANS = 20_000
"""Maximum number of syntax nodes whose values are kept."""
_WORK_LIMIT = MAX_WORK
"""Work budget of one request, in units."""
_COST_SHARE = 1 / 8
"""Fraction of the work budget that computing the costs of one block or net may use."""
_COSTS = ("params", "macs")
"""Costs that hints and hover texts show."""
Hint = tuple[int, str]
"""Inlay hint: an offset, and the text to show there."""


@dataclass
class Net:
    """Net of a text that elaborates without errors, with the values of its syntax nodes."""

    graph: Graph
    values: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    """Values of each syntax node by its (start, end) offsets: types of tensors, and other values as text."""
    _cost_cache: dict[str | None, dict[str, CostRange] | None] = field(default_factory=dict)

    @cached_property
    def space(self) -> Space:
        """The search space of the net."""
        return Space(self.graph)

    @cached_property
    def size(self) -> int | None:
        """Number of valid architectures, or None if counting exceeds the work budget."""
        try:
            with work_budget(_WORK_LIMIT):
                return self.space.satisfying
        except ArchError:
            return None

    def count_with(self, decision: Decision) -> int | None:
        """Return the number of architectures in which a choice is active, or None if counting exceeds the work
        budget."""
        try:
            with work_budget(_WORK_LIMIT):
                return self.space.count_where(decision.active)
        except ArchError:
            return None

    def choices_in(self, start: int, end: int, path: str) -> list[Decision]:
        """Return the choices whose alternatives all lie between two offsets of the file `path`."""
        decisions = []
        for decision in self.graph.decisions.values():
            spans = decision.choice.alternative_spans
            if spans and all(span.source.name == path and start <= span.start <= span.end <= end for span in spans):
                decisions.append(decision)
        return decisions

    @cached_property
    def costs(self) -> dict[str, CostRange] | None:
        """Ranges of parameters and MACs of the whole net, or None if computing them exceeds the work budget."""
        return self._cached_costs(None)

    def block_costs(self, name: str) -> dict[str, CostRange] | None:
        """Return ranges of parameters and MACs of a block's first call.

        Returns None if the block is not called, or if computing them exceeds the work budget.
        """
        scope = next((scope for scope, block in self.graph.blocks.items() if block == name), None)
        return self._cached_costs(scope) if scope is not None else None

    def _cached_costs(self, scope: str | None) -> dict[str, CostRange] | None:
        """Return the costs of a scope from the cache, computing them on first use; the scope None is the whole net."""
        if scope not in self._cost_cache:
            self._cost_cache[scope] = self._compute_costs(scope)
        return self._cost_cache[scope]

    def _compute_costs(self, scope: str | None) -> dict[str, CostRange] | None:
        """Compute the ranges of parameters and MACs in a scope. Returns None if this exceeds the work budget."""
        if None in self._cost_cache.values():
            return None  # after one failure, no other scope is tried
        try:
            with work_budget(_WORK_LIMIT), fresh_budget(_COST_SHARE):
                account = self.space.account
                terms = {name: Terms() for name in _COSTS}
                for number, costs in account.contributions.items():
                    node_scope = self.graph[number].scope
                    if scope is None or node_scope == scope or node_scope.startswith((f"{scope}.", f"{scope}[")):
                        for name in _COSTS:
                            terms[name].update(costs.get(name, Terms()))
                return dict(zip(_COSTS, cost_ranges(account.chain_of_terms(terms)), strict=True))
        except ArchError:
            return None


def nets(view: View) -> list[Net]:
    """Elaborate the nets of a text with default parameters, and return those without errors."""
    if view.problems:
        return []
    elaborated = []
    with work_budget(_WORK_LIMIT), without_gc():
        for name in view.module.nets:
            values: dict[tuple[int, int], list[str]] = {}
            try:
                graph = elaborate(
                    view.text,
                    view.path,
                    folder=view.folder,
                    root=view.folder,
                    net=name,
                    observer=_ValueRecorder(view.path, values),
                )
            except ArchError:
                continue
            elaborated.append(Net(graph, values))
    return elaborated


class _ValueRecorder:
    """Observer of elaboration that records the values of the syntax nodes of one file."""

    def __init__(self, path: str, values: dict[tuple[int, int], list[str]]) -> None:
        self.path, self.values = path, values

    def __call__(self, context: Context, span: Span, value: Value) -> None:
        """Record a value of a syntax node, up to MAX_VALUES different ones."""
        if span.source.name != self.path or len(self.values) > _MAX_SPANS:
            return
        texts = self.values.setdefault((span.start, span.end), [])
        if len(texts) < MAX_VALUES:
            for text in _value_texts(context, value):
                if text not in texts:
                    texts.append(text)


def _value_texts(context: Context, value: Value) -> Iterator[str]:
    """Yield a value as text, or each possible value if it depends on choices.

    Tensors are represented by their types, other values as in source code.
    """
    for number, leaf in enumerate(leaves(value) if varies(value) else [value]):
        if number == MAX_VALUES:
            return
        if isinstance(leaf, Tensor):
            yield str(context.types[leaf.node])
        elif isinstance(leaf, (bool, int, float, str, tuple)) or leaf is None:
            yield show(leaf)


def shape_hints(view: View, nets_of_text: list[Net]) -> list[Hint]:
    """Return hints with tensor types, one after each stage of a pipe."""
    hints = []
    for definition in view.module.definitions():
        for part in walk(definition):
            if isinstance(part, ast.Pipe):
                for target in part.targets:
                    types = _tensor_types(nets_of_text, target.span)
                    if types:
                        hints.append((target.span.end, _merge_types(types)))
    return hints


def cost_hints(view: View, nets_of_text: list[Net]) -> list[Hint]:
    """Return the summaries as hints after the headers of blocks and nets."""
    return [
        (view.text.find("{", (definition.params or (definition.name,))[-1].span.end) + 1, text)
        for definition, text in summaries(view, nets_of_text)
    ]


def summaries(view: View, nets_of_text: list[Net]) -> Iterator[tuple[ast.Definition, str]]:
    """Yield the costs of each block, cell and net as text.

    Those of a block are the costs of its first call. Those of a net are its number of architectures and their range of
    costs.
    """
    for definition in view.module.definitions():
        for net in nets_of_text:
            name = definition.name.text
            if definition.word == "net" and net.graph.name == name:
                count_text = [] if net.size is None else [count_noun(net.size, "architecture")]
                texts = [*count_text, *_cost_texts(net.costs)]
            elif definition.word != "net" and (costs := net.block_costs(name)) is not None:
                texts = _cost_texts(costs)
            else:
                continue
            if texts:
                yield definition, ", ".join(texts)
            break


def _cost_texts(costs: dict[str, CostRange] | None) -> list[str]:
    """Return the costs with their units, such as "1.2M parameters"; an empty list for None."""
    words = {"params": "parameters", "macs": "MACs"}
    return [f"{format_range(costs[name])} {words[name]}" for name in _COSTS] if costs is not None else []


def format_range(cost_range: CostRange) -> str:
    """Format a range of a cost, rounded: `1.2M`, or `800K to 1.2M`."""
    least, greatest = amount(cost_range.least), amount(cost_range.greatest)
    return least if least == greatest else f"{least} to {greatest}"


def _tensor_types(nets_of_text: list[Net], span: Span) -> list[str]:
    """Return the distinct tensor types that a syntax node has in the nets."""
    types = [text for net in nets_of_text for text in net.values.get((span.start, span.end), []) if "[" in text]
    return list(dict.fromkeys(types))


def _merge_types(types: list[str]) -> str:
    """Merge types into one text; differing sizes are separated by `|`, as in `f32[8|16, 32, 32]`."""
    heads = {type_text.partition("[")[0] for type_text in types}
    dims = [type_text.partition("[")[2].rstrip("]").split(", ") for type_text in types]
    if len(heads) == 1 and len({len(type_text) for type_text in dims}) == 1:
        merged = ["|".join(list(dict.fromkeys(axis))[:4]) for axis in zip(*dims, strict=True)]
        return f"{heads.pop()}[{', '.join(merged)}]"
    return " or ".join(types[:3])


def describe_choice(choice: Choice) -> str:
    """Return a line with the path of a choice and its alternatives."""
    names = ", ".join(map(str, choice.alternatives[:12])) + (", ..." if len(choice.alternatives) > 12 else "")
    subset = f"{choice.k} of " if choice.k is not None else ""
    return f"`{choice.path}`: {subset}{names}"
