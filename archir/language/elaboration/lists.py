"""Evaluates lists and comprehensions whose elements may exist for only some outcomes of choices."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial

from archir.diagnostics.errors import RuleError, Span
from archir.diagrams.conditions import conjoin
from archir.diagrams.diagram import Value, leaves
from archir.language.elaboration import static
from archir.language.elaboration.network import GraphBuilder
from archir.language.elaboration.values import POISON, Items, kind
from archir.language.syntax import ast

MAX_ITERATIONS = 100_000
"""Maximum length of a list that a loop iterates over."""

Element = Callable[[], Value]
"""Function that evaluates one list element."""


class ListEvaluator(GraphBuilder):
    """Evaluates lists, comprehensions, and assignments that unpack lists."""

    @abstractmethod
    def eval(self, tree: ast.Expr) -> Value:
        """Evaluate an expression."""

    @abstractmethod
    def condition(self, tree: ast.Expr) -> Value:
        """Evaluate an expression that must be a bool."""

    def eval_sequence(self, tree: ast.Sequence) -> Value:
        """Evaluate a list or tuple."""
        return self.items([self.eval(item) for item in tree.items], tree.span)

    def items(self, values: list[Value], span: Span) -> Value:
        """Return a list of values; POISON after an error."""
        if any(value is POISON for value in values):
            return POISON
        try:
            return Items(values)
        except RuleError as error:
            return self.report_rule_error(error, span)

    def eval_comprehension(self, tree: ast.Comprehension) -> Value:
        """Evaluate a comprehension to a list."""
        elements = self.elements(tree)
        if elements is None:
            return POISON
        values: list[tuple[Value, Value]] = []
        for exists, element in elements:
            with self.under(exists) as possible:
                if possible:
                    values.append((exists, element()))
        return self.existing_items(values, tree.span)

    def existing_items(self, values: list[tuple[Value, Value]], span: Span) -> Value:
        """Build a list from (condition, value) pairs; it contains each value where the condition holds."""
        if any(value is POISON for _, value in values):
            return POISON
        unconditional = next((i for i, (exists, _) in enumerate(values) if exists is not True), len(values))
        result = self.items([value for _, value in values[:unconditional]], span)
        for exists, value in values[unconditional:]:
            result = self.lift(
                span, lambda here, items, value=value: Items((*items, value)) if here else items, exists, result
            )
        return result

    def elements(self, tree: ast.Expr) -> list[tuple[Value, Element]] | None:
        """Return the elements of a list, not evaluated: pairs of existence condition and evaluating function.

        Because of this, a choice inside an element is made only if the element is picked. Returns None after an error.
        """
        if isinstance(tree, ast.Sequence):
            return [(True, partial(self.eval, item)) for item in tree.items]
        if not isinstance(tree, ast.Comprehension):
            value = self.checked(tree.span, static.sequence, self.eval(tree))
            if value is POISON:
                return None
            return self.each(value, tree.span)
        elements: list[tuple[Value, Element]] = []
        if not self._comprehend(tree, tree.parts, True, elements):
            return None
        return [(self.restricted(exists), element) for exists, element in elements]

    def _comprehend(
        self,
        tree: ast.Comprehension,
        parts: tuple[ast.For | ast.Filter, ...],
        exists_here: Value,
        elements: list[tuple[Value, Element]],
    ) -> bool:
        """Process the remaining `for` and filter parts of a comprehension, appending its elements to `elements`.

        Returns False after an error.
        """
        self.step(tree.span)
        if not parts:
            self.spend(len(self.frame.env) / 2, tree.span)
            env, loops = dict(self.frame.env), self.scope.loops

            def element() -> Value:
                before, self.frame.env = self.frame.env, env
                outer, self.scope.loops = self.scope.loops, loops
                try:
                    return self.eval(tree.item)
                finally:
                    self.frame.env, self.scope.loops = before, outer

            elements.append((exists_here, element))
            return True
        part, *remaining = parts
        if isinstance(part, ast.Filter):
            condition = self.condition(part.condition)
            if condition is POISON:
                return False
            with self.under(condition) as possible:
                return not possible or self._comprehend(
                    tree, tuple(remaining), conjoin(exists_here, condition), elements
                )
            return True
        value = self.checked(part.items.span, static.sequence, self.eval(part.items))
        if value is POISON:
            return False
        self.spend(len(self.frame.env) / 2, tree.span)
        env, loops = dict(self.frame.env), self.scope.loops
        try:
            for position, (exists, item) in enumerate(self.each(value, part.items.span)):
                self.scope.loops = (*loops, position)
                with self.under(exists):
                    if not self.bind(part.targets, item()):
                        return False
                    if not self._comprehend(tree, tuple(remaining), conjoin(exists_here, exists), elements):
                        return False
        finally:
            self.frame.env, self.scope.loops = env, loops
        return True

    def each(self, value: Value, span: Span) -> list[tuple[Value, Element]]:
        """Return pairs (existence condition, evaluating function) for the items of a list whose length may depend on
        choices."""
        longest = max(len(leaf) for leaf in leaves(value))
        if longest > MAX_ITERATIONS:
            self.abort("A0603", f"a list of {longest} items is too long", span)
        elements: list[tuple[Value, Element]] = []
        for position in range(longest):
            self.step(span)
            exists = self.lift(span, lambda leaf, position=position: len(leaf) > position, value)
            if exists is False:
                break
            item = partial(self.lift, span, lambda leaf, position=position: leaf[position], value)
            elements.append((exists, item))
        return elements

    def bind(self, targets: tuple[ast.Name, ...], value: Value) -> bool:
        """Assign a value to the targets, unpacking it if there are several; return False after an error."""
        if len(targets) == 1:
            self.frame.env[targets[0].text] = value
            return value is not POISON
        span = targets[0].span.to(targets[-1].span)

        def check(leaf: Value) -> Value:
            if not isinstance(leaf, Items):
                raise RuleError(f"cannot unpack {kind(leaf)} into {len(targets)} names", code="A0306")
            if len(leaf) != len(targets):
                raise RuleError(f"cannot unpack {len(leaf)} values into {len(targets)} names", code="A0306")
            return leaf

        value = self.lift(span, check, value)
        for position, target in enumerate(targets):
            item = self.lift(span, lambda leaf, position=position: leaf[position], value)
            self.frame.env[target.text] = item
        return value is not POISON
