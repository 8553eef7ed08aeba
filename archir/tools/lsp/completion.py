"""What may be written at a place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields

from archir.ir.op import OPS
from archir.ir.types import DTYPES
from archir.language.elaboration import static
from archir.language.elaboration.evaluate import ATTRIBUTES
from archir.language.elaboration.locals import COSTS
from archir.language.elaboration.unknown import libraries
from archir.language.elaboration.values import Block, Library
from archir.tools.lsp import signatures
from archir.tools.lsp.view import View
from archir.tools.lsp.words import KEYWORDS

_STATEMENTS = ("for", "if", "input", "output", "repeat", "require", "return")
_ITEMS = ("block", "cell", "const", "import", "net", "own")
_WORD = re.compile(r"[A-Za-z_]\w*$")


@dataclass(frozen=True)
class Item:
    """Something that may be written: what, of which kind, and a line on it."""

    label: str
    kind: str
    detail: str = ""
    text: str = ""


def completions(view: View, offset: int) -> list[Item]:
    """What may stand at an offset; the editor filters by what is there already."""
    line = view.text[view.text.rfind("\n", 0, offset) + 1 : offset]
    if "#" in re.sub(r'"[^"]*"', "", line):
        return []
    typed = _WORD.search(line)
    before = line[: typed.start()] if typed else line
    if before.endswith("@"):
        return [Item(tag, "tag") for tag in sorted(set(re.findall(r"@(\w+)", view.text)))]
    if re.match(r"import[ \t]+[\w.]*$", line):
        return [Item(name, "library", ", ".join(names[:6])) for name, names in libraries().items()]
    if re.search(r"\binput[ \t]+\w+[ \t]*:[ \t]*$", before):
        return [Item(name, "type") for name in DTYPES]
    found = re.search(r"([A-Za-z_]\w*)\.$", before)
    if found is not None:
        return list(_members(view, found[1]))
    items = list(_arguments(view, offset))
    if re.fullmatch(r"[ \t]*", before):
        inside = view.text.count("{", 0, offset) > view.text.count("}", 0, offset)
        items += [Item(word, "keyword") for word in (_STATEMENTS if inside else _ITEMS)]
        if not inside:
            return items
    if re.search(r"\brequire\b", before):
        items += [Item(cost, "cost", "what an architecture costs") for cost in COSTS]
    return _distinct([*items, *_names(view, offset)])


def _distinct(items: list[Item]) -> list[Item]:
    return list({item.label: item for item in reversed(items)}.values())[::-1]


def _members(view: View, name: str) -> Iterator[Item]:
    library = view.module.imported.get(name)
    if isinstance(library, Library):
        for known in library.module.brings():
            found = signatures.named(view, known, name)
            yield Item(known, "block", found.label if found else "", found.text if found else "")
        return
    yield from (Item(known, "property") for known in ATTRIBUTES)


def _arguments(view: View, offset: int) -> Iterator[Item]:
    """The names of what the call at hand takes, and texts that an attribute may be."""
    call = signatures.call_at(view.text, offset)
    found = signatures.named(view, call[1], call[0]) if call is not None else None
    if call is None or found is None:
        return
    op = OPS.get(call[1]) if call[1] in OPS else None
    names = [field.name for field in fields(op)] if op is not None else None
    for parameter in found.parameters:
        name = parameter.partition("=")[0].strip()
        if names is None or name in names:
            yield Item(f"{name}=", "attribute", parameter, f"of `{call[1]}`")


def _names(view: View, offset: int) -> Iterator[Item]:
    definition = view.definition_at(offset)
    owner = definition.name.text if definition is not None else _owner(view.text, offset)
    for one in view.occurrences:
        if one.target[2] == "local" and one.target[1] == owner and one.gives:
            yield Item(one.name, one.kind)
        elif one.kind == "choice" and one.target[1] == owner:
            yield Item(one.name, "choice")
    module = view.module
    for name in (*module.names, *module.imported):
        value = module.lookup(name)
        found = signatures.of_block(value) if isinstance(value, Block) else None
        kind = "block" if found else "alias" if isinstance(value, Library) else "const"
        yield Item(name, kind, found.label if found else "", found.text if found else "")
    for name, op in OPS.items():
        if not op.internal:
            found = signatures.of_operation(op)
            yield Item(name, "operation", found.label, found.text)
    yield from (Item(name, "function") for name in (*static.FUNCTIONS, *static.FOLDS) if name not in OPS)
    yield from (Item(word, "keyword") for word in sorted(KEYWORDS - {*_ITEMS, *_STATEMENTS}))


def _owner(text: str, offset: int) -> str:
    """The definition that a place is in, of a text that cannot be read there."""
    found = re.findall(r"^(?:own[ \t]+)?(?:block|cell|net)[ \t]+(\w+)", text[:offset], re.MULTILINE)
    return found[-1] if found else ""
