"""Reader of untrusted JSON: checks types, and reports errors with the JSON path of the invalid part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from archir.diagnostics.errors import ArchError, RuleError, fail, join_names
from archir.diagnostics.hints import suggest
from archir.ir.value_io import MAX_BITS

MAX_ITEMS = 1_000_000
"""Maximum number of items in one list or object."""
_TYPE_WORDS: dict[type, str] = {
    dict: "an object", list: "a list", str: "a string", int: "an integer", bool: "true or false", float: "a number",
    type(None): "null",
}  # fmt: skip
"""Names of JSON types in error messages."""


@dataclass(frozen=True)
class Cursor:
    """A part of a JSON document, with its path (`$.nodes[3].scope`).

    All methods raise ArchError (A0705) on invalid values.
    """

    value: Any
    path: str = "$"

    def error(self, message: str, hint: str | None = None) -> ArchError:
        """Return an ArchError (A0705) that is located at this part by its path."""
        return fail("A0705", f"{self.path}: {message}", hint=hint)

    @contextmanager
    def report_rule_errors(self) -> Iterator[None]:
        """Convert a RuleError that the `with` block raises into an ArchError (A0705) located at this part."""
        try:
            yield
        except RuleError as problem:
            raise self.error(problem.message, problem.hint) from None

    def text(self) -> str:
        """Return the value, which must be a string."""
        self._expect(str)
        return str(self.value)

    def integer(self) -> int:
        """Return the value, which must be an integer of at most `MAX_BITS` bits."""
        self._expect(int)
        if self.value.bit_length() > MAX_BITS:
            raise self.error("this number is too long")
        return int(self.value)

    def one_of(self, *names: str) -> str:
        """Return the value, which must be one of the strings in `names`."""
        if self.value not in names:
            raise self.error(f"expected one of {join_names(names)}")
        return self.text()

    def items(self) -> list[Cursor]:
        """Return cursors to the items of the value, which must be a list."""
        self._expect(list)
        return [Cursor(item, f"{self.path}[{i}]") for i, item in enumerate(self.value)]

    def entries(self) -> dict[str, Cursor]:
        """Return cursors to the entries of the value, which must be an object."""
        self._expect(dict)
        if not all(type(name) is str for name in self.value):
            raise self.error("keys must be strings")
        suffixes = {name: f".{name}" if name.isidentifier() else f"[{name!r}]" for name in self.value}
        return {name: Cursor(item, self.path + suffixes[name]) for name, item in self.value.items()}

    def fields(self, *required: str, **optional: Any) -> dict[str, Cursor]:
        """Return cursors to the entries of an object with the keys in `required` and any of those in `optional`.

        Other keys are errors. `optional` maps keys to the default values of missing entries.
        """
        entries = self.entries()
        for name in entries:
            if name not in required and name not in optional:
                raise self.error(f"unexpected key `{name}`", suggest(name, [*required, *optional]))
        for name in required:
            if name not in entries:
                raise self.error(f"the key `{name}` is missing")
        return {name: Cursor(default, f"{self.path}.{name}") for name, default in optional.items()} | entries

    def _expect(self, kind: type) -> None:
        if type(self.value) is not kind:
            actual = type(self.value)
            raise self.error(f"expected {_TYPE_WORDS[kind]}, got {_TYPE_WORDS.get(actual, actual.__name__)}")
        if isinstance(self.value, (dict, list)) and len(self.value) > MAX_ITEMS:
            raise self.error(f"more than {MAX_ITEMS} items")
