"""Choices: the three forms of `choose`, and `match` on what was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from archir.build import static
from archir.build.calls import Caller, Given
from archir.build.context import Scope, join
from archir.build.values import POISON, UNBOUND, show
from archir.cases import MOST_OUTCOMES, Choice, Label, Value, case, either, lift, negate, subsets, when
from archir.errors import Note, RuleError, Span
from archir.ir.graph import Constraint, Decision
from archir.syntax import ast


class Chooser(Caller):
    """Evaluates choices. A choice is named by its label, or by the variable it is assigned to."""

    def eval_choose_value(self, tree: ast.ChooseValue) -> Value:
        """`choose kernel(3, 5, 7)`; one argument that is a list stands for its items."""
        label = self._label(tree)
        if label is None:
            return POISON
        if not any(_decides(value) for value in tree.values):
            return self._choose_settled(tree, label)
        labels = [value.text if isinstance(value, ast.Name) else i for i, value in enumerate(tree.values)]
        return self._choose_from(tree, label, labels, [lambda value=value: self.eval(value) for value in tree.values])

    def _choose_settled(self, tree: ast.ChooseValue, label: str) -> Value:
        values = [self.eval(value) for value in tree.values]
        if any(value is POISON for value in values):
            return POISON
        if len(values) == 1:
            items = self.lift(tree.values[0].span, lambda leaf: leaf, values[0])
            if isinstance(items, (tuple, range)):
                if len(items) > MOST_OUTCOMES:
                    return self._too_many(tree, len(items))
                values = list(items)
        labels: list[Label] = [v if type(v) in (int, str) else show(v) for v in values]
        return self._choose_from(tree, label, labels, [lambda value=value: value for value in values])

    def _choose_from(self, tree: ast.Choose, label: str, labels: Sequence[Label], values: Sequence[Any]) -> Value:
        choice = self.decide(tree, label, labels)
        if choice is None:
            return POISON
        found = []
        for outcome, value in enumerate(values):
            with self.under_choice(choice, [outcome]) as possible:
                found.append(value() if possible else UNBOUND)
        return self._joined(choice, found, tree.span)

    def eval_choose_one(self, tree: ast.ChooseOne) -> Value:
        """`choose op { name: expr ... }`."""
        return self.choose_one(tree, None)

    def choose_one(self, tree: ast.ChooseOne, given: Given | None) -> Value:
        """A choice among expressions; what is piped in feeds every alternative."""
        label = self._label(tree)
        if label is None or (given is not None and given.value is POISON):
            return POISON
        names = [alternative.name for alternative in tree.alternatives]
        for position, name in enumerate(names):
            if name.text in (other.text for other in names[:position]):
                return self.error("A0503", f"the alternative `{name}` is there twice", name.span)
        choice = self.decide(tree, label, [name.text for name in names])
        if choice is None:
            return POISON
        values = []
        component = choice.path.rsplit(".", 1)[-1]
        for outcome, alternative in enumerate(tree.alternatives):
            below = f"{component}.{alternative.name}"
            made = Scope(join(self.scope.path, below), join(self.scope.choices, below))
            with self.inside(made), self.under_choice(choice, [outcome]) as possible:
                values.append(self._alternative(alternative.value, given) if possible else UNBOUND)
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
        if not isinstance(take, int) or any(here is not True for here, _ in elements):
            return self.error("A0506", "how many there are to choose from must not depend on a choice", tree.span)
        if not 1 <= take <= len(elements):
            return self.error("A0502", f"cannot take {take} of {len(elements)}", tree.take.span.to(tree.items.span))
        if subsets(len(elements), take) > MOST_OUTCOMES:
            return self._too_many(tree, subsets(len(elements), take))
        choice = self.decide(tree, label, _labels(tree.items, len(elements)), take)
        if choice is None:
            return POISON
        values = []
        for position, (_, element) in enumerate(elements):
            with self.under_choice(choice, [o for o, s in enumerate(choice.subsets) if position in s]) as possible:
                values.append(element() if possible else UNBOUND)
        if any(value is POISON for value in values):
            return POISON
        values = [self.settled(value, {choice}, tree.span) for value in values]
        outcome = case(choice, range(choice.outcomes))
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
        known = [value for value in values if value is not UNBOUND]
        values = [known[0] if value is UNBOUND else value for value in values]
        return lift(lambda outcome: values[outcome], case(choice, range(choice.outcomes)))

    # deciding

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
        for position, name in enumerate(labels):
            if str(name) in map(str, labels[:position]):
                self.error("A0503", f"the alternative `{name}` is there twice", tree.span)
                return None
        path = join(self.scope.choices, label + "".join(f"[{i}]" for i in self.scope.loops))
        choice = Choice(path, tuple(labels), len(self.graph.decisions), take, frozenset(tree.tags), span)
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
            self.cell.met[path] = self.cell_path
        return choice

    def _differs(self, path: str, span: Span) -> None:
        assert self.cell is not None
        name = next(name for name, cell in self.cells.items() if cell is self.cell)
        self.cell_differs(name, path, self.cell, span)

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
        result: Value = UNBOUND
        open_: Value = True
        for arm in tree.arms:
            holds = self._matches(arm, subject)
            if holds is POISON:
                return POISON
            taken = lift(lambda a, b: a and b, open_, holds)
            with self.under(taken) as possible:
                if possible:
                    self.assigned = assigned
                    value = self.eval(arm.value) if given is None else self.feed(arm.value, given)
                    if value is POISON:
                        return POISON
                    result = value if result is UNBOUND else self.merged(taken, value, result, tree.span)
            open_ = lift(lambda a, b: a and not b, open_, holds)
        self.assigned = None
        if self.lift(tree.subject.span, _covered, open_, subject) is POISON:
            return POISON
        return result

    def _matches(self, arm: ast.Arm, subject: Value) -> Value:
        holds: Value = not arm.patterns
        for pattern in arm.patterns:
            same = self.compare("==", subject, self.eval(pattern), pattern.span)
            holds = self.lift(pattern.span, lambda a, b: a or b, holds, same)
        return holds


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


def _decides(tree: Any) -> bool:
    """Whether evaluating an expression may make a choice or a node."""
    if isinstance(tree, (ast.Choose, ast.Call, ast.Pipe)):
        return True
    if isinstance(tree, tuple):
        return any(_decides(part) for part in tree)
    return isinstance(tree, ast.Tree) and any(_decides(getattr(tree, f.name)) for f in fields(tree) if f.name != "span")
