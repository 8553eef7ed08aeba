"""Weight sharing: calls `f(x, weights="table")` within one call of a block share their weights."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from archir.diagnostics.errors import Span
from archir.diagrams.diagram import Value
from archir.language.elaboration.context import WEIGHTS
from archir.language.elaboration.evaluate import ExpressionEvaluator
from archir.language.elaboration.frame import Scope, join
from archir.language.elaboration.values import show


@dataclass(frozen=True)
class ArgValue:
    """Evaluated argument of a call; `name` is None for a positional argument."""

    name: str | None
    value: Value
    span: Span


class WeightSharing(ExpressionEvaluator):
    """Resolves `weights=` arguments to scopes of shared weights."""

    sharing_depth = 0
    """Number of enclosing calls with shared weights; blocks called inside them are not recorded in `graph.blocks`."""

    def split_weights_arg(
        self, args: list[ArgValue], parameters: Container[str]
    ) -> tuple[list[ArgValue], ArgValue | None]:
        """Split off the argument `weights=`, which names shared weights; None if there is none.

        If the callee has a parameter called `weights` (among `parameters`), `weights=` is an ordinary argument.
        """
        weights_arg = None if WEIGHTS in parameters else next((arg for arg in args if arg.name == WEIGHTS), None)
        return [arg for arg in args if arg is not weights_arg], weights_arg

    def weights_scope(self, argument: ArgValue) -> Scope | None:
        """Return the scope of the shared weights that an argument names, below the scope of the current block call.

        Returns None after an error.
        """
        base_scope, name = self.frame.base_scope, argument.value
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*", name):
            text = f'`{WEIGHTS}` must be a name for the weights that calls share, such as "table"; got {show(name)}'
            self.error("A0309", text, argument.span)
            return None
        if name in base_scope.used and name not in base_scope.shared:
            hint = "give the weights that are shared another name"
            self.error("A0409", f"`{name}` is used for other weights here", argument.span, hint)
            return None
        base_scope.used.add(name)
        base_scope.shared.add(name)
        return Scope(join(base_scope.path, name), join(base_scope.choices, name))

    @contextmanager
    def sharing(self) -> Iterator[None]:
        """Context manager for the evaluation of a call with shared weights."""
        self.sharing_depth += 1
        try:
            yield
        finally:
            self.sharing_depth -= 1
