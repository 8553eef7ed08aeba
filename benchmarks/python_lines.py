"""Count the lines of a library's Python that define a model."""

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
"""Types of tokens that do not make a line a line of code."""


class Definition:
    """The definition of a model: the classes of its modules, and the functions in their files that run for it.

    Only files that hold a class of its modules are counted, which leaves out code that loads and registers models in
    general. Of these files, classes of its modules count as a whole, and otherwise functions that run while the model
    is created and called. Comments, docstrings and blank lines do not count.
    """

    def __init__(self) -> None:
        self.ran: set[tuple[str, int]] = set()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the functions that run."""

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
        """Return the number of lines in all files."""
        class_names: dict[str, set[str]] = {}
        for child in module.modules():
            source = sys.modules[type(child).__module__]
            if source.__name__.split(".")[0] in LIBRARIES and source.__file__:
                class_names.setdefault(source.__file__, set()).add(type(child).__qualname__)
        total = 0
        for path, names in class_names.items():
            starts = {line for file, line in self.ran if file == path}
            total += len(_definition_lines(Path(path).read_text("utf-8"), names, starts))
        return total


def _definition_lines(text: str, names: set[str], starts: set[int]) -> set[int]:
    """Return the lines of classes with some names, and of functions that start at some lines."""
    tree = ast.parse(text)
    wanted: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            is_wanted_class = isinstance(node, ast.ClassDef) and node.name in names
            if is_wanted_class or (isinstance(node, ast.FunctionDef) and first in starts):
                wanted |= {*range(first, (node.end_lineno or first) + 1)}
    return wanted & _code_lines(text, tree)


def _code_lines(text: str, tree: ast.Module) -> set[int]:
    """Return the lines that are neither blank, comment nor docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines |= {*range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return lines


def with_line_count(make: Callable[[], nn.Module], example: Any) -> tuple[nn.Module, int]:
    """Create a model and call it once, and return it with the number of lines that define it."""
    create_and_call(make, example)  # imports and caches of a first call must not count, whatever ran before
    definition = Definition()
    with definition.recording():
        module = create_and_call(make, example)
    return module, definition.lines(module)


def create_and_call(make: Callable[[], nn.Module], example: Any) -> nn.Module:
    """Return a model after one call."""
    module = make().eval()
    module(**example) if isinstance(example, dict) else module(example)
    return module
