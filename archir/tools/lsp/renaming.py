"""Go to definition, find references, and rename, across the `.arch` files and architecture files of a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from archir.diagnostics.errors import ArchError, fail
from archir.ir.names import is_name
from archir.language.elaboration.name_analysis import names_read, walk
from archir.language.syntax import ast
from archir.spaces.architecture import read_architecture
from archir.tools.lsp.lexer import KEYWORDS
from archir.tools.lsp.nets import nets
from archir.tools.lsp.occurrences import Occurrence
from archir.tools.lsp.view import View, arch_files, file_of
from archir.utils.edits import Edit, apply_edits

Location = tuple[Path | None, int, int]
"""File (None for the current text), start offset and end offset."""
Edits = dict[Path | None, list[Edit]]
"""Replacements (start, end, new text) by file; the key None is the current text."""

_RENAMABLE = ("block", "cell", "net", "const", "parameter", "variable", "input", "choice", "alternative", "alias")
"""Kinds of names that a user can rename."""
_MAX_JSON_FILES = 200
"""Maximum number of JSON files that are searched for architectures to update."""


def find_definition(view: View, offset: int) -> Location | None:
    """Return where the name at an offset is defined, or None if it is built in or undefined."""
    occurrence = view.occurrence_at(offset)
    if occurrence is None:
        return None
    local_definition = next(
        (candidate for candidate in view.occurrences_of(occurrence) if candidate.is_definition), None
    )
    if local_definition is not None:
        return None, local_definition.start, local_definition.end
    path = file_of(occurrence.module) if occurrence.module is not None else None
    if path is None:
        return None
    definition_there = next(
        (
            candidate
            for candidate in View.from_file(path).occurrences
            if candidate.is_definition and _same_name(candidate, occurrence)
        ),
        None,
    )
    return (path, definition_there.start, definition_there.end) if definition_there is not None else (path, 0, 0)


def _same_name(left: Occurrence, right: Occurrence) -> bool:
    """Return whether two occurrences in different files have the same owner, kind and name.

    The files are not compared.
    """
    return left.target[1:] == right.target[1:]


def find_references(view: View, offset: int, texts: Mapping[Path, str] | None = None) -> list[Location]:
    """Return all occurrences of the definition at an offset, in this file and in the other files of its folder.

    `texts` maps resolved paths of open files to their unsaved texts.
    """
    occurrence = view.occurrence_at(offset)
    if occurrence is None or occurrence.kind in ("unknown", "type", "property"):
        return []
    locations: list[Location] = [(None, match.start, match.end) for match in view.occurrences_of(occurrence)]
    is_in_other_files = occurrence.target[2] in ("item", "local") or occurrence.kind in ("operation", "function")
    if is_in_other_files and view.folder is not None:
        for match in _other_views(view, texts or {}, occurrence.name):
            locations += [
                (path_of(match), hit.start, hit.end) for hit in match.occurrences if hit.target == occurrence.target
            ]
    return list(dict.fromkeys(locations))


def path_of(view: View) -> Path:
    """Return the path of a view's file."""
    assert view.folder is not None
    return view.folder / Path(view.path).name


def _other_views(view: View, texts: Mapping[Path, str], name: str) -> Iterator[View]:
    """Yield views of the other `.arch` files in the folder whose text contains a name."""
    assert view.folder is not None
    own_path = path_of(view)
    for path in arch_files(view.folder):
        if path.resolve() != own_path.resolve():
            try:
                other = View.from_file(path, texts.get(path.resolve()))
            except (OSError, UnicodeDecodeError):
                continue
            if name in other.text:
                yield other


def find_renamable(view: View, offset: int) -> Occurrence:
    """Return the name at an offset. Raises ArchError (A0201) if it cannot be renamed."""
    occurrence = view.occurrence_at(offset)
    if occurrence is None or occurrence.kind not in _RENAMABLE:
        raise fail("A0201", "there is no name here that can be changed")
    if occurrence.module is not None and occurrence.module.library:
        raise fail("A0201", f"`{occurrence.name}` is part of archir's library and cannot be renamed")
    return occurrence


def rename(view: View, offset: int, new: str, texts: Mapping[Path, str] | None = None) -> Edits:
    """Return the edits that rename the definition at an offset to `new`.

    Architecture files in the same folder are edited as well if paths or labels of choices change. Raises ArchError:
    A0201 (the name at the offset cannot be renamed, or `new` is not a valid name), A0202 (`new` is already in use).
    """
    occurrence = find_renamable(view, offset)
    if not is_name(new) or new in KEYWORDS:
        raise fail("A0201", f"`{new}` is not a valid name")
    conflicting = any(other.name == new and _conflicts(other, occurrence) for other in view.occurrences)
    if conflicting or _is_captured(view, occurrence, new):
        raise fail("A0202", f"`{new}` is already defined here")
    edits: Edits = {}
    for path, start, end in find_references(view, offset, texts):
        edits.setdefault(path, []).append((start, end, new))
    if view.folder is not None:
        edits |= dict(_architecture_edits(view, edits[None]))
    return edits


def _conflicts(existing: Occurrence, renamed: Occurrence) -> bool:
    """Return whether giving both occurrences the same name would make one of them refer to the wrong definition."""
    if renamed.kind == "choice":
        return existing.kind == "choice" and existing.target[:2] == renamed.target[:2]
    if renamed.kind == "alternative":
        return existing.kind == "alternative" and existing.target[:2] == renamed.target[:2]
    if renamed.target[2] == "local":
        return existing.kind not in ("choice", "alternative", "output") and existing.target[1] in (
            renamed.target[1],
            "",
        )
    return existing.kind not in ("choice", "alternative", "output", "attribute", "property")


def _is_captured(view: View, renamed: Occurrence, new: str) -> bool:
    """Return whether a label and a variable that the `where` of its choice reads would get the same name."""
    if renamed.kind == "alternative":  # `where` reads none
        return False
    owner = renamed.target[1]  # "" at module level
    items = [item for item in view.parsed.file.items if not owner or _name(item) == owner]
    old, is_choice = renamed.name, renamed.kind == "choice"
    label, read = (old, new) if is_choice else (new, old)
    return any(
        isinstance(part, ast.ChooseSubset)
        and part.label is not None
        and part.label.text == label
        and read in names_read(part.where)
        for item in items
        for part in walk(item)
    )


def _name(item: ast.Item) -> str:
    """Return the name of a definition; "" for other items of a file."""
    return item.name.text if isinstance(item, ast.Definition) else ""


def _architecture_edits(view: View, edits: list[Edit]) -> Iterator[tuple[Path, list[Edit]]]:
    """Yield edits of the architecture files (`.json`) in the text's folder.

    The nets are elaborated before and after the rename. Their choices correspond by order, which gives the new path and
    labels of each choice.
    """
    assert view.folder is not None
    after = View(apply_edits(view.text, edits), view.path, view.folder)
    renamed: dict[str, dict[str, str]] = {}
    labels: dict[str, dict[str, dict[str, str]]] = {}
    nets_of: dict[str, str] = {}
    for before, renamed_net in zip(nets(view), nets(after), strict=False):
        pairs = list(zip(before.graph.decisions.values(), renamed_net.graph.decisions.values(), strict=False))
        name = before.graph.name
        nets_of[name] = renamed_net.graph.name
        renamed[name] = {old_decision.choice.path: new_decision.choice.path for old_decision, new_decision in pairs}
        labels[name] = {
            old_decision.choice.path: {
                str(old_label): str(new_label)
                for old_label, new_label in zip(
                    old_decision.choice.alternatives, new_decision.choice.alternatives, strict=False
                )
                if isinstance(old_label, str) and old_label != new_label
            }
            for old_decision, new_decision in pairs
        }
    for path in sorted(view.folder.glob("*.json"))[:_MAX_JSON_FILES]:
        try:
            text = path.read_text("utf-8")
            architecture = read_architecture(text, path.name)
        except (OSError, UnicodeDecodeError, ArchError):
            continue
        if architecture.space in renamed and set(architecture.choices) <= set(renamed[architecture.space]):
            file_edits = list(_choice_edits(text, renamed[architecture.space], labels[architecture.space]))
            if nets_of[architecture.space] != architecture.space:
                file_edits += _field_edit(text, "space", nets_of[architecture.space])
            if file_edits:
                yield path, file_edits


def _field_edit(text: str, key: str, new: str) -> list[Edit]:
    """Return the edit that sets the string field `key` of a JSON text to `new`."""
    match = re.search(rf'"{key}"\s*:\s*("(?:[^"\\]|\\.)*")', text)
    return [(match.start(1), match.end(1), json.dumps(new))] if match else []


def _choice_edits(text: str, renamed: Mapping[str, str], labels: Mapping[str, Mapping[str, str]]) -> Iterator[Edit]:
    """Yield the edits of a JSON text that update paths of choices and labels of chosen alternatives."""
    for match in re.finditer(r'("(?:[^"\\]|\\.)*")\s*:\s*("(?:[^"\\]|\\.)*")?', text):
        path = json.loads(match[1])
        if path in renamed and renamed[path] != path:
            yield match.start(1), match.end(1), json.dumps(renamed[path])
        if path in labels and match[2] is not None and json.loads(match[2]) in labels[path]:
            yield match.start(2), match.end(2), json.dumps(labels[path][json.loads(match[2])])
