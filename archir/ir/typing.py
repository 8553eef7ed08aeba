"""Type inference: applies the `infer` rules of operations, lifted over values that depend on choices."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from math import prod
from weakref import WeakKeyDictionary

from archir.diagnostics.errors import RuleError, Span
from archir.diagnostics.work import WorkError, spend
from archir.diagrams.conditions import Restrictor, conjoin, possible_outcomes, restrict, switch
from archir.diagrams.diagram import (
    MAX_CACHED,
    Choice,
    Value,
    first_leaf,
    leaves,
    make_diagram,
    outcome_in,
    same,
    support,
    tuple_key,
    varies,
)
from archir.diagrams.lifting import CombinationError, Excluded, lift
from archir.diagrams.symbols import SymbolicInt, ValueNeededError, concrete_value, is_long_range
from archir.ir.graph import Graph, NodeId
from archir.ir.op import OPS, Op
from archir.ir.reachability import Reachability, reachability_conditions, reachability_state
from archir.ir.structure import Input, Select, require_mergeable
from archir.ir.types import AXES_NAMES, TensorType

Types = Mapping[NodeId, TensorType]
"""Types by node number."""

MAX_LISTED = 4_096
"""Maximum number of combinations of choices for which a rule is run once for each combination.

If there are more combinations, the rule is run on symbolic integers where possible.
"""
OPERAND_WORK = 15
"""Work units that one call of a rule costs for each operand and for the result."""
INTEGER_HINT = "things are looked up by integers: `tokens |> embedding(vocabulary, channels)`, `gather(x, positions)`"
"""Hint of the error about an integer tensor where a floating-point one is expected."""
MAX_ELEMENTS = 2**63 - 1
"""Maximum number of elements of a tensor; backends cannot represent the size of larger ones."""


class NodeError(RuleError):
    """A rule failed at a node.

    `combination` has the outcomes for which the rule fails; it is empty if the rule fails in all architectures.
    """

    def __init__(self, number: NodeId, error: RuleError, span: Span | None = None) -> None:
        super().__init__(f"%{number}: {error.message}", error.hint, error.code, error.span or span)
        self.number, self.error = number, error
        self.combination = error.combination if isinstance(error, CombinationError) else ""
        self.notes = (error.note(),) if isinstance(error, CombinationError) and error.assignment else ()


def lift_rule(
    rule: Callable[..., Value],
    op: Op,
    types: Sequence[TensorType],
    under: Value = True,
    assumptions: Sequence[Value] = (),
    resolve: Callable[[Value], Value] | None = None,
    max_combinations: int | None = None,
) -> Value:
    """Compute `rule(op, *types)` for each reachable combination of choices that attributes and types depend on.

    Failures for combinations that `assumptions` exclude are ignored (see `archir.diagrams.lifting`). With `resolve`,
    the rule is called with symbolic integers for long ranges of integers, and `resolve` replaces the symbolic integers
    in the rule's result by their values. The rule is still called for each single value if it needs the value, or if
    there are at most `max_combinations` combinations. Raises CombinationError if the rule fails for some combinations,
    and RuleError if it fails for all.
    """
    attributes = op.varying_attributes
    parts: list[Value] = [part for x in types for part in (x.kind, *x.dims)]
    varied = [i for i, part in enumerate(parts) if varies(part)]
    if not attributes and not varied:
        spend(OPERAND_WORK * (1 + len(types)))
        return lift(lambda: rule(op, *types), under=under, assumptions=assumptions)

    memo: dict[Hashable, Value] = {}
    defaults = op.attributes()

    def plain(*values: Value) -> Value:
        values_key = tuple_key(values)
        if values_key not in memo:
            memo[values_key] = concretely(values)
        return memo[values_key]

    def concretely(values: Sequence[Value]) -> Value:
        spend(OPERAND_WORK * (1 + len(types)))
        concrete = type(op)(**{**defaults, **dict(zip(attributes, values, strict=False))}) if attributes else op
        concrete_parts = list(parts)
        for i, value in zip(varied, values[len(attributes) :], strict=True):
            concrete_parts[i] = value
        remaining = iter(concrete_parts)
        return rule(
            concrete,
            *[
                TensorType(
                    kind=next(remaining),
                    dims=tuple(islice(remaining, x.rank)),
                    dtype=x.dtype,
                    integer_limit=x.integer_limit,
                )
                for x in types
            ],
        )

    values = [*attributes.values(), *(parts[i] for i in varied)]
    max_combinations = MAX_LISTED if max_combinations is None else max_combinations
    if resolve is not None and prod(choice.outcome_count for choice in support(*values)) > max_combinations:
        return _lift_symbolic(plain, resolve, values, under, assumptions)
    return lift(plain, *values, under=under, assumptions=assumptions)


def _lift_symbolic(
    rule: Callable[..., Value],
    resolve: Callable[[Value], Value],
    values: Sequence[Value],
    under: Value,
    assumptions: Sequence[Value],
) -> Value:
    """Lift a rule with symbolic integers for long ranges, as far as the rule does not need their values.

    For all other values that depend on choices, the rule is run once for each combination.
    """
    symbols = {value: SymbolicInt.of(value) for value in values if varies(value) and is_long_range(value)}
    while symbols:
        listed = [value for value in values if value not in symbols]
        symbolic_rule = partial(_apply_symbolic, rule, resolve, values, symbols)
        try:
            return lift(symbolic_rule, *listed, under=under, assumptions=assumptions)
        except ValueNeededError as needed:
            needed_choices = set(support(*needed.variables))
            symbols = {value: s for value, s in symbols.items() if needed_choices.isdisjoint(support(value))}
        except RuleError:
            break
    if symbols:  # the rule fails for symbolic integers: try the smallest outcomes, to report that combination
        sample = under
        for choice in support(*symbols):
            sample = conjoin(sample, outcome_in(choice, [min(possible_outcomes(choice, sample))]))
        lift(rule, *values, under=sample, assumptions=assumptions)
    return lift(rule, *values, under=under, assumptions=assumptions)


def _apply_symbolic(
    rule: Callable[..., Value],
    resolve: Callable[[Value], Value],
    values: Sequence[Value],
    symbols: Mapping[Value, SymbolicInt],
    *listed: Value,
) -> Value:
    """Apply a rule to the symbolic integers `symbols`, and to plain values `listed` in place of the others."""
    remaining = iter(listed)
    return resolve(rule(*(symbols[value] if value in symbols else next(remaining) for value in values)))


def infer_op(
    op: Op,
    types: Sequence[TensorType],
    under: Value = True,
    choice: Choice | None = None,
    assumptions: Sequence[Value] = (),
) -> TensorType:
    """Return the type of an operation's result, which may depend on choices; `choice` is the choice of a `select`."""
    if isinstance(op, Select):
        assert choice is not None
        return _select(op, choice, types, under)
    numbers: dict[TensorType, int] = {}  # types are numbered: diagrams of integers are twice as fast as those of types

    def number(op: Op, *types: TensorType) -> int:
        return numbers.setdefault(_concrete_dims(_infer(op, *types), under), len(numbers))

    result = lift_rule(number, op, types, under, assumptions, resolve=lambda leaf: leaf)
    return _unify_types(result, list(numbers), under, assumptions)


def _other_rank_hint(op: Op, types: Sequence[TensorType]) -> str | None:
    """Return a hint that names the operation for operands of this rank, such as `conv1d` instead of `conv`.

    Returns None if there is no such operation.
    """
    base_name = op.name.removesuffix("1d").removesuffix("3d")
    if not types:
        return None
    attributes = {name: value[0] if isinstance(value, tuple) and value else value for name, value in vars(op).items()}
    for name in (base_name, f"{base_name}1d", f"{base_name}3d"):
        if name == op.name or name not in OPS or types[0].rank - 1 not in AXES_NAMES:
            continue
        try:
            OPS[name](**attributes).infer(*types)
        except (RuleError, ValueNeededError):
            continue
        return f"`{name}` takes {AXES_NAMES[types[0].rank - 1]}"
    return None


def _unify_types(number: Value, types: Sequence[TensorType], under: Value, assumptions: Sequence[Value]) -> TensorType:
    """Return the single type that stands for all types of a node, whose index in `types` depends on choices.

    `number` is the diagram of these indices; dimensions and kind of the result depend on the same choices. Raises
    RuleError (A0403) if the types differ in rank or element type.
    """
    if not varies(number):
        plain: TensorType = types[number]
        return plain
    try:
        require_mergeable([types[i] for i in leaves(number)])
    except RuleError:  # lifted, to name the combination, or to ignore one that assumptions exclude
        reference = types[first_leaf(number)]

        def merging(i: int) -> int:
            require_mergeable([reference, types[i]])
            return i

        number = lift(merging, number, under=under, assumptions=assumptions)
    return join_types(number, types.__getitem__)


def _infer(op: Op, *types: TensorType) -> TensorType:
    """Check kinds and element types of the operands, call the operation's `infer` rule and check its result."""
    if not op.any_kind:
        for x in types:
            if x.kind != "feature":
                raise RuleError(f"expected a feature, got {x}", "`calibrate` takes gates and kernels", "A0407")
    if not op.any_element:
        for x in types:
            if not x.is_floating:
                raise RuleError(f"expected floating-point numbers, got {x}", INTEGER_HINT, "A0408")
    try:
        result = op.infer(*types)
    except RuleError as error:
        if error.hint is None and (hint := _other_rank_hint(op, types)) is not None:
            raise RuleError(error.message, hint, error.code, error.span) from None
        raise
    if not all(isinstance(dim, int | SymbolicInt) for dim in result.dims):
        hint = "in `infer`, divide with `//`, or `require` that the number is divisible"
        raise RuleError(f"the type of the result is {result}, and dimensions are whole numbers", hint)
    if result.elements > MAX_ELEMENTS:
        raise RuleError(f"a tensor of more than {MAX_ELEMENTS} numbers", code="A0402")
    return result


def _concrete_dims(x: TensorType, under: Value) -> TensorType:
    """Return a type in which each symbolic integer is replaced by the diagram of its value."""
    if not any(isinstance(dim, SymbolicInt) for dim in x.dims):
        return x
    return replace(x, dims=tuple(restrict(concrete_value(dim), under) for dim in x.dims))


def _select(op: Select, choice: Choice, types: Sequence[TensorType], under: Value) -> TensorType:
    """Return the type of a `select`.

    Where dimensions or kinds of the alternatives differ, they depend on the choice.
    """
    require_mergeable(list(types))
    possible = possible_outcomes(choice, under)
    reached = [i in possible for i in range(choice.outcome_count)]

    def joined(parts: Sequence[Value]) -> Value:
        return restrict(_branch_by_outcome(choice, [parts[position] for position in op.cases], reached), under)

    dims = tuple(joined([x.dims[axis] for x in types]) for axis in range(types[0].rank))
    return TensorType(dims, types[0].dtype, joined([x.kind for x in types]))


def _branch_by_outcome(choice: Choice, branches: list[Value], reached: list[bool]) -> Value:
    """Return the value that is `branches[i]` for outcome i of the choice; branches may depend on any choices.

    `reached[i]` is False if outcome i is impossible; its branch may then be replaced by another one.
    """
    if not any(varies(branch) for branch in branches):
        filler = branches[reached.index(True)] if True in reached else branches[0]
        return make_diagram(choice, [b if ok else filler for b, ok in zip(branches, reached, strict=True)])
    return _cached_switch(choice, tuple(branches))


@lru_cache(MAX_CACHED)
def _cached_switch(choice: Choice, sizes: tuple[Value, ...]) -> Value:
    """Return `switch(choice, sizes)`, cached, since many alternatives have the same sizes."""
    return switch(choice, sizes)


_inferred: WeakKeyDictionary[Graph, tuple[Hashable, Types]] = WeakKeyDictionary()
"""Cache of inferred types by graph, each with the state of the graph for which they are valid."""


def infer(graph: Graph) -> Types:
    """Infer the types of all nodes that are needed (cached by graph).

    Raises NodeError at the first node whose rule fails. Failures that the constraints exclude are ignored. A node that
    is needed only in excluded combinations gets no type. Results are also cached by operation and operand types, since
    networks repeat their layers.
    """
    state = reachability_state(graph), *graph.assumptions
    cached = _inferred.get(graph)
    if cached is None or cached[0] != state:
        cached = _inferred[graph] = state, _infer_needed(graph)
    return cached[1]


def _infer_needed(graph: Graph) -> Types:
    """Infer the types of all nodes that are needed.

    If types were recorded while the graph was built, the recorded types are simplified instead.
    """
    needed = reachability_conditions(graph)
    if graph in _recorded and _recorded[graph].covered == len(graph):
        return _restrict_types(_recorded[graph], graph, needed)
    try:
        return infer_reachable(graph, needed)
    except NodeError as refusal:
        if refusal.number not in needed.overapproximated:
            raise
    return infer_reachable(graph, reachability_conditions(graph, exact=True))


class LazyTypes(dict[NodeId, TensorType]):
    """Types of nodes, some computed on first access, because most types are never accessed."""

    def __init__(self) -> None:
        super().__init__()
        self._deferred: dict[NodeId, Callable[[], TensorType]] = {}
        """Functions that compute the types of nodes on first access."""

    def defer(self, number: NodeId, compute: Callable[[], TensorType]) -> None:
        """Set the function that computes the type of a node on first access."""
        self._deferred[number] = compute

    def __missing__(self, number: NodeId) -> TensorType:
        type_ = self[number] = self._deferred.pop(number)()
        return type_

    def alias(self, number: NodeId, other: LazyTypes, other_number: NodeId) -> None:
        """Give a node the same type as node `other_number` of another graph, whose types are `other`."""
        if other_number in other:
            self[number] = other[other_number]
        else:
            self.defer(number, partial(other.__getitem__, other_number))

    @property
    def covered(self) -> int:
        """Number of nodes whose type is known or has a function that computes it."""
        return len(self) + len(self._deferred)


def join_types(value: Value, type_of: Callable[[Value], TensorType]) -> TensorType:
    """Join the types of the leaves of `value` into one, whose dimensions and kind depend on choices.

    `type_of` maps a leaf to its type; all types must have the same rank and element type.
    """
    types = [type_of(leaf) for leaf in leaves(value)]
    first = types[0]
    if all(type_ is first or type_ == first for type_ in types):
        return first

    def part(*values: Value) -> Value:
        return values[0] if all(same(values[0], another) for another in values) else _join_parts(value, values)

    dims = tuple(map(part, *(type_.dims for type_ in types)))
    return TensorType(dims, first.dtype, part(*(type_.kind for type_ in types)))


@lru_cache(MAX_CACHED)
def _join_parts(value: Value, parts: tuple[Value, ...]) -> Value:
    """Return a value with its leaves replaced by `parts`, in order.

    The result is cached, because repeated nodes join the same parts, as do height and width.
    """
    return lift(dict(zip(leaves(value), parts, strict=True)).__getitem__, value)


_recorded: WeakKeyDictionary[Graph, LazyTypes] = WeakKeyDictionary()
"""Types that were recorded during the construction of a graph, by graph."""


def record_types(graph: Graph, types: LazyTypes) -> None:
    """Record the types of all nodes, found while the graph was built, so that `infer` can reuse them."""
    _recorded[graph] = types


def copy_types(graph: Graph, copy: Graph, new_numbers: Mapping[NodeId, NodeId]) -> None:
    """Record the types of a copied graph, taken from those recorded for the original.

    `new_numbers` maps nodes of the original to nodes of the copy that have the same operation and operands.
    """
    if graph in _recorded and _recorded[graph].covered == len(graph):
        _recorded[copy] = LazyTypes()
        for original, number in new_numbers.items():
            _recorded[copy].alias(number, _recorded[graph], original)


def _restrict_types(types: Types, graph: Graph, needed: Reachability) -> dict[NodeId, TensorType]:
    """Return the types of the needed nodes, each simplified under the condition under which its node is needed."""
    restricted: dict[NodeId, TensorType] = {}
    restriction = Restrictor()
    cache: dict[tuple[TensorType, Value], TensorType] = {}
    for number in graph:
        if number in needed or isinstance(graph[number].op, Input):
            type_, under = types[number], needed.get(number, True)
            if type_.is_varying and (type_, under) not in cache:
                dims = tuple([restriction.restrict(dim, under) for dim in type_.dims])
                cache[type_, under] = TensorType(dims, type_.dtype, restriction.restrict(type_.kind, under))
            restricted[number] = cache[type_, under] if type_.is_varying else type_
    return restricted


def infer_reachable(graph: Graph, needed: Reachability) -> dict[NodeId, TensorType]:
    """Infer the types of all nodes that have a condition in `needed`, each under that condition.

    Raises NodeError if a rule fails, and WorkError if the work budget is exhausted.
    """
    types: dict[NodeId, TensorType] = {}
    cache: dict[tuple[Op, tuple[TensorType, ...], Value], TensorType] = {}
    assumptions = graph.assumptions
    for number in graph:
        op = graph[number].op
        if number not in needed and not isinstance(op, Input):
            continue
        untyped = [operand for operand in graph.operands(number) if operand not in types]
        if untyped and not isinstance(op, Select):
            continue
        cache_key = op, tuple(_operand_types(graph, number, types)), needed.get(number, True)
        if cache_key not in cache:
            choice = graph.decisions[op.choice].choice if isinstance(op, Select) else None
            try:
                cache[cache_key] = infer_op(*cache_key, choice, assumptions)
            except Excluded:
                continue
            except WorkError:
                raise
            except RuleError as error:
                refusal = _undecided_error(error) if number in needed.overapproximated else error
                raise NodeError(number, refusal, graph[number].span) from None
        types[number] = cache[cache_key]
    return types


def _undecided_error(refusal: RuleError) -> RuleError:
    """Return the error (A0605) for a rule that fails at a node whose reachability is unknown."""
    message = (
        "could not decide within the limit on diagram sizes whether any architecture uses this; "
        f"if one does: {refusal.message}"
    )
    return RuleError(message, refusal.hint, "A0605")


def _operand_types(graph: Graph, number: NodeId, types: Types) -> list[TensorType]:
    """Return the types of a node's operands.

    An operand without a type, which is never selected, gets the type of another operand.
    """
    operands = graph.operands(number)
    operand_types = [types[operand] for operand in operands if operand in types]
    return [types.get(operand, operand_types[0]) for operand in operands]
