"""Completion items at an offset of a text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields

from archir.ir.op import OPS
from archir.ir.types import DTYPES
from archir.language.elaboration import static
from archir.language.elaboration.cost_names import COSTS
from archir.language.elaboration.evaluate import ATTRIBUTES
from archir.language.elaboration.module import Block, Library
from archir.language.elaboration.unknown_names import libraries
from archir.tools.lsp import signatures
from archir.tools.lsp.lexer import KEYWORDS
from archir.tools.lsp.view import View

_STATEMENTS = ("for", "if", "input", "output", "repeat", "require", "return")
"""Keywords that can begin a statement in the body of a block or net."""
_ITEMS = ("block", "cell", "const", "import", "net", "own")
"""Keywords that can begin a top-level item."""
_WORD = re.compile(r"[A-Za-z_]\w*$")
"""Pattern of the partial word before the cursor."""


_PIPE_KEYWORDS = ("choose", "match")
"""Keywords that can begin what follows `|>`."""
_COMMON = ("conv", "linear", "relu", "batch_norm", "layer_norm", "gelu", "global_avg_pool", "max_pool", "avg_pool")
"""Operations that most programs use, most frequent first."""


@dataclass(frozen=True)
class CompletionItem:
    """Completion item: the text to insert (`label`), its kind, a detail (such as a signature), and documentation."""

    label: str
    kind: str
    detail: str = ""
    text: str = ""
    snippet: str = ""
    """Call with placeholders for the arguments without a default, in LSP's syntax of snippets; "" if there is none."""


def completions(view: View, offset: int) -> list[CompletionItem]:
    """Return the completion items at an offset, the most likely first.

    The editor filters them by the characters that are already typed. After `|>`, only names are offered that can be
    called or can hold something to call.
    """
    line = view.text[view.text.rfind("\n", 0, offset) + 1 : offset]
    if "#" in re.sub(r'"[^"]*"', "", line):
        return []
    typed = _WORD.search(line)
    before = line[: typed.start()] if typed else line
    if before.endswith("@"):
        return [CompletionItem(tag, "tag") for tag in sorted(set(re.findall(r"@(\w+)", view.text)))]
    if re.match(r"import[ \t]+[\w.]*$", line):
        return [CompletionItem(name, "library", ", ".join(names[:6])) for name, names in libraries().items()]
    if re.search(r"\binput[ \t]+\w+[ \t]*:[ \t]*$", before):
        return [CompletionItem(name, "type") for name in DTYPES]
    member = re.search(r"([A-Za-z_]\w*)\.$", before)
    if member is not None:
        return list(_members(view, member[1]))
    items = list(_arguments(view, offset))
    if re.fullmatch(r"[ \t]*", before):
        inside = view.text.count("{", 0, offset) > view.text.count("}", 0, offset)
        items += [CompletionItem(word, "keyword") for word in (_STATEMENTS if inside else _ITEMS)]
        if not inside:
            return items
    if re.search(r"\brequire\b", before):
        items += [CompletionItem(cost, "cost", "what an architecture costs") for cost in COSTS]
    if before.rstrip().endswith("|>"):
        words = [CompletionItem(word, "keyword") for word in _PIPE_KEYWORDS]
        return _distinct([*words, *_callables(view, True), *_locals(view, offset, ("parameter", "variable"))])
    return _distinct([*items, *_names(view, offset)])


def _distinct(items: list[CompletionItem]) -> list[CompletionItem]:
    """Return the items without those whose label occurred before."""
    return list({item.label: item for item in reversed(items)}.values())[::-1]


def _members(view: View, name: str) -> Iterator[CompletionItem]:
    """Yield completions after `name.`.

    These are the blocks and constants of an imported library, or the properties of tensors and lists.
    """
    library = view.module.imported.get(name)
    if isinstance(library, Library):
        for member in library.module.exported_names():
            signature = signatures.signature_of(view, member, name)
            yield CompletionItem(
                member, "block", signature.label if signature else "", signature.text if signature else ""
            )
        return
    yield from (CompletionItem(member, "property") for member in ATTRIBUTES)


def _arguments(view: View, offset: int) -> Iterator[CompletionItem]:
    """Yield `name=` for each attribute or parameter of the innermost call around an offset."""
    call = signatures.call_at(view.text, offset)
    signature = signatures.signature_of(view, call[1], call[0]) if call is not None else None
    if call is None or signature is None:
        return
    op = OPS.get(call[1])
    names = [field.name for field in fields(op)] if op is not None else None
    for parameter in signature.parameters:
        name = parameter.partition("=")[0].strip()
        if names is None or name in names:
            yield CompletionItem(f"{name}=", "attribute", parameter, f"of `{call[1]}`")


def _names(view: View, offset: int) -> Iterator[CompletionItem]:
    """Yield the names that are visible at an offset.

    These are locals, choices, module-level names, operations, functions and keywords.
    """
    yield from _locals(view, offset, None)
    module = view.module
    for name in (*module.names, *module.imported):
        if not isinstance(module.lookup(name), Block | Library):
            yield CompletionItem(name, "const")
    yield from _callables(view, False)
    yield from (CompletionItem(name, "function") for name in (*static.FUNCTIONS, *static.FOLDS) if name not in OPS)
    yield from (CompletionItem(word, "keyword") for word in sorted(KEYWORDS - {*_ITEMS, *_STATEMENTS}))


def _locals(view: View, offset: int, kinds: Collection[str] | None) -> Iterator[CompletionItem]:
    """Yield the local names and choices of the definition around an offset, those of all kinds if `kinds` is None."""
    definition = view.definition_at(offset)
    owner = definition.name.text if definition is not None else _owner_name(view.text, offset)
    for occurrence in view.occurrences:
        is_local = occurrence.target[2] == "local" and occurrence.is_definition
        if occurrence.target[1] != owner or not (is_local or occurrence.kind == "choice"):
            continue
        if kinds is None or occurrence.kind in kinds:
            yield CompletionItem(occurrence.name, occurrence.kind)


def _callables(view: View, piped: bool) -> Iterator[CompletionItem]:
    """Yield the blocks of the file, libraries, and operations: those that the file uses most, then common ones.

    If `piped`, a value is passed as the first argument.
    """
    module = view.module
    for name in (*module.names, *module.imported):
        value = module.lookup(name)
        if isinstance(value, Block):
            signature = signatures.block_signature(value)
            yield CompletionItem(name, "block", signature.label, signature.text, _call(name, signature, piped))
        elif isinstance(value, Library):
            yield CompletionItem(name, "alias")
    uses = Counter(occurrence.name for occurrence in view.occurrences if occurrence.kind == "operation")
    common = {name: rank for rank, name in enumerate(_COMMON)}
    names = [name for name, op in OPS.items() if not op.internal]
    for name in sorted(names, key=lambda name: (-uses[name], common.get(name, len(common)), name)):
        signature = signatures.operation_signature(OPS[name])
        yield CompletionItem(name, "operation", signature.label, signature.text, _call(name, signature, piped))


def _call(name: str, signature: signatures.Signature, piped: bool) -> str:
    """Return the snippet of a piped call; "" if it needs no arguments, or if `name` may be meant without a call."""
    required = [parameter for parameter in signature.parameters if "=" not in parameter][1:]
    if not piped or not required or any(parameter.endswith("...") for parameter in required):
        return ""
    return f"{name}({', '.join(f'${{{i}:{parameter}}}' for i, parameter in enumerate(required, 1))})"


def _owner_name(text: str, offset: int) -> str:
    """Return the name of the block, cell or net that contains an offset, or "" if there is none.

    It is found by its header line, so the text does not have to parse at the offset.
    """
    headers = re.findall(r"^(?:own[ \t]+)?(?:block|cell|net)[ \t]+(\w+)", text[:offset], re.MULTILINE)
    return headers[-1] if headers else ""
