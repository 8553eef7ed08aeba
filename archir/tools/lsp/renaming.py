"""Definitions, references and renames, across the files of a folder and the architectures beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from archir.diagnostics.errors import ArchError, fail
from archir.spaces.architecture import read_architecture
from archir.tools.lsp.nets import nets
from archir.tools.lsp.occurrences import Occurrence
from archir.tools.lsp.view import View, file_of, neighbours
from archir.tools.lsp.words import KEYWORDS

Place = tuple[Path | None, int, int]
"""A file, None for the text at hand, and offsets in it."""
Edits = dict[Path | None, list[tuple[int, int, str]]]

_NAME = re.compile(r"[A-Za-z_]\w*")
_RENAMED = ("block", "cell", "net", "const", "parameter", "variable", "input", "choice", "alternative", "alias")
_MOST_JSON = 200


def definition(view: View, offset: int) -> Place | None:
    """Where the name at an offset is defined."""
    one = view.at(offset)
    if one is None:
        return None
    own = next((other for other in view.alike(one) if other.gives), None)
    if own is not None:
        return None, own.start, own.end
    path = file_of(one.module) if one.module is not None else None
    if path is None:
        return None
    there = next((other for other in View.of(path).occurrences if other.gives and _same(other, one)), None)
    return (path, there.start, there.end) if there is not None else (path, 0, 0)


def _same(one: Occurrence, other: Occurrence) -> bool:
    """Whether two names of different files mean one thing; files are told apart by who asks."""
    return one.target[1:] == other.target[1:]


def references(view: View, offset: int, texts: Mapping[Path, str] | None = None) -> list[Place]:
    """All places that mean what the name at an offset does, in this file and those of its folder.

    `texts` are those of files that an editor has open.
    """
    one = view.at(offset)
    if one is None or one.kind in ("unknown", "type", "property"):
        return []
    found: list[Place] = [(None, other.start, other.end) for other in view.alike(one)]
    if one.target[2] in ("item", "local") and view.folder is not None:
        for other in _others(view, texts or {}, one.name):
            found += [(path_of(other), hit.start, hit.end) for hit in other.occurrences if hit.target == one.target]
    if one.kind in ("operation", "function") and view.folder is not None:
        for other in _others(view, texts or {}, one.name):
            found += [(path_of(other), hit.start, hit.end) for hit in other.occurrences if hit.target == one.target]
    return list(dict.fromkeys(found))


def path_of(view: View) -> Path:
    """The file of a view."""
    assert view.folder is not None
    return view.folder / Path(view.path).name


def _others(view: View, texts: Mapping[Path, str], name: str) -> Iterator[View]:
    """The other files of the folder in which a word occurs."""
    assert view.folder is not None
    own = path_of(view)
    for path in neighbours(view.folder):
        if path.resolve() != own.resolve():
            try:
                other = View.of(path, texts.get(path))
            except (OSError, UnicodeDecodeError):
                continue
            if name in other.text:
                yield other


def rename(view: View, offset: int, new: str, texts: Mapping[Path, str] | None = None) -> Edits:
    """What a rename changes: all that means the same, and the paths of choices in architectures beside the file.

    Raises ArchError (A0201, A0202) for what has no name of its own, and for names that are taken or are none.
    """
    one = view.at(offset)
    if one is None or one.kind not in _RENAMED:
        raise fail("A0201", "there is nothing here that has a name of its own")
    if one.module is not None and one.module.library:
        raise fail("A0201", f"`{one.name}` is archir's own")
    if not _NAME.fullmatch(new) or new in KEYWORDS:
        raise fail("A0201", f"`{new}` is no name")
    if any(other.name == new and _meets(other, one) for other in view.occurrences):
        raise fail("A0202", f"`{new}` is taken: it means something here already")
    edits: Edits = {}
    for path, start, end in references(view, offset, texts):
        edits.setdefault(path, []).append((start, end, new))
    if view.folder is not None:
        edits |= dict(_architectures(view, edits[None]))
    return edits


def _meets(other: Occurrence, one: Occurrence) -> bool:
    """Whether two names would be told apart no more if they were the same."""
    if one.kind == "choice":
        return other.kind == "choice" and other.target[:2] == one.target[:2]
    if one.kind == "alternative":
        return other.kind == "alternative" and other.target[:2] == one.target[:2]
    if one.target[2] == "local":
        return other.kind not in ("choice", "alternative", "output") and other.target[1] in (one.target[1], "")
    return other.kind not in ("choice", "alternative", "output", "attribute", "property")


def applied(text: str, edits: list[tuple[int, int, str]]) -> str:
    """A text with edits made."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _architectures(view: View, edits: list[tuple[int, int, str]]) -> Iterator[tuple[Path, list[tuple[int, int, str]]]]:
    """Edits of the architectures beside a file: their choices are those of the net, one by one in its order."""
    assert view.folder is not None
    after = View(applied(view.text, edits), view.path, view.folder)
    renamed: dict[str, dict[str, str]] = {}
    labels: dict[str, dict[str, dict[str, str]]] = {}
    nets_of: dict[str, str] = {}
    for before, now in zip(nets(view), nets(after), strict=False):
        pairs = list(zip(before.graph.decisions.values(), now.graph.decisions.values(), strict=False))
        name = before.graph.name
        nets_of[name] = now.graph.name
        renamed[name] = {one.choice.path: other.choice.path for one, other in pairs}
        labels[name] = {
            one.choice.path: {
                str(a): str(b)
                for a, b in zip(one.choice.alternatives, other.choice.alternatives, strict=False)
                if isinstance(a, str) and a != b
            }
            for one, other in pairs
        }
    for path in sorted(view.folder.glob("*.json"))[:_MOST_JSON]:
        try:
            text = path.read_text("utf-8")
            written = read_architecture(text, path.name)
        except (OSError, UnicodeDecodeError, ArchError):
            continue
        if written.space in renamed and set(written.choices) <= set(renamed[written.space]):
            found = list(_keys(text, renamed[written.space], labels[written.space]))
            if nets_of[written.space] != written.space:
                found += _value(text, "space", nets_of[written.space])
            if found:
                yield path, found


def _value(text: str, key: str, new: str) -> list[tuple[int, int, str]]:
    found = re.search(rf'"{key}"\s*:\s*("(?:[^"\\]|\\.)*")', text)
    return [(found.start(1), found.end(1), json.dumps(new))] if found else []


def _keys(
    text: str, renamed: Mapping[str, str], labels: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[int, int, str]]:
    """The keys that have other names, and what was chosen, where an alternative has one."""
    for found in re.finditer(r'("(?:[^"\\]|\\.)*")\s*:\s*("(?:[^"\\]|\\.)*")?', text):
        path = json.loads(found[1])
        if path in renamed and renamed[path] != path:
            yield found.start(1), found.end(1), json.dumps(renamed[path])
        if path in labels and found[2] is not None and json.loads(found[2]) in labels[path]:
            yield found.start(2), found.end(2), json.dumps(labels[path][json.loads(found[2])])
