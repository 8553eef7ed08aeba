"""Weights of other names: which of a file's is which of a network's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archir.diagnostics.errors import ArchError, Diagnostic, Span, fail, listed
from archir.utils import toml
from archir.utils.files import read_bytes
from archir.utils.globs import captured, filled, matches

MOST_BYTES = 2**22
_HINT = 'a line says `"ours" = "theirs"`, such as `"layer*.conv.weight" = "blocks.*.0.weight"`'


@dataclass(frozen=True)
class Rule:
    """A pattern of a network's names, and one of a file's, with as many stars; what these stand for is the same.

    Without a name of the network, the file's are left out; without one of the file, the network's stay as they are.
    """

    ours: str
    theirs: str
    span: Span | None = None


@dataclass(frozen=True)
class Names:
    """The rules of a map, all of which hold; what none is about has the same name in both."""

    rules: tuple[Rule, ...] = ()

    def of(self, given: Iterable[str]) -> dict[str, str]:
        """By the names that weights have in a network, those that they have in a file.

        Raises ArchError (A2220) for rules that are about nothing, and for two weights of one name.
        """
        theirs = list(given)
        rules = [rule for rule in self.rules if rule.theirs]
        used = {rule: [name for name in theirs if matches(rule.theirs, name)] for rule in rules}
        problems = [
            Diagnostic("A2220", f"no weight of the file is named `{rule.theirs}`", rule.span)
            for rule, names in used.items()
            if not names
        ]
        found: dict[str, str] = {}
        for name in theirs:
            about = [rule for rule in rules if name in used[rule]]
            same = [] if self.new(name) else [name]
            for ours in [filled(r.ours, captured(r.theirs, name) or ()) for r in about if r.ours] if about else same:
                if found.setdefault(ours, name) != name:
                    twice = f"`{found[ours]}` and `{name}` of the file are both named `{ours}`"
                    problems.append(Diagnostic("A2220", twice, about[0].span if about else None))
        if problems:
            raise ArchError(*problems)
        return found

    def new(self, name: str) -> bool:
        """Whether a weight of the network stays as it is."""
        return any(not rule.theirs and matches(rule.ours, name) for rule in self.rules)


@dataclass(frozen=True)
class Named:
    """A file's weights by a network's names: all must be there, of the right shapes, and none may be left over."""

    file: str
    names: Names
    theirs: Mapping[str, str]

    def unfit(self, wanted: Mapping[str, tuple[int, ...]], given: Mapping[str, tuple[int, ...]]) -> list[Diagnostic]:
        """All that is wrong with weights of these shapes for a network that wants those."""
        missing = [name for name in wanted if name not in given and not self.names.new(name)]
        over = [self.theirs[name] for name in given if name not in wanted]
        texts = []
        if missing:
            texts.append(f"{self.file} lacks {len(missing)} weights: {listed(missing, len(missing))}")
        if over:
            texts.append(f"{self.file} has {len(over)} weights too many: {listed(over, len(over))}")
        for name in wanted:
            if name in given and given[name] != wanted[name]:
                where = f"`{self.theirs[name]}` in {self.file}, which is `{name}`,"
                texts.append(f"{where} has shape {[*given[name]]}, not {[*wanted[name]]}")
        hint = 'a map names them: `"ours" = "theirs"`; `"" = "theirs"` leaves some out, `"ours" = ""` keeps new ones'
        return [Diagnostic("A0902", text, None, hint if not i else None) for i, text in enumerate(texts)]


def read(path: Path) -> Names:
    """The map of a file. Raises ArchError (A2220)."""
    try:
        text = read_bytes(path, MOST_BYTES).decode()
    except (OSError, ValueError) as error:
        raise fail("A2220", f"cannot read the map {path}: {getattr(error, 'strerror', None) or error}") from None
    return parse(text, str(path))


def parse(text: str, name: str) -> Names:
    """The map of a text: TOML, or in files named `.json` an object, or a list of pairs. Raises ArchError (A2220)."""
    if name.endswith(".json"):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise fail("A2220", f"{name} is no JSON: {error}") from None
        pairs = list(data.items()) if isinstance(data, dict) else data
        if not isinstance(pairs, list):
            raise fail("A2220", f"{name} is neither an object nor a list of pairs", None, _HINT)
        return Names(tuple(_rules(((one, None) for one in pairs), name)))
    document = toml.read(text, name, "A2220")
    return Names(tuple(_rules(((pair, document.span((pair[0],))) for pair in document.data.items()), name)))


def _rules(pairs: Iterable[tuple[Any, Span | None]], name: str) -> Iterator[Rule]:
    problems = []
    for pair, span in pairs:
        ours, theirs = pair if isinstance(pair, list | tuple) and len(pair) == 2 else (None, None)
        for one in theirs if isinstance(theirs, list) else [theirs]:
            if not isinstance(ours, str) or not isinstance(one, str):
                problems.append(Diagnostic("A2220", f"{name} pairs what are no two names", span, _HINT))
            elif not ours and not one:
                problems.append(Diagnostic("A2220", f"{name} pairs two empty names", span, _HINT))
            elif ours and one and ours.count("*") != one.count("*"):
                text = f"`{ours}` and `{one}` have {ours.count('*')} and {one.count('*')} stars"
                problems.append(Diagnostic("A2220", text, span, "each star stands for the same on both sides"))
            else:
                yield Rule(ours, one, span)
    if problems:
        raise ArchError(*problems)
