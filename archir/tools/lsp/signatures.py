"""What a call takes, and which of it stands at a place."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from archir.ir.op import OPS, Op
from archir.language.elaboration.files import Module
from archir.language.elaboration.values import Block, Library
from archir.language.source import literal
from archir.tools.lsp.view import View
from archir.tools.lsp.words import Word, code_words


@dataclass(frozen=True)
class Signature:
    """How something is called: the whole line, its parameters, what it does, and the parameter at hand, if known."""

    label: str
    parameters: tuple[str, ...]
    text: str
    active: int | None = None


def of_operation(op: type[Op]) -> Signature:
    """How an operation is called."""
    parameters = [f"{name[1:]}..." if name.startswith("*") else name for name in op.operands]
    for field in fields(op):
        known = field.default is not MISSING
        parameters.append(f"{field.name}={literal(field.default)}" if known else field.name)
    return Signature(f"{op.name}({', '.join(parameters)})", tuple(parameters), " ".join((op.__doc__ or "").split()))


_WORDS = {int: "integer", float: "number", bool: "`true` or `false`", str: "string", type(None): "`none`"}


def described(kind: Any) -> str:
    """The type of an attribute in words."""
    if isinstance(kind, UnionType):
        return " or ".join(map(described, get_args(kind)))
    if get_origin(kind) is Literal:
        return " or ".join(f'`"{name}"`' for name in get_args(kind))
    if get_origin(kind) is tuple:
        return "list of integers" if get_args(kind)[0] is int else "list of numbers"
    return _WORDS[kind]


def of_block(block: Block) -> Signature:
    """How a block or cell is called; what it does say the comments above it."""
    definition = block.definition
    parameters = tuple(param.span.text for param in definition.params)
    label = f"{definition.word} {block.name}({', '.join(parameters)})"
    return Signature(label, parameters, comment_above(definition.span.source.text, definition.span.start))


def comment_above(text: str, start: int) -> str:
    """The lines of comment right above a place."""
    found: list[str] = []
    for line in reversed(text[:start].split("\n")[:-1]):
        if not line.strip().startswith("#"):
            break
        found.append(line.strip().lstrip("#").strip())
    return "\n".join(reversed(found))


def named(view: View, name: str, alias: str | None = None) -> Signature | None:
    """How what a name means is called; None for what is not called."""
    home: Module | Library | None = view.module
    if alias is not None:
        home = view.module.imported.get(alias)
    module = home.module if isinstance(home, Library) else home
    value = module.lookup(name) if isinstance(module, Module) else None
    if isinstance(value, Block):
        return of_block(value)
    if alias is None and name in OPS and not OPS[name].internal:
        return of_operation(OPS[name])
    return None


def call_at(text: str, offset: int) -> tuple[str | None, str, list[Word]] | None:
    """The call whose brackets an offset is in: alias, name, and the words from its bracket on."""
    found = code_words(text, max(0, offset - 4_000), offset)
    depth = 0
    for number in range(len(found) - 1, 0, -1):
        word = found[number]
        depth += (word.text in ")]}") - (word.text in "([{")
        if depth < 0:
            if word.text != "(" or found[number - 1].kind != "name":
                return None
            behind = found[number - 2 : number - 1] if number > 1 else []
            alias = found[number - 3].text if behind and behind[0].text == "." and number > 2 else None
            return alias, found[number - 1].text, found[number + 1 :]
    return None


def signature(view: View, offset: int) -> Signature | None:
    """The call at an offset, with the parameter at hand."""
    call = call_at(view.text, offset)
    found = named(view, call[1], call[0]) if call is not None else None
    if call is None or found is None:
        return None
    depth, commas, last = 0, 0, 0
    words = call[2]
    for number, word in enumerate(words):
        depth += (word.text in "([{") - (word.text in ")]}")
        if word.text == "," and depth == 0:
            commas, last = commas + 1, number + 1
    names = [parameter.partition("=")[0].strip() for parameter in found.parameters]
    piped = _piped(view.text, call[1], words, offset)
    active = min(commas + piped, max(len(names) - 1, 0))
    if len(words) > last + 1 and words[last + 1].text == "=" and words[last].text in names:
        active = names.index(words[last].text)
    return Signature(found.label, found.parameters, found.text, active)


def _piped(text: str, name: str, words: list[Word], offset: int) -> bool:
    """Whether something is piped into the call: a `|>` stands before it, or an alternative's colon."""
    begin = words[0].start if words else offset
    before = text[:begin].rstrip().removesuffix("(").rstrip().removesuffix(name).rstrip()
    return before.endswith(("|>", ":", "=>"))
