"""Types of nodes: the rules of the operations, lifted over everything that depends on choices."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from math import prod
from weakref import WeakKeyDictionary

from archir.diagnostics.errors import RuleError, Span
from archir.diagnostics.work import WorkError, spend
from archir.diagrams.cases import MOST_KNOWN, Choice, Value, case, first, keys, leaves, same, support, varies, when
from archir.diagrams.conditions import Restriction, both, outcomes, restrict, switch
from archir.diagrams.lifting import CaseError, Excluded, lift
from archir.diagrams.symbols import AskError, Symbol, is_long, value_of
from archir.ir.graph import Graph, NodeId
from archir.ir.needs import Needs, needs
from archir.ir.op import OPS, Op
from archir.ir.structure import Input, Select, merge
from archir.ir.types import AXES, TensorType

Types = Mapping[NodeId, TensorType]

MOST_LISTED = 4_096
"""Combinations of choices that are listed, whatever they are."""
AN_OPERAND = 15
"""Units of work of a rule, for each operand and the result."""
LOOKED_UP = "things are looked up by integers: `tokens |> embedding(vocabulary, channels)`, `gather(x, positions)`"
MOST_ELEMENTS = 2**63 - 1
"""Numbers of one tensor: what is larger has no size in any backend."""


class NodeError(RuleError):
    """A rule refused a node; `combination` says for which choices (empty: for all)."""

    def __init__(self, number: NodeId, error: RuleError, span: Span | None = None) -> None:
        super().__init__(f"%{number}: {error.message}", error.hint, error.code, error.span or span)
        self.number, self.error = number, error
        self.combination = error.combination if isinstance(error, CaseError) else ""
        self.notes = (error.note(),) if isinstance(error, CaseError) and error.assignment else ()


def lifted(
    rule: Callable[..., Value],
    op: Op,
    types: Sequence[TensorType],
    under: Value = True,
    given: Sequence[Value] = (),
    told: Callable[[Value], Value] | None = None,
    most: int | None = None,
) -> Value:
    """`rule(op, *types)` for every reachable combination of what the attributes and dimensions depend on.

    What it refuses does not count where the conditions `given` rule it out (see `archir.diagrams.lifting`). With
    `told`, which takes the symbols out of a result, long ranges of integers are not listed, unless the rule asks, or
    there are at most `most` combinations.
    Raises CaseError (some combination is refused) or RuleError (all are).
    """
    attributes = op.varied
    parts: list[Value] = [part for x in types for part in (x.kind, *x.dims)]
    varied = [i for i, part in enumerate(parts) if varies(part)]
    if not attributes and not varied:
        spend(AN_OPERAND * (1 + len(types)))
        return lift(lambda: rule(op, *types), under=under, given=given)

    known: dict[Hashable, Value] = {}
    usual = op.attributes()

    def plain(*values: Value) -> Value:
        name = keys(values)
        if name not in known:
            known[name] = concretely(values)
        return known[name]

    def concretely(values: Sequence[Value]) -> Value:
        spend(AN_OPERAND * (1 + len(types)))
        concrete = type(op)(**{**usual, **dict(zip(attributes, values, strict=False))}) if attributes else op
        plainly = list(parts)
        for i, value in zip(varied, values[len(attributes) :], strict=True):
            plainly[i] = value
        rest = iter(plainly)
        return rule(
            concrete,
            *[
                TensorType(kind=next(rest), dims=tuple(islice(rest, x.rank)), dtype=x.dtype, below=x.below)
                for x in types
            ],
        )

    values = [*attributes.values(), *(parts[i] for i in varied)]
    most = MOST_LISTED if most is None else most
    if told is not None and prod(choice.outcomes for choice in support(*values)) > most:
        return _unlisted(plain, told, values, under, given)
    return lift(plain, *values, under=under, given=given)


def _unlisted(
    rule: Callable[..., Value],
    told: Callable[[Value], Value],
    values: Sequence[Value],
    under: Value,
    given: Sequence[Value],
) -> Value:
    """A rule lifted with symbols for long ranges of integers, as far as it does not ask for them."""
    symbols = {value: Symbol.of(value) for value in values if varies(value) and is_long(value)}
    while symbols:
        listed = [value for value in values if value not in symbols]
        partly = partial(_partly, rule, told, values, symbols)
        try:
            return lift(partly, *listed, under=under, given=given)
        except AskError as ask:
            asked = set(support(*ask.values))
            symbols = {value: s for value, s in symbols.items() if asked.isdisjoint(support(value))}
        except RuleError:
            break
    if symbols:  # the rule refuses whatever they are: it says so of the first, if at all
        first = under
        for choice in support(*symbols):
            first = both(first, when(choice, [min(outcomes(choice, first))]))
        lift(rule, *values, under=first, given=given)
    return lift(rule, *values, under=under, given=given)


def _partly(
    rule: Callable[..., Value],
    told: Callable[[Value], Value],
    values: Sequence[Value],
    symbols: Mapping[Value, Symbol],
    *listed: Value,
) -> Value:
    rest = iter(listed)
    return told(rule(*(symbols[value] if value in symbols else next(rest) for value in values)))


def infer_op(
    op: Op,
    types: Sequence[TensorType],
    under: Value = True,
    choice: Choice | None = None,
    given: Sequence[Value] = (),
) -> TensorType:
    """The type of a node's result, which may depend on choices. `choice` is that of a `select`."""
    if isinstance(op, Select):
        assert choice is not None
        return _select(op, choice, types, under)
    numbers: dict[TensorType, int] = {}  # diagrams of numbers take half the time that those of types do

    def number(op: Op, *types: TensorType) -> int:
        return numbers.setdefault(_listed(_infer(op, *types), under), len(numbers))

    result = lifted(number, op, types, under, given, told=lambda leaf: leaf)
    return _whole(result, list(numbers), under, given)


def _of_other_rank(op: Op, types: Sequence[TensorType]) -> str | None:
    """A hint to the operation for operands of this rank, such as `conv1d` in place of `conv`."""
    plain = op.name.removesuffix("1d").removesuffix("3d")
    if not types:
        return None
    given = {name: value[0] if isinstance(value, tuple) and value else value for name, value in vars(op).items()}
    for name in (plain, f"{plain}1d", f"{plain}3d"):
        if name == op.name or not OPS.here(name) or types[0].rank - 1 not in AXES:
            continue
        try:
            OPS[name](**given).infer(*types)
        except (RuleError, AskError):
            continue
        return f"`{name}` takes {AXES[types[0].rank - 1]}"
    return None


def _whole(number: Value, types: Sequence[TensorType], under: Value, given: Sequence[Value]) -> TensorType:
    """One type for all of those that the number may be of. RuleError if their ranks or element types differ."""
    if not varies(number):
        plain: TensorType = types[number]
        return plain
    try:
        merge([types[i] for i in leaves(number)])
    except RuleError:  # once more, for the combination; or what is given rules it out
        one = types[first(number)]

        def merging(i: int) -> int:
            merge([one, types[i]])
            return i

        number = lift(merging, number, under=under, given=given)
    return joined_type(number, types.__getitem__)


def _infer(op: Op, *types: TensorType) -> TensorType:
    if not op.any_kind:
        for x in types:
            if x.kind != "feature":
                raise RuleError(f"expected a feature, got {x}", "`calibrate` takes gates and kernels", "A0407")
    if not op.any_element:
        for x in types:
            if not x.numeric:
                raise RuleError(f"expected floating-point numbers, got {x}", LOOKED_UP, "A0408")
    try:
        result = op.infer(*types)
    except RuleError as error:
        if error.hint is None and (hint := _of_other_rank(op, types)) is not None:
            raise RuleError(error.message, hint, error.code, error.span) from None
        raise
    if not all(isinstance(dim, int | Symbol) for dim in result.dims):
        hint = "`infer` divides with `//`, or refuses what does not divide"
        raise RuleError(f"the type of the result is {result}, and dimensions are whole numbers", hint)
    if result.elements > MOST_ELEMENTS:
        raise RuleError(f"a tensor of more than {MOST_ELEMENTS} numbers", code="A0402")
    return result


def _listed(x: TensorType, under: Value) -> TensorType:
    """A type with the values that its symbols stand for."""
    if not any(isinstance(dim, Symbol) for dim in x.dims):
        return x
    return replace(x, dims=tuple(restrict(value_of(dim), under) for dim in x.dims))


def _select(op: Select, choice: Choice, types: Sequence[TensorType], under: Value) -> TensorType:
    merge(list(types))
    possible = outcomes(choice, under)
    reached = [i in possible for i in range(choice.outcomes)]

    def joined(parts: Sequence[Value]) -> Value:
        return restrict(_by(choice, [parts[position] for position in op.cases], reached), under)

    dims = tuple(joined([x.dims[axis] for x in types]) for axis in range(types[0].rank))
    return TensorType(dims, types[0].dtype, joined([x.kind for x in types]))


def _by(choice: Choice, branches: list[Value], reached: list[bool]) -> Value:
    """The branch of the choice's outcome; branches may depend on any choices."""
    if not any(varies(branch) for branch in branches):
        usual = branches[reached.index(True)] if True in reached else branches[0]
        return case(choice, [b if ok else usual for b, ok in zip(branches, reached, strict=True)])
    return _switched(choice, tuple(branches))


@lru_cache(MOST_KNOWN)
def _switched(choice: Choice, sizes: tuple[Value, ...]) -> Value:
    """What alternatives join to, of which there are many like each other."""
    return switch(choice, sizes)


def infer(graph: Graph) -> dict[NodeId, TensorType]:
    """The type of every node that is needed. Raises NodeError at the first node whose rule refuses.

    What constraints rule out does not count; a node that is needed under such conditions only has no type.
    Networks repeat themselves: what is known of an operation on operands of some types is not worked out again.
    """
    needed = needs(graph)
    if graph in _proved and _proved[graph].told == len(graph):
        return _restricted(_proved[graph], graph, needed)
    try:
        return inferred(graph, needed)
    except NodeError as refusal:
        if refusal.number not in needed.loose:
            raise
    return inferred(graph, needs(graph, patiently=True))


class Typing(dict[NodeId, TensorType]):
    """Types of nodes, some of which are worked out only when they are asked for: of many, nobody does."""

    def __init__(self) -> None:
        super().__init__()
        self._later: dict[NodeId, Callable[[], TensorType]] = {}

    def later(self, number: NodeId, find: Callable[[], TensorType]) -> None:
        """Say how to find the type of a node."""
        self._later[number] = find

    def __missing__(self, number: NodeId) -> TensorType:
        found = self[number] = self._later.pop(number)()
        return found

    def like(self, number: NodeId, other: Typing, before: NodeId) -> None:
        """Say that a node has the type that another one has there."""
        if before in other:
            self[number] = other[before]
        else:
            self.later(number, partial(other.__getitem__, before))

    @property
    def told(self) -> int:
        """Of how many nodes the type is known, or how to find it."""
        return len(self) + len(self._later)


def joined_type(value: Value, typed: Callable[[Value], TensorType]) -> TensorType:
    """The type of what choices pick, whose leaves stand for types of one rank and element type."""
    found = [typed(leaf) for leaf in leaves(value)]
    first = found[0]
    if all(one is first or one == first for one in found):
        return first

    def part(*parts: Value) -> Value:
        return parts[0] if all(same(parts[0], other) for other in parts) else _joined(value, parts)

    dims = tuple(map(part, *(one.dims for one in found)))
    return TensorType(dims, first.dtype, part(*(one.kind for one in found)))


@lru_cache(MOST_KNOWN)
def _joined(value: Value, parts: tuple[Value, ...]) -> Value:
    """A value with parts for its leaves, in their order: nodes that repeat join the same, as height and width do."""
    return lift(dict(zip(leaves(value), parts, strict=True)).__getitem__, value)


_proved: WeakKeyDictionary[Graph, Typing] = WeakKeyDictionary()


def prove(graph: Graph, types: Typing) -> None:
    """Say the types of all nodes of a graph, as they were found when it was made: they are not inferred again."""
    _proved[graph] = types


def hand_on(graph: Graph, copy: Graph, moved: Mapping[NodeId, NodeId]) -> None:
    """What was said of a graph's types holds for a copy of some of its nodes that read what they read before."""
    if graph in _proved and _proved[graph].told == len(graph):
        _proved[copy] = Typing()
        for before, number in moved.items():
            _proved[copy].like(number, _proved[graph], before)


def _restricted(types: Types, graph: Graph, needed: Needs) -> dict[NodeId, TensorType]:
    """The types of the nodes that are needed, as simple as they are there."""
    found: dict[NodeId, TensorType] = {}
    restriction = Restriction()
    known: dict[tuple[TensorType, Value], TensorType] = {}
    for number in graph:
        if number in needed or isinstance(graph[number].op, Input):
            type_, under = types[number], needed.get(number, True)
            if type_.varied and (type_, under) not in known:
                dims = tuple([restriction.of(dim, under) for dim in type_.dims])
                known[type_, under] = TensorType(dims, type_.dtype, restriction.of(type_.kind, under))
            found[number] = known[type_, under] if type_.varied else type_
    return found


def inferred(graph: Graph, needed: Needs) -> dict[NodeId, TensorType]:
    """The types of nodes where these conditions hold. Raises NodeError, and WorkError."""
    types: dict[NodeId, TensorType] = {}
    known: dict[tuple[Op, tuple[TensorType, ...], Value], TensorType] = {}
    given = graph.given
    for number in graph:
        op = graph[number].op
        if number not in needed and not isinstance(op, Input):
            continue
        unknown = [operand for operand in graph.operands(number) if operand not in types]
        if unknown and not isinstance(op, Select):
            continue
        question = op, tuple(_operands(graph, number, types)), needed.get(number, True)
        if question not in known:
            choice = graph.decisions[op.choice].choice if isinstance(op, Select) else None
            try:
                known[question] = infer_op(*question, choice, given)
            except Excluded:
                continue
            except WorkError:
                raise
            except RuleError as error:
                refusal = _untold(error) if number in needed.loose else error
                raise NodeError(number, refusal, graph[number].span) from None
        types[number] = known[question]
    return types


def _untold(refusal: RuleError) -> RuleError:
    """What to say of a refusal where a node may not be needed."""
    message = f"whether this is needed depends on too many choices at once to be told; if it is: {refusal.message}"
    return RuleError(message, refusal.hint, "A0605")


def _operands(graph: Graph, number: NodeId, types: Types) -> list[TensorType]:
    """The operands' types; one that is never read (an alternative that is never chosen) has that of any other."""
    operands = graph.operands(number)
    known = [types[operand] for operand in operands if operand in types]
    return [types.get(operand, known[0]) for operand in operands]
