"""Lists: whose elements may exist or not, as choices have it, and that a choice may be made of one by one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial

from archir.diagnostics.errors import RuleError, Span
from archir.diagrams.cases import Value, leaves
from archir.diagrams.conditions import both
from archir.language.elaboration import static
from archir.language.elaboration.network import Network
from archir.language.elaboration.values import POISON, Items, kind
from archir.language.syntax import ast

MOST_TIMES = 100_000
"""Iterations of one loop."""

Element = Callable[[], Value]


class Lists(Network):
    """Evaluates lists, and what goes through them."""

    @abstractmethod
    def eval(self, tree: ast.Expr) -> Value:
        """The value of an expression."""

    @abstractmethod
    def condition(self, tree: ast.Expr) -> Value:
        """An expression that must be true or false."""

    def eval_sequence(self, tree: ast.Sequence) -> Value:
        """A list or tuple."""
        return self.items([self.eval(item) for item in tree.items], tree.span)

    def items(self, values: list[Value], span: Span) -> Value:
        """A list value."""
        if any(value is POISON for value in values):
            return POISON
        try:
            return Items(values)
        except RuleError as error:
            return self.refuse(error, span)

    def eval_comprehension(self, tree: ast.Comprehension) -> Value:
        """All elements of a comprehension, as a list."""
        elements = self.elements(tree)
        if elements is None:
            return POISON
        found: list[tuple[Value, Value]] = []
        for exists, element in elements:
            with self.under(exists) as possible:
                if possible:
                    found.append((exists, element()))
        return self.gathered(found, tree.span)

    def gathered(self, found: list[tuple[Value, Value]], span: Span) -> Value:
        """The list of those values that exist, each with the condition under which it does."""
        if any(value is POISON for _, value in found):
            return POISON
        sure = next((i for i, (exists, _) in enumerate(found) if exists is not True), len(found))
        result = self.items([value for _, value in found[:sure]], span)
        for exists, value in found[sure:]:
            result = self.lift(
                span, lambda here, items, value=value: Items((*items, value)) if here else items, exists, result
            )
        return result

    def elements(self, tree: ast.Expr) -> list[tuple[Value, Element]] | None:
        """The elements of a list before they are evaluated: the condition under which each exists, and how to get it.

        Choices met in an element can so be made conditional on the element's being picked. None after an error.
        """
        if isinstance(tree, ast.Sequence):
            return [(True, partial(self.eval, item)) for item in tree.items]
        if not isinstance(tree, ast.Comprehension):
            value = self.checked(tree.span, static.sequence, self.eval(tree))
            if value is POISON:
                return None
            return self.each(value, tree.span)
        found: list[tuple[Value, Element]] = []
        if not self._comprehend(tree, tree.parts, True, found):
            return None
        return [(self.here(exists), element) for exists, element in found]

    def _comprehend(
        self,
        tree: ast.Comprehension,
        parts: tuple[ast.For | ast.Filter, ...],
        here: Value,
        found: list[tuple[Value, Element]],
    ) -> bool:
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

            found.append((here, element))
            return True
        part, *rest = parts
        if isinstance(part, ast.Filter):
            condition = self.condition(part.condition)
            if condition is POISON:
                return False
            with self.under(condition) as possible:
                return not possible or self._comprehend(tree, tuple(rest), both(here, condition), found)
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
                    if not self._comprehend(tree, tuple(rest), both(here, exists), found):
                        return False
        finally:
            self.frame.env, self.scope.loops = env, loops
        return True

    def each(self, value: Value, span: Span) -> list[tuple[Value, Element]]:
        """The items of a list whose length may depend on choices: the condition under which each exists, and how to
        get it there."""
        longest = max(len(leaf) for leaf in leaves(value))
        if longest > MOST_TIMES:
            self.stop("A0603", f"a list of {longest} items is too long", span)
        found: list[tuple[Value, Element]] = []
        for position in range(longest):
            self.step(span)
            exists = self.lift(span, lambda leaf, position=position: len(leaf) > position, value)
            if exists is False:
                break
            item = partial(self.lift, span, lambda leaf, position=position: leaf[position], value)
            found.append((exists, item))
        return found

    def bind(self, targets: tuple[ast.Name, ...], value: Value) -> bool:
        """Assign a value, taken apart if there are several targets; whether that worked."""
        if len(targets) == 1:
            self.frame.env[targets[0].text] = value
            return value is not POISON
        span = targets[0].span.to(targets[-1].span)

        def check(leaf: Value) -> Value:
            if not isinstance(leaf, Items):
                raise RuleError(f"cannot take {kind(leaf)} apart into {len(targets)} names", code="A0306")
            if len(leaf) != len(targets):
                raise RuleError(f"cannot take {len(leaf)} values apart into {len(targets)} names", code="A0306")
            return leaf

        value = self.lift(span, check, value)
        for position, target in enumerate(targets):
            item = self.lift(span, lambda leaf, position=position: leaf[position], value)
            self.frame.env[target.text] = item
        return value is not POISON
