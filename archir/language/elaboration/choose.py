"""Choices: the three forms of `choose`, and `match` on what was chosen."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial, reduce
from typing import Any

from archir.diagnostics.errors import Note, RuleError, Span
from archir.diagrams.cases import MOST_OUTCOMES, Choice, Label, Value, case, key, leaves, subsets, varies, when
from archir.diagrams.conditions import both, either, negate, outcomes, restrict, switch
from archir.diagrams.lifting import lift
from archir.ir.graph import Constraint, Decision
from archir.language.elaboration import static
from archir.language.elaboration.calls import Caller
from archir.language.elaboration.context import Scope, join
from archir.language.elaboration.shared import Given
from archir.language.elaboration.values import POISON, UNBOUND, Items, Library, Tensor, show
from archir.language.syntax import ast

A_CHOICE = 30
"""Units of work."""


@dataclass(frozen=True)
class Candidate:
    """What may be picked: the condition under which it is there, how to get it where it is picked, and what it may be
    called: by its value, by the variable that it comes from."""

    exists: Value
    value: Callable[[], Value]
    label: Label | None = None
    variable: str | None = None
    known: bool = False
    """Whether getting it makes nothing."""


class Chooser(Caller):
    """Evaluates choices. A choice is named by its label, or by the variable it is assigned to."""

    def eval_choose_value(self, tree: ast.ChooseValue) -> Value:
        """`choose kernel(3, 5, 7)`; one argument that is a list stands for its items."""
        label = self._label(tree)
        if label is None:
            return POISON
        values = tree.values
        if len(values) == 1 and isinstance(values[0], ast.Sequence):
            values = values[0].items
        elif len(values) == 1 and not (isinstance(values[0], ast.Comprehension) and self._decides(values[0].item)):
            value = self.eval(values[0])
            if any(isinstance(leaf, (Items, range)) for leaf in leaves(value)):
                return self._choose_listed(tree, label, value)
            return POISON if value is POISON else self._choose_from(tree, label, [_settled(value, values[0])])
        elif len(values) == 1:
            elements = self.elements(values[0])
            if elements is None:
                return POISON
            return self._choose_from(tree, label, [Candidate(*element) for element in elements])
        candidates = [self._candidate(value) for value in values]
        return POISON if None in candidates else self._choose_from(tree, label, [one for one in candidates if one])

    def _candidate(self, tree: ast.Expr) -> Candidate | None:
        """An alternative; one that may make a choice or a node waits for its own to be taken. None after an error."""
        if self._decides(tree):
            return Candidate(True, partial(self.eval, tree))
        value = self.eval(tree)
        return None if value is POISON else _settled(value, tree)

    def _choose_listed(self, tree: ast.ChooseValue, label: str, value: Value) -> Value:
        """A choice among the items of a list, or of several lists that it may be: each item once, there where it is."""
        lists = [leaf if isinstance(leaf, (Items, range)) else Items([leaf]) for leaf in leaves(value)]
        longest = max(map(len, lists))
        if longest > MOST_OUTCOMES:
            return self._too_many(tree, longest)
        if len(lists) == 1:
            return self._choose_from(tree, label, [_settled(item) for item in lists[0]])
        items = {key(item): item for one in lists for item in one}
        candidates = []
        for name, item in items.items():
            exists = self.lift(tree.span, lambda leaf, name=name: _holds(leaf, name), value)
            if exists is POISON:
                return POISON
            candidates.append(replace(_settled(item), exists=exists))
        return self._choose_from(tree, label, candidates)

    def _choose_from(self, tree: ast.ChooseValue, label: str, candidates: Sequence[Candidate]) -> Value:
        if self._enough(tree, 1, candidates) is POISON:
            return POISON
        choice = self.decide(tree, label, _called(candidates))
        if choice is None:
            return POISON
        self._only_existing(tree, choice, candidates)
        found: list[Value] = [UNBOUND] * len(candidates)
        open_ = outcomes(choice, self.path)
        for outcome, candidate in enumerate(candidates):
            if candidate.known and candidate.exists is True:
                if outcome in open_:
                    found[outcome] = candidate.value()
                continue
            with self.under_choice(choice, [outcome]), self.under(candidate.exists) as possible:
                if possible:
                    found[outcome] = candidate.value()
        return self._joined(choice, found, tree.span)

    def _enough(self, tree: ast.Choose, take: int, candidates: Sequence[Candidate]) -> Value:
        """POISON, with a complaint, if for some outcomes of other choices there are fewer candidates than are taken."""
        count: Value = 0
        for candidate in candidates:
            count = self.lift(tree.span, lambda n, here: n + here, count, candidate.exists)

        def check(have: int) -> int:
            if have == 0 and isinstance(tree, ast.ChooseValue):
                raise RuleError("a choice of nothing", code="A0501")
            if not 1 <= take <= have:
                raise RuleError(f"cannot take {take} of {have}", code="A0502")
            return have

        place = tree.take.span.to(tree.items.span) if isinstance(tree, ast.ChooseSubset) else tree.span
        return self.lift(place, check, count)

    def _only_existing(self, tree: ast.Choose, choice: Choice, candidates: Sequence[Candidate]) -> None:
        """State that what is picked exists."""
        if all(candidate.exists is True for candidate in candidates):
            return
        exist = [reduce(both, (candidates[i].exists for i in subset), True) for subset in choice.subsets]
        holds = switch(choice, exist)
        items = tree.items if isinstance(tree, ast.ChooseSubset) else tree
        self.constrain(Constraint(either(negate(self.path), holds), "where", f"in {items.span.text}", items.span))

    def eval_choose_one(self, tree: ast.ChooseOne) -> Value:
        """`choose op { name: expr ... }`."""
        return self.choose_one(tree, None)

    def choose_one(self, tree: ast.ChooseOne, given: Given | None) -> Value:
        """A choice among expressions; what is piped in feeds every alternative."""
        label = self._label(tree)
        if label is None or (given is not None and given.value is POISON):
            return POISON
        names = [alternative.name for alternative in tree.alternatives]
        twice = repeated([name.text for name in names])
        if twice is not None:
            return self.error("A0503", f"the alternative `{names[twice]}` is there twice", names[twice].span)
        choice = self.decide(tree, label, [name.text for name in names])
        if choice is None:
            return POISON
        values: list[Value] = [UNBOUND] * len(names)
        component = choice.path.rsplit(".", 1)[-1]
        for outcome, alternative in enumerate(tree.alternatives):
            below = f"{component}.{alternative.name}"
            made = Scope(join(self.scope.path, below), join(self.scope.choices, below))
            with self.inside(made), self.under_choice(choice, [outcome]) as possible:
                if possible:
                    values[outcome] = self._alternative(alternative.value, given)
        return self._joined(choice, values, tree.span)

    def _alternative(self, tree: ast.Expr, given: Given | None) -> Value:
        self.assigned = None
        if given is not None:
            return self.feed(tree, given, here=True)
        return self.call_tree(tree, (), here=True) if isinstance(tree, ast.Call) else self.eval(tree)

    def eval_choose_subset(self, tree: ast.ChooseSubset) -> Value:
        """`choose inputs 2 of [a, b, c] where condition`: the list of the chosen ones."""
        label = self._label(tree)
        take = self.lift(tree.take.span, lambda leaf: static.integer(leaf, "the number to take"), self.eval(tree.take))
        elements = self.elements(tree.items)
        if label is None or take is POISON or elements is None:
            return POISON
        if not isinstance(take, int):
            return self.error("A0506", "how many are taken must not depend on a choice", tree.take.span)
        labels = _labels(tree.items, len(elements))
        candidates = [Candidate(*element) for element in elements]
        if self._enough(tree, take, candidates) is POISON:
            return POISON
        if subsets(len(elements), take) > MOST_OUTCOMES:
            return self._too_many(tree, subsets(len(elements), take))
        self.spend(take * subsets(len(elements), take) / 4, tree.span)
        choice = self.decide(tree, label, labels, take)
        if choice is None:
            return POISON
        self._only_existing(tree, choice, candidates)
        picking: list[list[int]] = [[] for _ in candidates]
        for number, subset in enumerate(choice.subsets):
            for position in subset:
                picking[position].append(number)
        values: list[Value] = [UNBOUND] * len(candidates)
        for position, candidate in enumerate(candidates):
            with self.under_choice(choice, picking[position]), self.under(candidate.exists) as possible:
                if possible:
                    values[position] = candidate.value()
        if any(value is POISON for value in values):
            return POISON
        values = [self.settled(value, {choice}, tree.span) for value in values]
        known = [o for o, subset in enumerate(choice.subsets) if all(values[i] is not UNBOUND for i in subset)]
        self.only(known)
        outcome = restrict(case(choice, range(choice.outcomes)), when(choice, known))
        picked = [lift(lambda o, i=i: values[choice.subsets[o][i]], outcome) for i in range(take)]
        result = self.items(picked, tree.span)
        if tree.where is not None and result is not POISON:
            self._where(tree.where, label, result)
        return result

    def _where(self, tree: ast.Expr, label: str, chosen: Value) -> None:
        before = self.frame.env
        self.frame.env = {**before, label: chosen}
        try:
            condition = self.condition(tree)
        finally:
            self.frame.env = before
        if condition is not POISON:
            holds = either(negate(self.path), condition)
            self.constrain(Constraint(holds, "where", tree.span.text, tree.span))

    def _joined(self, choice: Choice, values: list[Value], span: Span) -> Value:
        if any(value is POISON for value in values):
            return POISON
        values = [self.settled(value, {choice}, span) for value in values]
        usual = self.only([value for value in values if value is not UNBOUND])
        values = [usual if value is UNBOUND else value for value in values]
        if not any(varies(value) for value in values):
            return case(choice, values)
        return switch(choice, values)

    # deciding

    def _decides(self, tree: Any) -> bool:
        """Whether evaluating an expression may make a choice or a node."""
        if isinstance(tree, ast.Call) and isinstance(tree.callee, ast.Name):
            name, known = tree.callee.text, self.frame.module.lookup(tree.callee.text) is not None
            if name in static.FUNCTIONS and name not in self.frame.env and not known:
                return self._decides(tree.arguments)
        if isinstance(tree, (ast.Choose, ast.Call, ast.Pipe)):
            return True
        if isinstance(tree, tuple):
            return any(self._decides(part) for part in tree)
        parts = (getattr(tree, f.name) for f in fields(tree) if f.name != "span") if isinstance(tree, ast.Tree) else ()
        return any(self._decides(part) for part in parts)

    def _label(self, tree: ast.Choose) -> str | None:
        name = tree.label or self.assigned
        self.assigned = None
        if name is None:
            self.error("A0505", "this choice has no name", tree.span, "write a label: `choose kernel(...)`")
            return None
        return name.text

    def _too_many(self, tree: ast.Expr, outcomes: int) -> Value:
        return self.error("A0508", f"a choice of {outcomes} outcomes is too large", tree.span)

    def decide(self, tree: ast.Choose, label: str, labels: Sequence[Label], take: int | None = None) -> Choice | None:
        """The choice at this place, new, or in a cell the one of its first call. None after an error."""
        span = tree.label.span if tree.label else tree.span
        if not labels:
            self.error("A0501", "a choice of nothing", tree.span)
            return None
        twice = repeated([str(name) for name in labels])
        if twice is not None:
            self.error("A0503", f"the alternative `{labels[twice]}` is there twice", tree.span)
            return None
        path = join(self.scope.choices, label + "".join(f"[{i}]" for i in self.scope.loops))
        self.spend(A_CHOICE + len(labels) / 4, span)
        places = _places(tree, len(labels))
        choice = Choice(path, tuple(labels), len(self.graph.decisions), take, frozenset(tree.tags), span, places)
        known = self.graph.decisions.get(path)
        if known is None:
            if self.cell is not None and self.cell.complete:
                self._differs(path, span)
                return None
            self.graph.decisions[path] = Decision(choice, self.path)
        elif self.cell is None or path in self.cell.met or not self.cell.complete:
            hint = "give each a label of its own: `choose label ...`"
            self.error("A0504", f"two choices are named `{path}`", span, hint, Note("the other one", known.choice.span))
            return None
        elif (known.choice.alternatives, known.choice.take) != (choice.alternatives, take):
            self._differs(path, span)
            return None
        else:
            choice = known.choice
            self.graph.decisions[path] = replace(known, active=either(known.active, self.path))
        if self.cell is not None:
            self.cell.met[path] = self.path
        return choice

    def _differs(self, path: str, span: Span) -> None:
        assert self.cell is not None
        self.cell_differs(path, self.cell, span)

    def under_choice(self, choice: Choice, outcomes: Sequence[int]) -> Any:
        """Code that runs only for some outcomes of a choice."""
        return self.under(when(choice, outcomes))

    # match

    def eval_match(self, tree: ast.Match) -> Value:
        """`match subject { pattern => value ... }`."""
        return self.match(tree, None)

    def match(self, tree: ast.Match, given: Given | None) -> Value:
        """The value of the first arm whose pattern equals the subject; what is piped in feeds every arm."""
        assigned, self.assigned = self.assigned, None
        subject = self.eval(tree.subject)
        if subject is POISON:
            return POISON
        found: list[tuple[Value, Value]] = []
        open_: Value = True
        for arm in tree.arms:
            holds: Value = False
            with self.under(open_) as possible:
                holds = self._matches(arm, subject) if possible else False
            if holds is POISON:
                return POISON
            taken = both(open_, holds)
            with self.under(taken) as possible:
                if possible:
                    self.assigned = assigned
                    value = self.eval(arm.value) if given is None else self.feed(arm.value, given)
                    found.append((taken, value))
            open_ = both(open_, negate(holds))
        self.assigned = None
        if self.lift(tree.subject.span, _covered, open_, subject) is POISON:
            return POISON
        return self.cases(found, tree.span)

    def _matches(self, arm: ast.Arm, subject: Value) -> Value:
        holds: Value = not arm.patterns
        for pattern in arm.patterns:
            same = self.compare("==", subject, self.eval(pattern), pattern.span)
            holds = self.lift(pattern.span, lambda a, b: a or b, holds, same)
        return holds


def repeated(names: Sequence[str]) -> int | None:
    """The position of the first name that was there before."""
    known: set[str] = set()
    for position, name in enumerate(names):
        if name in known:
            return position
        known.add(name)
    return None


def _places(tree: ast.Choose, count: int) -> tuple[Span, ...]:
    written: tuple[ast.Tree, ...] = ()
    if isinstance(tree, ast.ChooseOne):
        written = tree.alternatives
    elif isinstance(tree, ast.ChooseValue):
        written = tree.values
    return tuple(part.span for part in written) if len(written) == count else ()


def _covered(open_: bool, subject: Value) -> bool:
    if open_:
        raise RuleError(f"no arm matches {show(subject)}", "add an arm `else => ...`", "A0310")
    return True


def _labels(tree: ast.Expr, count: int) -> list[Label]:
    """Names of a list's elements: variables' names if they are variables, positions otherwise."""
    if isinstance(tree, ast.Sequence) and all(isinstance(item, ast.Name) for item in tree.items):
        names = [str(item) for item in tree.items]
        if len(set(names)) == len(names):
            return list(names)
    return list(range(count))


def _settled(value: Value, tree: ast.Expr | None = None) -> Candidate:
    """A candidate of a value that is known."""
    label = value if type(value) in (int, str) else show(value) if _plain(value) else None
    return Candidate(True, lambda: value, label, tree.text if isinstance(tree, ast.Name) else None, known=True)


def _called(candidates: Sequence[Candidate]) -> list[Label]:
    """Labels of candidates: by their values if all have one; if not, by variables and positions."""
    labels = [candidate.label for candidate in candidates if candidate.label is not None]
    if len(labels) == len(candidates):
        return labels
    names: list[Label] = [i if one.variable is None else one.variable for i, one in enumerate(candidates)]
    return names if len(set(names)) == len(names) else list(range(len(candidates)))


def _plain(value: Value) -> bool:
    """Whether a value can be written."""
    if isinstance(value, Items):
        return all(_plain(item) for item in value)
    return not isinstance(value, (Tensor, Library)) and not varies(value)


def _holds(leaf: Value, name: Hashable) -> bool:
    """Whether an item is in a list. RuleError if it is there twice."""
    count = [key(item) for item in leaf].count(name) if isinstance(leaf, (Items, range)) else int(key(leaf) == name)
    if count > 1:
        twice = next(item for item in leaf if key(item) == name)
        raise RuleError(f"the alternative `{show(twice)}` is there twice", code="A0503")
    return count == 1
