"""How constructors and forward functions of classes are written."""

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

WIDTH = 88
"""Characters up to which one statement is written into the next one."""

LONGEST = 100
"""Characters up to which a list or dict of one module is one line."""

MOST = 110
"""Characters up to which a constructor is one line."""


@dataclass(frozen=True)
class Path:
    """A name below a block, such as `layer[0][1]`: its components."""

    parts: tuple[str, ...]

    def text(self, lists: set[tuple[str, ...]]) -> str:
        """How the class that holds it reads it; `lists` are the paths of its lists of modules."""
        first = self.parts[0]
        safe = first.isidentifier() and not keyword.iskeyword(first) and not hasattr(nn.Module(), first)
        read = f"self.{first}" if safe else f'self._modules["{first}"]'
        for end, part in enumerate(self.parts[1:], 1):
            read += f"[{part}]" if self.parts[:end] in lists else f'["{part}"]'
        return read


@dataclass(frozen=True)
class Line:
    """A statement `targets = ...`: an expression, in which MODULE stands for the module at the path."""

    targets: tuple[str, ...]
    operands: tuple[str, ...]
    path: Path | None
    text: str = ""
    only_next: bool = False


def lists_of(paths: Sequence[Path]) -> set[tuple[str, ...]]:
    """The paths of what can be lists: all positions from 0 on are there, in order."""
    inside: dict[tuple[str, ...], list[str]] = {}
    for path in paths:
        for end in range(1, len(path.parts)):
            parts = inside.setdefault(path.parts[:end], [])
            if path.parts[end] not in parts:
                parts.append(path.parts[end])
    return {home for home, parts in inside.items() if parts == [str(i) for i in range(len(parts))]}


def assignments(modules: Sequence[tuple[Path, str]]) -> list[str]:
    """The lines of a constructor: plain attributes, and lists and dicts of modules."""
    trees: dict[str, Any] = {}
    for path, text in modules:
        home, (*parts, last) = trees, path.parts
        for part in parts:
            home = home.setdefault(part, {})
        home[last] = text
    lines: list[str] = []
    for name, tree in trees.items():
        lines += _constructed(f"{Path((name,)).text(set())} = ", tree, "")
    return lines


def _constructed(prefix: str, tree: Any, suffix: str) -> list[str]:
    if isinstance(tree, str):
        whole = f"{prefix}{tree}{suffix}"
        if len(whole) <= MOST:
            return [whole]
        name, _, arguments = tree.partition("(")
        return [f"{prefix}{name}(", f"    {arguments[:-1]}", f"){suffix}"]
    dense = [*tree] == [str(i) for i in range(len(tree))]
    opening, closing = ("nn.ModuleList([", "])") if dense else ("nn.ModuleDict({", "})")
    entries = [_constructed("" if dense else f'"{key}": ', value, ",") for key, value in tree.items()]
    inside: list[str] = []
    for entry, run in groupby(entries):
        count = len(list(run))
        if dense and count > 2 and len(entry) == 1:
            inside.append(f"*({entry[0][:-1]} for _ in range({count})),")
        else:
            inside += [line for _ in range(count) for line in entry]
    if len(inside) == 1 and len(short := f"{prefix}{opening}{inside[0][:-1]}{closing}{suffix}") <= LONGEST:
        return [short]
    return [f"{prefix}{opening}", *(f"    {line}" for line in inside), f"{closing}{suffix}"]


def forward(lines: Sequence[Line], returns: str, paths: Sequence[Path]) -> list[str]:
    """The lines of a forward function; calls of all modules of a list in a row become a loop."""
    lists = lists_of(paths)
    written: list[str] = []
    position = 0
    pending: tuple[str, str] | None = None  # a variable that is read once, right away, and what it is
    while position < len(lines):
        line = lines[position]
        count = _run(lines, position, paths) if pending is None else 0
        if count > 1:
            assert line.path is not None
            home = Path(line.path.parts[:-1]).text(lists)
            written += [f"for layer in {home}:", f"    {line.targets[0]} = layer({line.targets[0]})"]
            position += count
            continue
        text = line.text.replace(MODULE, line.path.text(lists)) if line.path is not None else line.text
        if pending is not None:
            joined = _joined(text, *pending)
            if joined is None:
                written += _assigned(*pending)
            text = joined or text
        pending = (line.targets[0], text) if line.only_next else None
        if pending is None:
            written += _assigned(", ".join(line.targets), text)
        position += 1
    if pending is not None:
        joined = _joined(returns, *pending)
        if joined is None:
            written += _assigned(*pending)
        return [*written, f"return {joined or returns}"]
    return [*written, f"return {returns}"]


def _assigned(target: str, text: str) -> list[str]:
    """An assignment; none where a node gives what it is given, by the same name."""
    return [f"{target} = {text}"] if target != text else []


def _joined(text: str, name: str, value: str) -> str | None:
    """A text with a variable replaced by what it is; None if that would be hard to read."""
    tree = ast.parse(text, mode="eval")
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    if len(uses) != 1 or ast.unparse(tree.body) == name:
        return value if ast.unparse(tree.body) == name else None
    replaced = _Replaced(name, ast.parse(value, mode="eval").body).visit(tree)
    joined = tidy(ast.unparse(replaced))
    depth = joined.count("(")
    return joined if len(joined) <= WIDTH and depth <= 4 else None


class _Replaced(ast.NodeTransformer):
    def __init__(self, name: str, value: ast.expr) -> None:
        self.name, self.value = name, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.value if node.id == self.name else node


def _run(lines: Sequence[Line], start: int, paths: Sequence[Path]) -> int:
    """How many lines from `start` on call all modules of one list in turn, each on the result of the one before."""
    path = lines[start].path
    if path is None or len(path.parts) < 2 or path.parts[-1] != "0":
        return 0
    home = path.parts[:-1]
    size = len({other.parts for other in paths if other.parts[: len(home)] == home})
    count = 0
    for line in lines[start:]:
        same = line.path is not None and line.path.parts == (*home, str(count))
        if not same or not line.targets == line.operands == lines[start].targets or len(line.targets) != 1:
            break
        count += 1
    return count if count == size else 0
