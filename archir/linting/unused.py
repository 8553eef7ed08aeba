"""Lint rules for choices, parameters and imports without effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from archir.diagnostics.errors import Diagnostic, Note
from archir.diagrams.diagram import support
from archir.language.elaboration.module import Module
from archir.language.elaboration.name_analysis import names_read, walk
from archir.language.syntax import ast
from archir.linting.subject import Subject, more_note


def unused_choices(subject: Subject) -> Iterator[Diagnostic]:
    """A1403: warn about a choice without effect.

    Such a choice has a single outcome, or affects no node, no constraint and no other effective choice.

    There is no warning about a single outcome if the same source line also makes choices with several outcomes. For
    example, the first node of a cell that chooses two of its inputs may have only two inputs.
    """
    graph = subject.graph
    used = subject.attribute_choices | subject.selects.keys()
    for constraint in graph.constraints:
        used |= {choice.path for choice in support(constraint.condition, constraint.limit)}
    for path, decision in reversed(graph.decisions.items()):  # a choice's condition depends on earlier choices only
        if path in used:
            used |= {choice.path for choice in support(decision.active)}
    for choices in subject.choices_by_place:
        single = all(choice.outcome_count == 1 for choice in choices)
        idle = [choice for choice in choices if single or (choice.outcome_count > 1 and choice.path not in used)]
        if idle:
            reason = "there is one outcome" if single else "no operation depends on it"
            yield Diagnostic(
                "A1403",
                f"`{idle[0].path}` changes nothing: {reason}",
                idle[0].span,
                "use its value, or drop the choice",
                more_note(len(idle) - 1),
                "warning",
            )


def unused_parameters(module: Module) -> Iterator[Diagnostic]:
    """A1406: warn about an unread parameter of a net, or of a block that is called in this file.

    Blocks passed as values are left out, since the callee determines which parameters they must have.
    """
    called, passed = _uses(module)
    for definition in module.definitions():
        name = definition.name.text
        if definition.word != "net" and (name not in called or name in passed):
            continue
        read = names_read((definition.params, definition.body))
        for parameter in definition.params:
            if parameter.name.text not in read:
                text = f"{definition.word} `{name}` does not read its parameter `{parameter.name}`"
                yield Diagnostic("A1406", text, parameter.name.span, "drop it", (), "warning")


def unused_imports(module: Module) -> Iterator[Diagnostic]:
    """A1407: warn about an import none of whose names is used in the file."""
    read = names_read(module.tree)
    imports = [item for item in module.tree.items if isinstance(item, ast.Import)]
    for item, imported_module in zip(imports, module.imports, strict=True):
        imported_names = {item.alias.text} if item.alias is not None else set(imported_module.exported_names())
        if not imported_names & read:
            yield Diagnostic("A1407", f"nothing of `{item.path}` is used", item.span, "drop the import", (), "warning")


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


def _uses(module: Module) -> tuple[set[str], set[str]]:
    """Return the names that a file calls, and the names that it passes as values."""
    uses: Counter[str] = Counter()
    called: Counter[str] = Counter()
    for tree in walk(module.tree):
        match tree:
            case ast.Name():
                uses[tree.text] += 1
            case ast.Call(callee=ast.Name() as callee):
                called[callee.text] += 1
            case ast.Pipe():
                called.update(target.text for target in tree.targets if isinstance(target, ast.Name))
    return set(called), set(uses - called)


def _reads(tree: object, name: str) -> int:
    """Return how often a name is read in a syntax tree."""
    return sum(isinstance(part, ast.Name) and part.text == name for part in walk(tree))
