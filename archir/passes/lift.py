"""Lifting: turns choices of attribute values into choices among operations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from archir.diagnostics.errors import fail
from archir.diagrams.conditions import conjoin
from archir.diagrams.diagram import Choice, Value, fix_choice, outcome_in, support
from archir.ir.graph import Graph, Node, NodeId
from archir.ir.reachability import reachability_conditions
from archir.ir.structure import Select
from archir.ir.verify import checked_types, has_parameters
from archir.ops.calibration import Calibrate
from archir.passes.prune import prune

MAX_VERSIONS = 256
"""Maximum number of versions of one operation, which is the number of combinations of the choices it depends on."""

Assignment = tuple[int, ...]
"""Outcomes of several choices, in the order of the choices in the program."""


def lift(graph: Graph, paths: Collection[str] | None = None) -> Graph:
    """Replace choices of values by choices among tensors.

    An operation that depends on a choice gets one version per outcome.

    `%1 = conv(%0, kernel=case(k: 3, 5))` -> `%1 = conv(%0, kernel=3); %2 = conv(%0, kernel=5); %3 = select(%1, %2) by
    k`. Versions do not share weights: `conv` becomes `conv.k_3` and `conv.k_5`. If a choice changes shapes, all further
    operations get versions, up to the first one whose result does not depend on the choice. `paths` are the choices to
    lift; by default, all. Raises ArchError (A2002) if an operation would have too many versions.
    """
    graph = prune(graph)
    return _Lifting(graph, set(graph.decisions if paths is None else paths)).result()


@dataclass
class _Versions:
    """The new nodes that replace one old node.

    There is one for each combination of outcomes of the choices that its type depends on.
    """

    choices: list[Choice]
    nodes: dict[Assignment, NodeId] = field(default_factory=dict)


class _Lifting:
    """One run of `lift`: the old graph, and the new graph under construction."""

    def __init__(self, graph: Graph, paths: set[str]) -> None:
        self.graph, self.paths = graph, paths
        self.out = graph.empty_copy()
        self.types, self.needed = checked_types(graph), reachability_conditions(graph)
        self.mixed = _mixed_type_nodes(graph)
        self.versions: dict[NodeId, _Versions] = {}

    def result(self) -> Graph:
        """Return the lifted graph. Raises ArchError (A2002, A2003)."""
        for number in self.graph:
            self.versions[number] = self._add_versions(number)
        for name, number in self.graph.outputs.items():
            if self.versions[number].choices:
                paths = ", ".join(f"`{choice.path}`" for choice in self.versions[number].choices)
                raise fail("A2003", f"the shape of the output `{name}` depends on {paths}", self.graph[number].span)
            self.out.outputs[name] = self.versions[number].nodes[()]
        return prune(self.out)

    def _lifted_choices(self, *values: Value) -> set[Choice]:
        """Return those of the choices to lift on which the values depend."""
        return {choice for choice in support(*values) if choice.path in self.paths}

    def _add_versions(self, number: NodeId) -> _Versions:
        """Append all versions of a node, and `select` nodes for the choices on which its type does not depend."""
        node, operands = self.graph[number], self.graph.operands(number)
        type_ = self.types.get(number)
        type_choices = (
            sorted(self._lifted_choices(*type_.dims), key=_order) if type_ and number not in self.mixed else []
        )
        all_choices = self._lifted_choices(*node.op.varying_attributes.values()).union(
            *(self.versions[o].choices for o in operands), type_choices
        )
        choices = sorted(all_choices, key=_order)
        nodes: dict[Assignment, NodeId] = {}
        for outcomes in self._combinations(number, choices):
            if len(nodes) == MAX_VERSIONS:
                names = ", ".join(f"`{choice.path}`" for choice in choices)
                message = f"`{node.op.name}` depends on {names}: it would need more than {MAX_VERSIONS} versions"
                raise fail("A2002", message, node.span, "relax fewer of these choices at once")
            nodes[tuple(outcomes.values())] = self._add_version(node, operands, outcomes)
        result = _Versions(type_choices)
        for outcomes in self._combinations(number, type_choices):
            joined = self._select_versions(number, choices, outcomes, nodes)
            if joined is not None:
                result.nodes[tuple(outcomes.values())] = joined
        return result

    def _combinations(self, number: NodeId, choices: list[Choice]) -> Iterator[dict[Choice, int]]:
        """Yield each combination of outcomes of the choices for which a node is needed; inactive choices have outcome
        0."""

        def walk(outcomes: dict[Choice, int], condition: Value) -> Iterator[dict[Choice, int]]:
            if condition is False:
                return
            if len(outcomes) == len(choices):
                yield outcomes
                return
            choice = choices[len(outcomes)]
            for outcome in range(choice.outcome_count if self._active(choice, outcomes) else 1):
                yield from walk({**outcomes, choice: outcome}, conjoin(condition, outcome_in(choice, [outcome])))

        yield from walk({}, self.needed.get(number, True))

    def _active(self, choice: Choice, outcomes: Mapping[Choice, int]) -> bool:
        """Return whether a choice can be active if other choices have these outcomes."""
        return _fix_all(self.graph.decisions[choice.path].active, outcomes) is not False

    def _version_of(self, operand: NodeId, outcomes: Mapping[Choice, int]) -> NodeId | None:
        """Return the version of an operand for these outcomes; None if there is no such version."""
        assignment: dict[Choice, int] = {}
        for choice in self.versions[operand].choices:
            assignment[choice] = outcomes[choice] if self._active(choice, assignment) else 0
        return self.versions[operand].nodes.get(tuple(assignment.values()))

    def _add_version(self, node: Node, operands: tuple[NodeId, ...], outcomes: Mapping[Choice, int]) -> NodeId:
        """Append the version of a node for these outcomes, and return it."""
        versions = [self._version_of(operand, outcomes) for operand in operands]
        op = node.op
        if isinstance(op, Select):
            outcome = next((o for choice, o in outcomes.items() if choice.path == op.choice), None)
            if outcome is not None and (chosen := versions[op.cases[outcome]]) is not None:
                return chosen
            return self._add_select(node, op.choice, [versions[case] for case in op.cases])
        sources = [source for source in versions if source is not None]
        assert len(sources) == len(operands), "a needed node must have all operands"
        if op.varying_attributes and outcomes:
            op = replace(op, **{name: _fix_all(value, outcomes) for name, value in op.varying_attributes.items()})
        scope = node.scope
        if outcomes and scope and has_parameters(node.op, [self.types[operand] for operand in operands]):
            labels = [
                f"{_last_name(choice.path)}_{_outcome_label(choice, outcome)}" for choice, outcome in outcomes.items()
            ]
            scope = ".".join([scope, *labels])
        return self.out.add(Node(op, node.span, scope), *sources)

    def _select_versions(
        self, number: NodeId, choices: list[Choice], outcomes: dict[Choice, int], nodes: Mapping[Assignment, NodeId]
    ) -> NodeId | None:
        """Append `select` nodes among the versions, by the choices that `outcomes` does not fix.

        Returns the last `select` node; None if there is no version for these outcomes.
        """
        open_choice = next((choice for choice in choices if choice not in outcomes), None)
        if open_choice is None:
            return nodes.get(tuple(outcomes[choice] for choice in choices))
        branches = [
            self._select_versions(number, choices, {**outcomes, open_choice: outcome}, nodes)
            for outcome in range(open_choice.outcome_count)
        ]
        if all(branch is None for branch in branches):
            return None
        return self._add_select(self.graph[number], open_choice.path, branches)

    def _add_select(self, node: Node, path: str, branches: list[NodeId | None]) -> NodeId:
        """Append a `select` among branches.

        A missing branch (None) cannot be selected, and any other one takes its place.
        """
        distinct = list(dict.fromkeys(branch for branch in branches if branch is not None))
        if len(distinct) == 1:
            return distinct[0]
        cases = tuple(distinct.index(branch) if branch is not None else 0 for branch in branches)
        return self.out.add(Node(Select(path, cases), node.span, path), *distinct)


def _mixed_type_nodes(graph: Graph) -> set[NodeId]:
    """Return the nodes whose consumers all accept operands of several kinds and shapes, as `calibrate` does.

    The consumers may read a node through `select` nodes.
    """
    mixed: set[NodeId] = set()
    for number in reversed(list(graph)):
        readers = graph.consumers(number)
        fits = bool(readers) and number not in graph.outputs.values()
        for reader in readers:
            accepts = isinstance(graph[reader].op, Calibrate) and graph.operands(reader)[0] != number
            fits = fits and (accepts or (isinstance(graph[reader].op, Select) and reader in mixed))
        if fits:
            mixed.add(number)
    return mixed


def _fix_all(value: Value, outcomes: Mapping[Choice, int]) -> Value:
    """Return a value with these choices fixed to these outcomes."""
    for choice, outcome in outcomes.items():
        value = fix_choice(value, choice, outcome)
    return value


def _order(choice: Choice) -> int:
    """Sort key of choices: their order of creation in the program."""
    return choice.order


def _last_name(path: str) -> str:
    """Return the last component of a path: `stage[2].kernel` -> `kernel`."""
    return path.rpartition(".")[2].replace("[", "_").replace("]", "")


def _outcome_label(choice: Choice, outcome: int) -> str:
    """Return an outcome's label for use in a scope; characters other than letters and digits are replaced by `_`."""
    label = choice.label(outcome)
    return re.sub(r"\W", "_", "_".join(map(str, label)) if isinstance(label, list) else str(label))
