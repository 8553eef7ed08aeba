"""Maps between the weight names in a file and those of a network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archir.diagnostics.errors import ArchError, Diagnostic, Span, describe_error, fail, join_names
from archir.utils import toml
from archir.utils.files import read_bytes
from archir.utils.globs import capture_stars, fill_stars, matches

MAX_BYTES = 2**22
"""Maximum size of a map file in bytes."""
_HINT = 'a line says `"ours" = "theirs"`, such as `"layer*.conv.weight" = "blocks.*.0.weight"`'


@dataclass(frozen=True)
class Rule:
    """Renaming rule: a pattern for weight names in the network and one for names in the file, with equally many
    stars.

    Corresponding stars match the same text. If the network pattern is empty, the file's weights are ignored; if
    the file pattern is empty, the network's weights keep their initial values.
    """

    network_pattern: str
    file_pattern: str
    span: Span | None = None


@dataclass(frozen=True)
class NameMap:
    """Map of weight names, defined by a set of renaming rules that all apply.

    A weight that matches no rule has the same name in the file and in the network.
    """

    rules: tuple[Rule, ...] = ()

    def of(self, file_names: Iterable[str]) -> dict[str, str]:
        """Map each network weight to its name in the file; `file_names` are all names in the file.

        Raises ArchError (A2220) if a rule matches nothing, or if two weights in the file map to the same network
        weight.
        """
        names_in_file = list(file_names)
        rules = [rule for rule in self.rules if rule.file_pattern]
        used = {rule: [name for name in names_in_file if matches(rule.file_pattern, name)] for rule in rules}
        problems = [
            Diagnostic("A2220", f"no weight of the file is named `{rule.file_pattern}`", rule.span)
            for rule, names in used.items()
            if not names
        ]
        mapping: dict[str, str] = {}
        for name in names_in_file:
            matching = [rule for rule in rules if name in used[rule]]
            unchanged = [] if self.keeps_initial(name) else [name]
            for ours in (
                [
                    fill_stars(r.network_pattern, capture_stars(r.file_pattern, name) or ())
                    for r in matching
                    if r.network_pattern
                ]
                if matching
                else unchanged
            ):
                if mapping.setdefault(ours, name) != name:
                    twice = f"`{mapping[ours]}` and `{name}` of the file are both named `{ours}`"
                    problems.append(Diagnostic("A2220", twice, matching[0].span if matching else None))
        if problems:
            raise ArchError(*problems)
        return mapping

    def keeps_initial(self, name: str) -> bool:
        """Return True if a weight of the network keeps its initial value."""
        return any(not rule.file_pattern and matches(rule.network_pattern, name) for rule in self.rules)


@dataclass(frozen=True)
class RenamedWeights:
    """Weights from a file under the names of a network.

    `file_names` maps each network name to the name in the file. The file must have all weights of the network,
    with the right shapes, and no others.
    """

    file: str
    names: NameMap
    file_names: Mapping[str, str]

    def mismatches(
        self, expected: Mapping[str, tuple[int, ...]], actual: Mapping[str, tuple[int, ...]]
    ) -> list[Diagnostic]:
        """Return diagnostics (A0902) for missing weights, superfluous weights, and wrong shapes.

        `expected` are the shapes in the network, `actual` those in the file, both by network name.
        """
        missing = [name for name in expected if name not in actual and not self.names.keeps_initial(name)]
        superfluous = [self.file_names[name] for name in actual if name not in expected]
        texts = []
        if missing:
            texts.append(f"{self.file} lacks {len(missing)} weights: {join_names(missing, len(missing))}")
        if superfluous:
            texts.append(
                f"{self.file} has {len(superfluous)} weights too many: {join_names(superfluous, len(superfluous))}"
            )
        for name in expected:
            if name in actual and actual[name] != expected[name]:
                where = f"`{self.file_names[name]}` in {self.file}, which is `{name}`,"
                texts.append(f"{where} has shape {[*actual[name]]}, not {[*expected[name]]}")
        hint = 'use a map: `"ours" = "theirs"` renames, `"" = "theirs"` ignores, `"ours" = ""` keeps initial values'
        return [Diagnostic("A0902", text, None, hint if not i else None) for i, text in enumerate(texts)]


def read(path: Path) -> NameMap:
    """Read a name map from a file. Raises ArchError (A2220)."""
    try:
        text = read_bytes(path, MAX_BYTES).decode()
    except (OSError, ValueError) as error:
        raise fail("A2220", f"cannot read the map {path}: {describe_error(error)}") from None
    return parse(text, str(path))


def parse(text: str, name: str) -> NameMap:
    """Parse a name map: TOML, or, if `name` ends in `.json`, JSON (an object or a list of pairs). Raises ArchError
    (A2220)."""
    if name.endswith(".json"):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise fail("A2220", f"{name} is not JSON: {error}") from None
        pairs = list(data.items()) if isinstance(data, dict) else data
        if not isinstance(pairs, list):
            raise fail("A2220", f"{name} is neither an object nor a list of pairs", None, _HINT)
        return NameMap(tuple(_rules(((item, None) for item in pairs), name)))
    document = toml.parse_toml(text, name, "A2220")
    return NameMap(tuple(_rules(((pair, document.span((pair[0],))) for pair in document.data.items()), name)))


def _rules(pairs: Iterable[tuple[Any, Span | None]], name: str) -> Iterator[Rule]:
    """Convert pairs of names to rules. Raises ArchError (A2220) with a diagnostic for every invalid pair."""
    problems = []
    for pair, span in pairs:
        network_name, file_name = pair if isinstance(pair, list | tuple) and len(pair) == 2 else (None, None)
        for pattern in file_name if isinstance(file_name, list) else [file_name]:
            if not isinstance(network_name, str) or not isinstance(pattern, str):
                problems.append(Diagnostic("A2220", f"{name} pairs what are not two names", span, _HINT))
            elif not network_name and not pattern:
                problems.append(Diagnostic("A2220", f"{name} pairs two empty names", span, _HINT))
            elif network_name and pattern and network_name.count("*") != pattern.count("*"):
                text = f"`{network_name}` and `{pattern}` have {network_name.count('*')} and {pattern.count('*')} stars"
                problems.append(Diagnostic("A2220", text, span, "each star matches the same text on both sides"))
            else:
                yield Rule(network_name, pattern, span)
    if problems:
        raise ArchError(*problems)
