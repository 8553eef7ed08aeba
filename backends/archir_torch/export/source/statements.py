"""Emission of constructors and forward functions; statements are merged if the result stays readable."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from torch import nn

from archir_torch.export.source.holes import tidy

MODULE = "\N{SYMBOL FOR SHIFT IN}"
"""Placeholder for the submodule that a statement calls."""

MAX_STATEMENT_WIDTH = 88
"""Maximum width in characters of a statement into which the previous one is merged."""

MAX_CONTAINER_WIDTH = 100
"""Maximum width in characters of a list or dict of one module that is emitted on one line."""

MAX_CONSTRUCTOR_WIDTH = 110
"""Maximum width in characters of a constructor call that is emitted on one line."""


@dataclass(frozen=True)
class Path:
    """Path of a submodule relative to its block: `layer[0][1]` has the parts ("layer", "0", "1")."""

    parts: tuple[str, ...]

    def text(self, lists: set[tuple[str, ...]]) -> str:
        """Return the expression that reads the submodule in its class; `lists` are the paths of module lists."""
        first = self.parts[0]
        safe = first.isidentifier() and not keyword.iskeyword(first) and not hasattr(nn.Module(), first)
        read = f"self.{first}" if safe else f'self._modules["{first}"]'
        for end, part in enumerate(self.parts[1:], 1):
            read += f"[{part}]" if self.parts[:end] in lists else f'["{part}"]'
        return read


@dataclass(frozen=True)
class Line:
    """A statement `targets = text`; in the text, MODULE stands for the submodule at `path`.

    `only_next` is True if the target is read only once, by the next statement.
    """

    targets: tuple[str, ...]
    operands: tuple[str, ...]
    path: Path | None
    text: str = ""
    only_next: bool = False


def lists_of(paths: Sequence[Path]) -> set[tuple[str, ...]]:
    """Return the paths that can be module lists: those whose children are numbered 0, 1, ... in order."""
    inside: dict[tuple[str, ...], list[str]] = {}
    for path in paths:
        for end in range(1, len(path.parts)):
            parts = inside.setdefault(path.parts[:end], [])
            if path.parts[end] not in parts:
                parts.append(path.parts[end])
    return {parent for parent, parts in inside.items() if parts == [str(i) for i in range(len(parts))]}


def assignments(modules: Sequence[tuple[Path, str]]) -> list[str]:
    """Return the lines of a constructor that assign submodules, and lists and dicts of submodules, to attributes."""
    trees: dict[str, Any] = {}
    for path, text in modules:
        parent, (*parts, last) = trees, path.parts
        for part in parts:
            parent = parent.setdefault(part, {})
        parent[last] = text
    lines: list[str] = []
    for name, tree in trees.items():
        lines += _construct(f"{Path((name,)).text(set())} = ", tree, "")
    return lines


def _construct(prefix: str, tree: Any, suffix: str) -> list[str]:
    """Return the lines that construct a module, or a list or dict of modules, between a prefix and a suffix."""
    if isinstance(tree, str):
        single_line = f"{prefix}{tree}{suffix}"
        if len(single_line) <= MAX_CONSTRUCTOR_WIDTH:
            return [single_line]
        name, _, arguments = tree.partition("(")
        return [f"{prefix}{name}(", f"    {arguments[:-1]}", f"){suffix}"]
    dense = [*tree] == [str(i) for i in range(len(tree))]
    opening, closing = ("nn.ModuleList([", "])") if dense else ("nn.ModuleDict({", "})")
    entries = [_construct("" if dense else f'"{key}": ', value, ",") for key, value in tree.items()]
    inside: list[str] = []
    for entry, run in groupby(entries):
        count = len(list(run))
        if dense and count > 2 and len(entry) == 1:
            inside.append(f"*({entry[0][:-1]} for _ in range({count})),")
        else:
            inside += [line for _ in range(count) for line in entry]
    if len(inside) == 1 and len(short := f"{prefix}{opening}{inside[0][:-1]}{closing}{suffix}") <= MAX_CONTAINER_WIDTH:
        return [short]
    return [f"{prefix}{opening}", *(f"    {line}" for line in inside), f"{closing}{suffix}"]


def forward_lines(lines: Sequence[Line], returns: str, paths: Sequence[Path]) -> list[str]:
    """Return the lines of a forward function. Consecutive calls of all modules of a list become a loop."""
    lists = lists_of(paths)
    result: list[str] = []
    position = 0
    pending: tuple[str, str] | None = None  # a variable that only the next statement reads, and its value
    while position < len(lines):
        line = lines[position]
        count = _loop_length(lines, position, paths) if pending is None else 0
        if count > 1:
            assert line.path is not None
            parent = Path(line.path.parts[:-1]).text(lists)
            result += [f"for layer in {parent}:", f"    {line.targets[0]} = layer({line.targets[0]})"]
            position += count
            continue
        text = line.text.replace(MODULE, line.path.text(lists)) if line.path is not None else line.text
        if pending is not None:
            merged = _substitute(text, *pending)
            if merged is None:
                result += _assign(*pending)
            text = merged or text
        pending = (line.targets[0], text) if line.only_next else None
        if pending is None:
            result += _assign(", ".join(line.targets), text)
        position += 1
    if pending is not None:
        merged = _substitute(returns, *pending)
        if merged is None:
            result += _assign(*pending)
        return [*result, f"return {merged or returns}"]
    return [*result, f"return {returns}"]


def _assign(target: str, text: str) -> list[str]:
    """Return an assignment as a list of lines; empty if a variable would be assigned to itself."""
    return [f"{target} = {text}"] if target != text else []


def _substitute(text: str, name: str, value: str) -> str | None:
    """Substitute a variable's value into an expression; None if the result would be hard to read."""
    tree = ast.parse(text, mode="eval")
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    if len(uses) != 1 or ast.unparse(tree.body) == name:
        return value if ast.unparse(tree.body) == name else None
    replaced = _ReplaceName(name, ast.parse(value, mode="eval").body).visit(tree)
    merged = tidy(ast.unparse(replaced))
    depth = merged.count("(")
    return merged if len(merged) <= MAX_STATEMENT_WIDTH and depth <= 4 else None


class _ReplaceName(ast.NodeTransformer):
    """Syntax tree transformer that replaces a name by an expression."""

    def __init__(self, name: str, value: ast.expr) -> None:
        self.name, self.value = name, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.value if node.id == self.name else node


def _loop_length(lines: Sequence[Line], start: int, paths: Sequence[Path]) -> int:
    """Return how many lines, from `start` on, can become a loop over a module list; 0 if there is no loop.

    The lines must call all modules of the list in order, each on the result of the previous line.
    """
    path = lines[start].path
    if path is None or len(path.parts) < 2 or path.parts[-1] != "0":
        return 0
    parent = path.parts[:-1]
    size = len({other.parts for other in paths if other.parts[: len(parent)] == parent})
    count = 0
    for line in lines[start:]:
        is_next = line.path is not None and line.path.parts == (*parent, str(count))
        if not is_next or not line.targets == line.operands == lines[start].targets or len(line.targets) != 1:
            break
        count += 1
    return count if count == size else 0
