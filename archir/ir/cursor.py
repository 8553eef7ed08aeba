"""Untrusted JSON, read with the path of every part at hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from archir.diagnostics.errors import ArchError, RuleError, fail, listed, suggest
from archir.ir.spelling import MOST_BITS

MOST_ITEMS = 1_000_000
"""Items of one list or object."""
_KINDS: dict[type, str] = {
    dict: "an object", list: "a list", str: "a string", int: "an integer", bool: "true or false", float: "a number",
    type(None): "null",
}  # fmt: skip


@dataclass(frozen=True)
class Cursor:
    """A part of a JSON value, and where it is (`$.nodes[3].scope`). Everything refuses by ArchError (A0705)."""

    value: Any
    path: str = "$"

    def wrong(self, message: str, hint: str | None = None) -> ArchError:
        """What is wrong with this part."""
        return fail("A0705", f"{self.path}: {message}", hint=hint)

    @contextmanager
    def checked(self) -> Iterator[None]:
        """What a rule refuses is wrong with this part."""
        try:
            yield
        except RuleError as error:
            raise self.wrong(error.message, error.hint) from None

    def text(self) -> str:
        """A string."""
        self._expect(str)
        return str(self.value)

    def integer(self) -> int:
        """An integer."""
        self._expect(int)
        if self.value.bit_length() > MOST_BITS:
            raise self.wrong("this number is too long")
        return int(self.value)

    def one_of(self, *names: str) -> str:
        """One of these strings."""
        if self.value not in names:
            raise self.wrong(f"expected one of {listed(names)}")
        return self.text()

    def items(self) -> list[Cursor]:
        """The items of a list."""
        self._expect(list)
        return [Cursor(item, f"{self.path}[{i}]") for i, item in enumerate(self.value)]

    def entries(self) -> dict[str, Cursor]:
        """The entries of an object."""
        self._expect(dict)
        if not all(type(name) is str for name in self.value):
            raise self.wrong("keys must be strings")
        places = {name: f".{name}" if name.isidentifier() else f"[{name!r}]" for name in self.value}
        return {name: Cursor(item, self.path + places[name]) for name, item in self.value.items()}

    def fields(self, *required: str, **optional: Any) -> dict[str, Cursor]:
        """The entries of an object of which these are expected; optional ones have defaults."""
        found = self.entries()
        for name in found:
            if name not in required and name not in optional:
                raise self.wrong(f"unexpected key `{name}`", suggest(name, [*required, *optional]))
        for name in required:
            if name not in found:
                raise self.wrong(f"the key `{name}` is missing")
        return {name: Cursor(default, f"{self.path}.{name}") for name, default in optional.items()} | found

    def _expect(self, kind: type) -> None:
        if type(self.value) is not kind:
            found = type(self.value)
            raise self.wrong(f"expected {_KINDS[kind]}, got {_KINDS.get(found, found.__name__)}")
        if isinstance(self.value, (dict, list)) and len(self.value) > MOST_ITEMS:
            raise self.wrong(f"more than {MOST_ITEMS} items")
