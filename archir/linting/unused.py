"""What is written and has no effect: choices, parameters, imports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from archir.diagnostics.errors import Diagnostic
from archir.diagrams.cases import support
from archir.language.elaboration.files import Module
from archir.language.elaboration.locals import names_read, walk
from archir.language.syntax import ast
from archir.linting.subject import Subject, others


def unused_choices(subject: Subject) -> Iterator[Diagnostic]:
    """A1403: a choice that no node, no condition and no other choice that matters depends on, or of a single outcome.

    A single outcome is fine where the same line makes choices of more: the first node of a cell may have two inputs to
    choose two of.
    """
    graph = subject.graph
    used = subject.attributes | subject.selects.keys()
    for constraint in graph.constraints:
        used |= {choice.path for choice in support(constraint.condition, constraint.limit)}
    for path, decision in reversed(graph.decisions.items()):  # what a choice is active under was made before it
        if path in used:
            used |= {choice.path for choice in support(decision.active)}
    for choices in subject.written:
        single = all(choice.outcomes == 1 for choice in choices)
        idle = [choice for choice in choices if single or (choice.outcomes > 1 and choice.path not in used)]
        if idle:
            reason = "there is one outcome" if single else "no operation depends on it"
            yield Diagnostic(
                "A1403",
                f"`{idle[0].path}` changes nothing: {reason}",
                idle[0].span,
                "use its value, or drop the choice",
                others(len(idle) - 1),
                "warning",
            )


def unused_parameters(module: Module) -> Iterator[Diagnostic]:
    """A1406: a parameter of a net, or of a block that this file calls, which nothing reads.

    Not of blocks that are passed on as values: what they take is up to those who call them.
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
    """A1407: an import of which no name is used."""
    read = names_read(module.tree)
    imports = [item for item in module.tree.items if isinstance(item, ast.Import)]
    for item, other in zip(imports, module.imports, strict=True):
        brought = {item.alias.text} if item.alias is not None else set(other.brings())
        if not brought & read:
            yield Diagnostic("A1407", f"nothing of `{item.path}` is used", item.span, "drop the import", (), "warning")


def _uses(module: Module) -> tuple[set[str], set[str]]:
    """The names that a file calls, and those that it passes on as values."""
    every: Counter[str] = Counter()
    called: Counter[str] = Counter()
    for tree in walk(module.tree):
        match tree:
            case ast.Name():
                every[tree.text] += 1
            case ast.Call(callee=ast.Name() as callee):
                called[callee.text] += 1
            case ast.Pipe():
                called.update(target.text for target in tree.targets if isinstance(target, ast.Name))
    return set(called), set(every - called)
