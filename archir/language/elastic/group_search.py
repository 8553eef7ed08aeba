"""Search for the largest valid set of choices in a program: starts with one choice per number.

Choices that the checker rejects are then merged or closed (reduced to the trained value). The search does not know why
widths must agree. The checker reports the smallest combination of choices that makes a network invalid. Two widths in
this combination are merged into one choice; a choice repeated in several scopes is made only once; a value that is
invalid on its own is dropped. In this way, the rules of all operations are respected, and the resulting space has no
errors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

from archir.diagnostics.errors import ArchError, Diagnostic, RuleError, Span, fail
from archir.diagrams.diagram import Choice, DiagramSizeError, Value, support, value_at
from archir.diagrams.lifting import CombinationError
from archir.ir.graph import Graph
from archir.ir.op import Op
from archir.ir.reachability import reachability_conditions
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.ir.typing import infer, lift_rule
from archir.language.elastic.choice_values import KINDS, Kind, Request
from archir.language.elastic.edit import EditedText, Group, edit
from archir.language.elastic.flow import Flow
from archir.language.elastic.operators import label_of, matches_scope, require_scope
from archir.language.elastic.sites import Site, inner_width

if TYPE_CHECKING:
    from archir.passes.sharing import Sharing

MAX_ROUNDS = 200
"""Maximum number of search rounds, each of which edits and checks the program."""
MIN_ROUNDS, MAX_NODES = 10, 60_000
"""Number of rounds that are always allowed, and limit on the total number of nodes that all rounds check."""


class GroupSearch:
    """Searches for groups of sites that can become choices; `build` elaborates a program text."""

    def __init__(
        self,
        text: str,
        flow: Flow,
        sites: Iterable[Site],
        network: Graph,
        request: Request,
        build: Callable[[str], Graph],
    ) -> None:
        self.text, self.flow, self.network, self.request, self.build = text, flow, network, request, build
        self._merged_into: dict[Group, Group] = {}
        """Maps groups merged in the current round to the group that replaced them."""
        self._sites = [site for site in sites if site.kind in request or (site.kind is None and "widths" in request)]
        self._reset()

    def _reset(self) -> None:
        """Restart with one group per site."""
        self.groups: list[Group] = []
        """All groups, open and closed; a group is closed if only the trained value is left."""
        for site in self._sites:
            group = Group([site], named=site.kind in ("widths", "depths") and self._is_made_once(site))
            if site.kind == "heads":
                self._set_head_width(group)
            self.groups.append(group)

    def _is_made_once(self, site: Site) -> bool:
        """Return True if a choice at this site would be made once, so that it can be assigned at the top of the net."""
        return site.home.definition.word == "net" and site.form == "number" and not site.inside

    def _set_head_width(self, group: Group) -> None:
        """Set the width per head of a group of kind `heads`, or close the group.

        Fewer heads mean fewer channels only if the call has a parameter for the total width of all heads.
        """
        site, types = group.sites[0], infer(self.network)
        name = inner_width(self.flow, site.use) if site.use is not None else None
        widths = set()
        for number in self.network:
            node = self.network[number]
            if getattr(node.op, "heads", None) == site.trained:
                widths.add(types[self.network.operands(number)[0]].channels // int(site.trained))
        if name is None or len(widths) != 1:
            self.close(group, "fewer heads would not be smaller: the call has no parameter for their width", site.span)
            return
        group.per_head, group.named = (name, widths.pop()), True

    def close(self, group: Group, reason: str, span: Span | None) -> None:
        """Close a group: drop all of its values except the trained one."""
        group.dropped |= {*group.values(self.request)} - {group.base}
        group.reason, group.reason_span = group.reason or reason, group.reason_span or span

    @property
    def open(self) -> list[Group]:
        """Open groups: those with more than one value, which become choices."""
        return [group for group in self.groups if len(group.values(self.request)) > 1]

    @property
    def closed(self) -> list[Group]:
        """Closed groups: those that have a kind, but only the trained value left."""
        open_ids = {id(group) for group in self.open}
        return [group for group in self.groups if group.kind is not None and id(group) not in open_ids]

    # rounds

    def run(self, where: str | None) -> tuple[EditedText, Graph]:
        """Return the edited text and the graph of the space with as many choices as possible.

        Raises ArchError: A3212 if no number can become a choice, A3230 if `where` matches no scope, A3231 if the
        round limit is exceeded.
        """
        if where is not None:
            require_scope(self.network, where)
        rounds = min(MAX_ROUNDS, max(MIN_ROUNDS, MAX_NODES // len(self.network)))
        for _ in range(rounds):
            edited = edit(self.text, self.open, self.request)
            try:
                graph = self.build(edited.text)
                self._check_weight_shapes(graph)
            except ArchError as error:
                self._resolve(error, edited)
                continue
            unfit = [*self._unattached(), *self._fixed_parts(graph, edited, where)]
            if not unfit and any(
                test(graph, edited)
                for test in (self._fix_changed_operations, self._fix_unused_weights, self._fix_channel_order)
            ):
                continue
            if not unfit and self.open:
                return edited, graph
            for group, reason in unfit:
                self.close(group, reason, group.sites[0].span)
            if not self.open:
                raise fail("A3212", f"nothing of `{self.network.name}` can be opened", None, self._closing_reasons())
        text = f"no valid set of choices of `{self.network.name}` was found in {rounds} rounds"
        raise fail("A3231", text, None, "open less of it: --choose depths, or --where SCOPE")

    def _closing_reasons(self) -> str | None:
        """Return up to three reasons why groups are closed, joined to one text; None if there are none."""
        reasons = dict.fromkeys(group.reason for group in self.groups if group.kind is not None and group.reason)
        if not reasons and any(group.kind is not None for group in self.groups):
            return "there is no value below the trained one"
        return "; ".join([*reasons][:3]) or None

    def _unattached(self) -> list[tuple[Group, str]]:
        """Return the open groups of numbers that should follow a width but were not merged with one, with reasons."""
        return [(group, "it follows no width") for group in self.open if group.kind is None]

    def _fixed_parts(self, graph: Graph, edited: EditedText, where: str | None) -> list[tuple[Group, str]]:
        """Return the open groups that must be closed although the space is valid, with reasons.

        The reasons are that a group changes the size of an output, skips blocks whose output types differ, or changes a
        scope outside `where`.
        """
        types, changes = infer(graph), []
        full = {path: decision.choice.outcome_count - 1 for path, decision in graph.decisions.items()}
        for name, number in graph.outputs.items():
            for group in _groups_of_values(types[number].dims, edited):
                changes.append((group, f"it sets the size of the output `{name}`"))
        for number in graph:
            op = graph[number].op
            chosen = _group_of(op.choice, edited) if isinstance(op, Select) else None
            if chosen is not None and chosen.kind == "depths":
                forms = {_type_text(types[operand], full) for operand in graph.operands(number)}
                if len(forms) > 1:
                    changes.append((chosen, f"its blocks have different output types: {' and '.join(sorted(forms))}"))
        if where is not None:
            needed = reachability_conditions(graph)
            for number in graph:
                node = graph[number]
                if node.scope and not isinstance(node.op, Select) and not matches_scope(node.scope, where):
                    for group in _groups_of_values([*node.op.varying_attributes.values(), needed[number]], edited):
                        changes.append((group, f"`{node.scope}` is not in {where}"))
        return changes

    def _check_weight_shapes(self, graph: Graph) -> None:
        """Raise ArchError (A3214) for each operation that, in some architecture, has a larger weight than in the
        network.

        Each diagnostic carries the smallest combination of choices that causes it.
        """
        types, problems = infer(graph), []
        for number, condition in reachability_conditions(graph).items():
            node = graph[number]
            trained_shapes = self._trained_shapes.get(node.scope)
            if trained_shapes is None or type(node.op).weights is Op.weights:
                continue
            operands = [types[operand] for operand in graph.operands(number)]
            try:
                lift_rule(partial(_check_weights, trained_shapes), node.op, operands, condition, graph.assumptions)
            except RuleError as error:
                notes = (error.note(),) if isinstance(error, CombinationError) else ()
                problems.append(Diagnostic("A3214", f"`{node.scope}`: {error.message}", node.span, None, notes))
        if problems:
            raise ArchError(*problems)

    @cached_property
    def _trained_shapes(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """Weight shapes of the network by scope, then by weight name."""
        from archir.passes.sharing import Sharing

        return Sharing(self.network).shapes

    def _fix_unused_weights(self, graph: Graph, edited: EditedText) -> bool:
        """Merge or close choices under which an architecture needs weights that the network itself does not use.

        Handles only the first operation with such weights; returns True if there was one.
        """
        full = {path: decision.choice.outcome_count - 1 for path, decision in graph.decisions.items()}
        for number, condition in reachability_conditions(graph).items():
            node = graph[number]
            if type(node.op).weights is Op.weights or value_at(condition, full) is True:
                continue
            groups = _groups_of_values([condition], edited)
            widths = [group for group in groups if group.kind == "widths"]
            reason = f"other values would need weights of `{node.scope}` that the network does not use"
            if len(widths) > 1:
                self._merge(widths, reason, node.span)
            else:
                self.close(max(groups, key=lambda candidate: _rank(candidate.kind)), reason, node.span)
            return True
        return False

    def _fix_channel_order(self, graph: Graph, edited: EditedText) -> bool:
        """Merge or close choices under which an operation would read other channels than those it was trained on.

        This happens with channel groups after a concatenation. For group counts that follow a width, the trained values
        are kept, so that groups get narrower instead of fewer, and the search restarts. Ratios and widths are merged or
        closed. Returns True if anything changed.
        """
        from archir.passes.sharing import Sharing

        try:
            sharing = Sharing(graph)
        except DiagramSizeError as error:
            self._close_last_kind(error)
            return True
        causes = [support(*values) for values in sharing.misaligned]
        for groups in (_groups_of_choices(choices, edited) for choices in [*causes, *self._enlarged(sharing)]):
            if self._fix_group_counts(groups):
                return True
            reason = "an operation would read other channels than it was trained on"
            for kind in ("ratios", "widths"):
                if len(same_kind := [group for group in groups if group.kind == kind]) > 1:
                    self._merge(same_kind, reason, None)
                    return True
            if groups:
                self.close(max(groups, key=lambda candidate: _rank(candidate.kind)), reason, None)
                return True
        return False

    def _fix_changed_operations(self, graph: Graph, edited: EditedText) -> bool:
        """Close choices if an operation of the largest architecture differs from the network's.

        An example is a block that is called with different widths but one group count. Returns True if any choice was
        closed.
        """
        full = {path: decision.choice.outcome_count - 1 for path, decision in graph.decisions.items()}
        trained: dict[str, list[Op]] = defaultdict(list)
        for number in self.network:
            trained[self.network[number].scope].append(self.network[number].op)
        for number in infer(graph):
            node = graph[number]
            if node.scope in trained and node.op.at(full) not in trained[node.scope]:
                count = getattr(trained[node.scope][0], "groups", None)
                groups = [g for g in self.open if any(site.groups and site.trained == count for site in g.sites)]
                groups += _groups_of_values(node.op.varying_attributes.values(), edited)
                if self._fix_group_counts(groups):
                    return True
                if groups:
                    self.close(
                        max(groups, key=lambda candidate: _rank(candidate.kind)),
                        f"`{node.scope}` would change",
                        node.span,
                    )
                    return True
        return False

    def _fix_group_counts(self, groups: Iterable[Group]) -> bool:
        """Fix all group counts in these groups at their trained values and restart the search; return False if there
        are none."""
        sites = {site for group in groups for site in group.sites if site.groups and site.kind is None}
        if sites:
            self._sites = [site for site in self._sites if site not in sites]
            self._reset()
        return bool(sites)

    def _enlarged(self, sharing: Sharing) -> Iterator[list[Choice]]:
        """For each operation whose weight is larger in the space than in the network, yield the choices on which the
        position of its weight slice depends."""
        shapes = sharing.shapes
        larger = {scope for scope, trained in self._trained_shapes.items() if shapes.get(scope, trained) != trained}
        for number in sharing.types if larger else ():
            if sharing.graph[number].scope in larger:
                yield sharing.depends_on(number)

    # errors of the checker

    def _resolve(self, error: ArchError, edited: EditedText) -> None:
        """Resolve the errors of a program, by merging, closing or restricting groups.

        This is done for the groups in each reported combination, each group once.
        """
        changed: set[Group] = set()
        self._merged_into.clear()
        for diagnostic in error.diagnostics:
            outcomes = [outcome for note in diagnostic.notes for outcome in note.outcomes]
            combination = [(group, code) for path, code in outcomes if (group := _group_of(path, edited)) is not None]
            groups = {group for group, _ in combination}
            if not changed & groups:
                changed |= self._resolve_combination(combination, diagnostic) if combination else set()
            elif changed & groups <= self._merged_into.keys() and all(group.kind == "widths" for group in groups):
                current = list(dict.fromkeys(self._merged_into.get(group, group) for group in groups))
                if len(current) > 1:
                    self._merge(current, diagnostic.message, diagnostic.span)
                    changed |= groups
        if not changed:
            self._close_last_kind(error)

    def _resolve_combination(self, combination: list[tuple[Group, int]], diagnostic: Diagnostic) -> set[Group]:
        """Resolve one diagnostic, given its combination of groups and outcomes; return the groups that changed."""
        groups = list(dict.fromkeys(group for group, _ in combination))
        codes = {group: {code for member, code in combination if member is group} for group in groups}
        for group in groups:
            if len(codes[group]) > 1:
                if group.named:
                    self.close(group, diagnostic.message, diagnostic.span)
                group.named = True
                return {group}
        for kinds in (("widths", None), ("ratios",)):
            mergeable = [group for group in groups if group.kind in kinds]
            for group in mergeable:
                if group.kind is None and not any(
                    _is_commensurable(group, other) for other in mergeable if other is not group
                ):
                    self.close(group, diagnostic.message, diagnostic.span)
                    return {group}
            if len(mergeable) > 1:
                return self._merge(mergeable, diagnostic.message, diagnostic.span)
        lower = [group for group in groups if min(codes[group]) < len(group.values(self.request)) - 1]
        if not lower:
            return set()
        weakest = max(lower, key=lambda group: _rank(group.kind))
        if weakest.kind is None:
            self.close(weakest, diagnostic.message, diagnostic.span)
        else:
            weakest.dropped.add(weakest.values(self.request)[min(codes[weakest])])
            weakest.reason, weakest.reason_span = diagnostic.message, diagnostic.span
        return {weakest}

    def _merge(self, groups: list[Group], reason: str, span: Span | None) -> set[Group]:
        """Merge groups into one and return them; if one is in another definition than the first, only close that
        one."""
        first = min(groups, key=lambda group: (group.home.definition.word != "net", group.sites[0].span.start))
        for group in groups:
            if group.home is not first.home:
                self.close(group, f"it would have to be equal to a number of another block: {reason}", span)
                return {*groups}
        self.groups = [group for group in self.groups if group not in groups]
        merged = Group(sorted((s for g in groups for s in g.sites), key=lambda s: s.span.start), named=True)
        self.groups.append(merged)
        self._merged_into = {
            old: merged if current in groups else current for old, current in self._merged_into.items()
        } | dict.fromkeys(groups, merged)
        return {*groups}

    def _close_last_kind(self, error: ArchError) -> None:
        """Close all open groups of the least important kind, for an error that names no combination of choices."""
        if not self.open:
            raise error
        last_kind = max((group.kind for group in self.open), key=_rank)
        for group in self.open:
            if group.kind == last_kind:
                self.close(group, error.diagnostics[0].message, error.diagnostics[0].span)


def _check_weights(trained_shapes: Mapping[str, tuple[int, ...]], op: Op, *operands: TensorType) -> bool:
    """Raise RuleError if a weight of an operation is larger than the trained weight of that name."""
    for name, weight in op.weights(*operands).items():
        if name not in trained_shapes or any(
            size > limit for size, limit in zip(weight.shape, trained_shapes[name], strict=True)
        ):
            shape = [*trained_shapes[name]] if name in trained_shapes else "none"
            raise RuleError(f"the {name} {[*weight.shape]} is larger than the network's, {shape}")
    return True


def _is_commensurable(follower: Group, group: Group) -> bool:
    """Return True if `follower` can be merged with `group`: one of their base values is a multiple of the other."""
    scale = follower.base / group.base
    return scale.denominator == 1 or scale.numerator == 1


def _rank(kind: Kind | None) -> int:
    """Return the importance rank of a kind: 0 is the most important; None comes last."""
    return KINDS.index(kind) if kind is not None else len(KINDS)


def _group_of(path: str, edited: EditedText) -> Group | None:
    """Return the group of a choice, found by its label, which is the last component of the choice's path."""
    return edited.labels.get(label_of(path))


def _groups_of_values(values: Iterable[Value], edited: EditedText) -> list[Group]:
    """Return the groups of all choices on which the values depend."""
    return _groups_of_choices(support(*values), edited)


def _groups_of_choices(choices: Iterable[Choice], edited: EditedText) -> list[Group]:
    """Return the groups of the given choices, each once."""
    groups = (_group_of(choice.path, edited) for choice in choices)
    return list(dict.fromkeys(group for group in groups if group is not None))


def _type_text(x: TensorType, full: Mapping[str, int]) -> str:
    """Return the text of a tensor type in the largest architecture, whose outcomes are `full`."""
    return f"{x.dtype}[{', '.join(str(value_at(dim, full)) for dim in x.dims)}]"
