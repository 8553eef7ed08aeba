"""Which choices go together: everything is made a choice of its own, and what the checker refuses is tied or left.

Nothing here knows why widths have to agree. The checker shows the smallest combination that breaks a network: two
widths in it become one choice, a choice that is made several times is made once, a value that is wrong whatever else is
chosen is taken away. So the rules of all operations count, and what is left is a space without errors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

from archir.diagnostics.errors import ArchError, Diagnostic, RuleError, Span, fail
from archir.diagrams.cases import Choice, EntangledError, Value, at, support
from archir.diagrams.lifting import CaseError
from archir.ir.graph import Graph
from archir.ir.needs import needs
from archir.ir.op import Op
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.ir.typing import infer, lifted
from archir.language.elastic.edit import Edited, Group, edit
from archir.language.elastic.flow import Flow
from archir.language.elastic.ladders import KINDS, Asked, Kind
from archir.language.elastic.scopes import checked, label_of, within
from archir.language.elastic.sites import Site, inner_width

if TYPE_CHECKING:
    from archir.passes.sharing import Sharing

MOST_ROUNDS = 200
"""Times that a text is edited and looked at."""
FEWEST_ROUNDS, MOST_NODES = 10, 60_000
"""Times that any text is looked at, and nodes of all times together that are looked at."""


class Search:
    """Groups of sites, and how they come to be."""

    def __init__(
        self, text: str, flow: Flow, found: Iterable[Site], network: Graph, wanted: Asked, made: Callable[[str], Graph]
    ) -> None:
        self.text, self.flow, self.network, self.wanted, self.made = text, flow, network, wanted, made
        self._now: dict[Group, Group] = {}
        """In a round, what groups have become."""
        self._sites = [site for site in found if site.kind in wanted or (site.kind is None and "widths" in wanted)]
        self._begin()

    def _begin(self) -> None:
        """Make every site a group of its own."""
        self.groups: list[Group] = []
        """Everything that may be open, and everything that was."""
        for site in self._sites:
            group = Group([site], named=site.kind in ("widths", "depths") and self._once(site))
            if site.kind == "heads":
                self._by_head(group)
            self.groups.append(group)

    def _once(self, site: Site) -> bool:
        """Whether a choice there is made once, so that it can as well be made at the top."""
        return site.home.definition.word == "net" and site.form == "number" and not site.inside

    def _by_head(self, group: Group) -> None:
        """Heads are left out with their channels: where a call can say how wide the others are, it does."""
        site, types = group.sites[0], infer(self.network)
        name = inner_width(self.flow, site.use) if site.use is not None else None
        widths = set()
        for number in self.network:
            node = self.network[number]
            if getattr(node.op, "heads", None) == site.trained:
                widths.add(types[self.network.operands(number)[0]].channels // int(site.trained))
        if name is None or len(widths) != 1:
            self.close(group, "fewer heads would be no smaller: nothing here says how wide they are", site.span)
            return
        group.per_head, group.named = (name, widths.pop()), True

    def close(self, group: Group, reason: str, place: Span | None) -> None:
        """Leave a group as it is."""
        group.dropped |= {*group.values(self.wanted)} - {group.base}
        group.reason, group.place = group.reason or reason, group.place or place

    @property
    def open(self) -> list[Group]:
        """The groups that are choices."""
        return [group for group in self.groups if len(group.values(self.wanted)) > 1]

    @property
    def closed(self) -> list[Group]:
        """What might have been a choice, and is none."""
        still = {id(group) for group in self.open}
        return [group for group in self.groups if group.kind is not None and id(group) not in still]

    # rounds

    def run(self, where: str | None) -> tuple[Edited, Graph]:
        """The text and the graph of what can be open. Raises ArchError: A3212 if nothing can, A3230 if `where` names
        no scope, A3231 if it takes too many rounds to find out."""
        if where is not None:
            checked(self.network, where)
        rounds = min(MOST_ROUNDS, max(FEWEST_ROUNDS, MOST_NODES // len(self.network)))
        for _ in range(rounds):
            edited = edit(self.text, self.open, self.wanted)
            try:
                graph = self.made(edited.text)
                self._compare(graph)
            except ArchError as error:
                self._learn(error, edited)
                continue
            unfit = [*self._loose(), *self._outside(graph, edited, where)]
            if not unfit and any(test(graph, edited) for test in (self._changed, self._untrained, self._parted)):
                continue
            if not unfit and self.open:
                return edited, graph
            for group, reason in unfit:
                self.close(group, reason, group.sites[0].span)
            if not self.open:
                raise fail("A3212", f"nothing of `{self.network.name}` can be opened", None, self._why())
        text = f"what of `{self.network.name}` can be opened was not found out in {rounds} rounds"
        raise fail("A3231", text, None, "open less of it: --choose depths, or --where SCOPE")

    def _why(self) -> str | None:
        reasons = dict.fromkeys(group.reason for group in self.groups if group.kind is not None and group.reason)
        if not reasons and any(group.kind is not None for group in self.groups):
            return "there is nothing smaller than what was trained"
        return "; ".join([*reasons][:3]) or None

    def _loose(self) -> list[tuple[Group, str]]:
        """What was to go with a width, and goes with none."""
        return [(group, "it goes with no width") for group in self.open if group.kind is None]

    def _outside(self, graph: Graph, edited: Edited, where: str | None) -> list[tuple[Group, str]]:
        """What may not change, though the network would be sound: outputs, stages of unlike blocks, other scopes."""
        types, found = infer(graph), []
        full = {path: decision.choice.outcomes - 1 for path, decision in graph.decisions.items()}
        for name, number in graph.outputs.items():
            for group in _of(types[number].dims, edited):
                found.append((group, f"it sets the size of the output `{name}`"))
        for number in graph:
            op = graph[number].op
            chosen = _group(op.choice, edited) if isinstance(op, Select) else None
            if chosen is not None and chosen.kind == "depths":
                forms = {_form(types[operand], full) for operand in graph.operands(number)}
                if len(forms) > 1:
                    found.append((chosen, f"its blocks are not alike: {' and '.join(sorted(forms))}"))
        if where is not None:
            needed = needs(graph)
            for number in graph:
                node = graph[number]
                if node.scope and not isinstance(node.op, Select) and not within(node.scope, where):
                    for group in _of([*node.op.varied.values(), needed[number]], edited):
                        found.append((group, f"`{node.scope}` is not in {where}"))
        return found

    def _compare(self, graph: Graph) -> None:
        """Raise ArchError (A3214) for each operation some architecture of which has a larger weight than the network,
        with the smallest combination of choices that makes it so."""
        types, found = infer(graph), []
        for number, condition in needs(graph).items():
            node = graph[number]
            held = self._trained.get(node.scope)
            if held is None or type(node.op).weights is Op.weights:
                continue
            operands = [types[operand] for operand in graph.operands(number)]
            try:
                lifted(partial(_compared, held), node.op, operands, condition, graph.given)
            except RuleError as error:
                notes = (error.note(),) if isinstance(error, CaseError) else ()
                found.append(Diagnostic("A3214", f"`{node.scope}`: {error.message}", node.span, None, notes))
        if found:
            raise ArchError(*found)

    @cached_property
    def _trained(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """By scope, the shapes of the network's weights."""
        from archir.passes.sharing import Sharing

        return Sharing(self.network).shapes

    def _untrained(self, graph: Graph, edited: Edited) -> bool:
        """Whether an architecture needs weights that the network does not; what makes it so is tied or left."""
        full = {path: decision.choice.outcomes - 1 for path, decision in graph.decisions.items()}
        for number, condition in needs(graph).items():
            node = graph[number]
            if type(node.op).weights is Op.weights or at(condition, full) is True:
                continue
            groups = _of([condition], edited)
            widths = [group for group in groups if group.kind == "widths"]
            reason = f"other values would need weights that the network does not have, `{node.scope}`"
            if len(widths) > 1:
                self._tie(widths, reason, node.span)
            else:
                self.close(max(groups, key=lambda one: _rank(one.kind)), reason, node.span)
            return True
        return False

    def _parted(self, graph: Graph, edited: Edited) -> bool:
        """Whether groups would read other channels than they were trained for, as behind a concatenation. Those that go
        with a width stay as many as they were, each of them narrower, and all begins anew; widths are tied or left."""
        from archir.passes.sharing import Sharing

        try:
            sharing = Sharing(graph)
        except EntangledError as error:
            self._retreat(error)
            return True
        causes = [support(*values) for values in sharing.parted]
        for groups in (_chosen(choices, edited) for choices in [*causes, *self._enlarged(sharing)]):
            if self._without_counts(groups):
                return True
            reason = "what reads its channels was trained on others"
            for kind in ("ratios", "widths"):
                if len(alike := [group for group in groups if group.kind == kind]) > 1:
                    self._tie(alike, reason, None)
                    return True
            if groups:
                self.close(max(groups, key=lambda one: _rank(one.kind)), reason, None)
                return True
        return False

    def _changed(self, graph: Graph, edited: Edited) -> bool:
        """Whether an operation of the largest architecture is not the network's, as where calls of a block have one
        number of groups and unlike widths; what sets it is left."""
        full = {path: decision.choice.outcomes - 1 for path, decision in graph.decisions.items()}
        trained: dict[str, list[Op]] = defaultdict(list)
        for number in self.network:
            trained[self.network[number].scope].append(self.network[number].op)
        for number in infer(graph):
            node = graph[number]
            if node.scope in trained and node.op.at(full) not in trained[node.scope]:
                count = getattr(trained[node.scope][0], "groups", None)
                groups = [g for g in self.open if any(site.groups and site.trained == count for site in g.sites)]
                groups += _of(node.op.varied.values(), edited)
                if self._without_counts(groups):
                    return True
                if groups:
                    self.close(max(groups, key=lambda one: _rank(one.kind)), f"`{node.scope}` would change", node.span)
                    return True
        return False

    def _without_counts(self, groups: Iterable[Group]) -> bool:
        """Leave the numbers of groups that go with these as they are, and begin anew; whether there are any."""
        sites = {site for group in groups for site in group.sites if site.groups and site.kind is None}
        if sites:
            self._sites = [site for site in self._sites if site not in sites]
            self._begin()
        return bool(sites)

    def _enlarged(self, sharing: Sharing) -> Iterator[list[Choice]]:
        """For each operation whose weight the space holds larger than the network, the choices that its place depends
        on."""
        shapes = sharing.shapes
        larger = {scope for scope, held in self._trained.items() if shapes.get(scope, held) != held}
        for number in sharing.types if larger else ():
            if sharing.graph[number].scope in larger:
                yield sharing.depends_on(number)

    # what the checker says

    def _learn(self, error: ArchError, edited: Edited) -> None:
        """Tie or leave what is in the combinations that break the network; one thing for each group."""
        changed: set[Group] = set()
        self._now.clear()
        for diagnostic in error.diagnostics:
            outcomes = [outcome for note in diagnostic.notes for outcome in note.outcomes]
            parts = [(group, code) for path, code in outcomes if (group := _group(path, edited)) is not None]
            groups = {group for group, _ in parts}
            if not changed & groups:
                changed |= self._mend(parts, diagnostic) if parts else set()
            elif changed & groups <= self._now.keys() and all(group.kind == "widths" for group in groups):
                now = list(dict.fromkeys(self._now.get(group, group) for group in groups))
                if len(now) > 1:
                    self._tie(now, self._said(diagnostic), diagnostic.span)
                    changed |= groups
        if not changed:
            self._retreat(error)

    def _mend(self, parts: list[tuple[Group, int]], diagnostic: Diagnostic) -> set[Group]:
        groups = list(dict.fromkeys(group for group, _ in parts))
        codes = {group: {code for one, code in parts if one is group} for group in groups}
        for group in groups:
            if len(codes[group]) > 1:
                if group.named:
                    self.close(group, self._said(diagnostic), diagnostic.span)
                group.named = True
                return {group}
        for kinds in (("widths", None), ("ratios",)):
            tied = [group for group in groups if group.kind in kinds]
            for group in tied:
                if group.kind is None and not any(_fits(group, other) for other in tied if other is not group):
                    self.close(group, self._said(diagnostic), diagnostic.span)
                    return {group}
            if len(tied) > 1:
                return self._tie(tied, self._said(diagnostic), diagnostic.span)
        lower = [group for group in groups if min(codes[group]) < len(group.values(self.wanted)) - 1]
        if not lower:
            return set()
        least = max(lower, key=lambda group: _rank(group.kind))
        if least.kind is None:
            self.close(least, self._said(diagnostic), diagnostic.span)
        else:
            least.dropped.add(least.values(self.wanted)[min(codes[least])])
            least.reason, least.place = self._said(diagnostic), diagnostic.span
        return {least}

    def _said(self, diagnostic: Diagnostic) -> str:
        return diagnostic.message

    def _tie(self, groups: list[Group], reason: str, place: Span | None) -> set[Group]:
        """Make one of several groups; one in another definition than the first is left."""
        first = min(groups, key=lambda group: (group.home.definition.word != "net", group.sites[0].span.start))
        for group in groups:
            if group.home is not first.home:
                self.close(group, f"it would have to go with a number of another block: {reason}", place)
                return {*groups}
        self.groups = [group for group in self.groups if group not in groups]
        one = Group(sorted((s for g in groups for s in g.sites), key=lambda s: s.span.start), named=True)
        self.groups.append(one)
        self._now = {old: one if now in groups else now for old, now in self._now.items()} | dict.fromkeys(groups, one)
        return {*groups}

    def _retreat(self, error: ArchError) -> None:
        """What is wrong has no combination that says why: the least important kind is left."""
        if not self.open:
            raise error
        least = max((group.kind for group in self.open), key=_rank)
        for group in self.open:
            if group.kind == least:
                self.close(group, self._said(error.diagnostics[0]), error.diagnostics[0].span)


def _compared(held: Mapping[str, tuple[int, ...]], op: Op, *operands: TensorType) -> bool:
    """Raise RuleError if a weight of an operation is larger than the one that is held."""
    for name, weight in op.weights(*operands).items():
        if name not in held or any(size > most for size, most in zip(weight.shape, held[name], strict=True)):
            shape = [*held[name]] if name in held else "none"
            raise RuleError(f"the {name} {[*weight.shape]} is larger than the network's, {shape}")
    return True


def _fits(follower: Group, group: Group) -> bool:
    """Whether what follows may go with a width: it is a multiple or a part of it."""
    scale = follower.base / group.base
    return scale.denominator == 1 or scale.numerator == 1


def _rank(kind: Kind | None) -> int:
    return KINDS.index(kind) if kind is not None else len(KINDS)


def _group(path: str, edited: Edited) -> Group | None:
    """The group of a choice: labels are the last names of paths."""
    return edited.labels.get(label_of(path))


def _of(values: Iterable[Value], edited: Edited) -> list[Group]:
    return _chosen(support(*values), edited)


def _chosen(choices: Iterable[Choice], edited: Edited) -> list[Group]:
    groups = (_group(choice.path, edited) for choice in choices)
    return list(dict.fromkeys(group for group in groups if group is not None))


def _form(x: TensorType, full: Mapping[str, int]) -> str:
    return f"{x.dtype}[{', '.join(str(at(dim, full)) for dim in x.dims)}]"
