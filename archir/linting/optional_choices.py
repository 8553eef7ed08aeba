"""Lint rule for choices that have no effect in architectures without a repeated part."""

from __future__ import annotations

from collections.abc import Iterator

from archir.diagnostics.errors import Diagnostic, Note
from archir.language.elaboration.module import Module
from archir.language.elaboration.name_analysis import walk
from archir.language.syntax import ast


def choices_of_absent_loops(module: Module) -> Iterator[Diagnostic]:
    """A1415: warn about a choice whose value is read only inside a `repeat` that some architectures leave out.

    In these architectures the choice has no effect, so that several architectures are the same network.
    """
    for definition in module.definitions():
        choices = {
            statement.targets[0].text: (statement.targets[0], statement.value)
            for statement in definition.body
            if isinstance(statement, ast.Assign)
            and len(statement.targets) == 1
            and isinstance(statement.value, ast.Choose)
        }
        loops = [statement for statement in definition.body if isinstance(statement, ast.Repeat)]
        for name, (target, _) in choices.items():
            around = [loop for loop in loops if _reads(loop.body, name)]
            if len(around) != 1 or _reads(definition.body, name) != _reads(around[0].body, name):
                continue
            times = around[0].times
            count = choices[times.text][1] if isinstance(times, ast.Name) and times.text in choices else times
            if isinstance(count, ast.ChooseValue) and any(
                isinstance(value, ast.Literal) and value.value == 0 for value in count.values
            ):
                yield Diagnostic(
                    "A1415",
                    f"the choice `{name}` has no effect in architectures without the `repeat` that reads it",
                    target.span,
                    "let the number of rounds begin with 1; or compare architectures by `archir count --unique`",
                    (Note("this may repeat 0 times", times.span),),
                    "warning",
                )


def _reads(tree: object, name: str) -> int:
    """Return how often a name is read in a syntax tree."""
    return sum(isinstance(part, ast.Name) and part.text == name for part in walk(tree))
