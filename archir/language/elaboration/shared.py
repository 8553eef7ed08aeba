"""Weights that calls share on purpose: those of `f(x, weights="table")` are those of every such call in the block."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from archir.diagnostics.errors import Span
from archir.diagrams.cases import Value
from archir.language.elaboration.context import WEIGHTS, Scope, join
from archir.language.elaboration.evaluate import Evaluator
from archir.language.elaboration.values import show


@dataclass(frozen=True)
class Given:
    """An argument that was evaluated."""

    name: str | None
    value: Value
    span: Span


class Sharer(Evaluator):
    """Finds the scopes of weights that calls share."""

    repeated = 0
    """How many calls that share weights are in progress: blocks in them stand for no scope of their own."""

    def apart(self, given: list[Given], parameters: Container[str]) -> tuple[list[Given], Given | None]:
        """The arguments of a call, and the one that names its weights."""
        found = None if WEIGHTS in parameters else next((one for one in given if one.name == WEIGHTS), None)
        return [one for one in given if one is not found], found

    def set_of(self, argument: Given) -> Scope | None:
        """The scope of weights of this name, in the call of a block that names them. None after an error."""
        home, name = self.frame.home, argument.value
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*", name):
            text = f'`{WEIGHTS}` names the weights that calls share, such as "table"; got {show(name)}'
            self.error("A0309", text, argument.span)
            return None
        if name in home.used and name not in home.shared:
            hint = "give the weights that are shared another name"
            self.error("A0409", f"`{name}` is the name of something else here", argument.span, hint)
            return None
        home.used.add(name)
        home.shared.add(name)
        return Scope(join(home.path, name), join(home.choices, name))

    @contextmanager
    def repeating(self) -> Iterator[None]:
        """A call of which there may be more with the same weights."""
        self.repeated += 1
        try:
            yield
        finally:
            self.repeated -= 1
