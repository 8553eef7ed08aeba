"""How many lines of a library's Python define a model."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from torch import nn

LIBRARIES = ("timm", "torchvision", "transformers")
NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
    tokenize.ENCODING,
}  # fmt: skip


class Definition:
    """What defines a model: the classes of its modules, and the functions beside them that run for it.

    Only files that hold a class of its modules are counted, so that what loads and registers models in general is not;
    in these, each class of its modules as a whole, and of the rest the functions that run while the model is made and
    called. Comments, docstrings and blank lines are no lines.
    """

    def __init__(self) -> None:
        self.ran: set[tuple[str, int]] = set()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Notes what runs."""

        def note(frame: FrameType, event: str, _: Any) -> None:
            if event == "call":
                self.ran.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            yield
        finally:
            sys.setprofile(before)

    def lines(self, module: nn.Module) -> int:
        """Those of all files."""
        kinds: dict[str, set[str]] = {}
        for one in module.modules():
            home = sys.modules[type(one).__module__]
            if home.__name__.split(".")[0] in LIBRARIES and home.__file__:
                kinds.setdefault(home.__file__, set()).add(type(one).__qualname__)
        total = 0
        for path, names in kinds.items():
            starts = {line for file, line in self.ran if file == path}
            total += len(_defining(Path(path).read_text("utf-8"), names, starts))
        return total


def _defining(text: str, names: set[str], starts: set[int]) -> set[int]:
    """The lines of classes of these names, and of functions that start at these lines."""
    tree = ast.parse(text)
    wanted: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            named = isinstance(node, ast.ClassDef) and node.name in names
            if named or (isinstance(node, ast.FunctionDef) and first in starts):
                wanted |= {*range(first, (node.end_lineno or first) + 1)}
    return wanted & _code(text, tree)


def _code(text: str, tree: ast.Module) -> set[int]:
    """The lines that are neither blank, comment nor docstring."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            found |= {*range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found -= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return found


def defined(make: Callable[[], nn.Module], example: Any) -> tuple[nn.Module, int]:
    """A model, made and called once, and the lines that define it."""
    once(make, example)  # what is imported then, and fills caches, is counted in no run, whatever ran before
    definition = Definition()
    with definition.watching():
        module = once(make, example)
    return module, definition.lines(module)


def once(make: Callable[[], nn.Module], example: Any) -> nn.Module:
    """A model that was called."""
    module = make().eval()
    module(**example) if isinstance(example, dict) else module(example)
    return module
