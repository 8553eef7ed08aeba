"""Signatures of operations and blocks, and signature help: the active parameter of the call around an offset."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from archir.ir.op import OPS, Op
from archir.language.elaboration.module import Block, Library, Module
from archir.language.literals import literal
from archir.tools.lsp.lexer import Token, code_tokens
from archir.tools.lsp.view import View


@dataclass(frozen=True)
class Signature:
    """Signature as one line of text, its parameters, a description, and the index of the active parameter, if any."""

    label: str
    parameters: tuple[str, ...]
    text: str
    active: int | None = None


def operation_signature(op: type[Op]) -> Signature:
    """Return the signature of an operation; its description is the docstring of the operation's class."""
    parameters = [f"{name[1:]}..." if name.startswith("*") else name for name in op.operands]
    for field in fields(op):
        has_default = field.default is not MISSING
        parameters.append(f"{field.name}={literal(field.default)}" if has_default else field.name)
    return Signature(f"{op.name}({', '.join(parameters)})", tuple(parameters), " ".join((op.__doc__ or "").split()))


_TYPE_NAMES = {int: "integer", float: "number", bool: "`true` or `false`", str: "string", type(None): "`none`"}
"""Names of attribute types as shown in messages."""


def describe_type(kind: Any) -> str:
    """Return the type of an attribute in words, such as "integer or `none`"."""
    if isinstance(kind, UnionType):
        return " or ".join(map(describe_type, get_args(kind)))
    if get_origin(kind) is Literal:
        return " or ".join(f'`"{name}"`' for name in get_args(kind))
    if get_origin(kind) is tuple:
        return "list of integers" if get_args(kind)[0] is int else "list of numbers"
    return _TYPE_NAMES[kind]


def block_signature(block: Block) -> Signature:
    """Return the signature of a block or cell; its description is the comment above its definition."""
    definition = block.definition
    parameters = tuple(param.span.text for param in definition.params)
    label = f"{definition.word} {block.name}({', '.join(parameters)})"
    return Signature(label, parameters, comment_above(definition.span.source.text, definition.span.start))


def comment_above(text: str, start: int) -> str:
    """Return the text of the comment lines directly above an offset."""
    comment: list[str] = []
    for line in reversed(text[:start].split("\n")[:-1]):
        if not line.strip().startswith("#"):
            break
        comment.append(line.strip().lstrip("#").strip())
    return "\n".join(reversed(comment))


def signature_of(view: View, name: str, alias: str | None = None) -> Signature | None:
    """Return the signature of a block, cell or operation by name; None for other names.

    `alias` is the local name of the library to look in.
    """
    origin: Module | Library | None = view.module
    if alias is not None:
        origin = view.module.imported.get(alias)
    module = origin.module if isinstance(origin, Library) else origin
    value = module.lookup(name) if isinstance(module, Module) else None
    if isinstance(value, Block):
        return block_signature(value)
    if alias is None and name in OPS and not OPS[name].internal:
        return operation_signature(OPS[name])
    return None


def call_at(text: str, offset: int) -> tuple[str | None, str, list[Token]] | None:
    """Return the innermost call whose parentheses contain an offset, or None if there is none.

    The call is returned as the library alias before its name (or None), its name, and the tokens from its opening
    parenthesis up to the offset.
    """
    tokens = code_tokens(text, max(0, offset - 4_000), offset)
    depth = 0
    for number in range(len(tokens) - 1, 0, -1):
        token = tokens[number]
        depth += (token.text in ")]}") - (token.text in "([{")
        if depth < 0:
            if token.text != "(" or tokens[number - 1].kind != "name":
                return None
            before_name = tokens[number - 2 : number - 1] if number > 1 else []
            alias = tokens[number - 3].text if before_name and before_name[0].text == "." and number > 2 else None
            return alias, tokens[number - 1].text, tokens[number + 1 :]
    return None


def signature_at(view: View, offset: int) -> Signature | None:
    """Return the signature of the innermost call around an offset, with the active parameter set."""
    call = call_at(view.text, offset)
    callee = signature_of(view, call[1], call[0]) if call is not None else None
    if call is None or callee is None:
        return None
    depth, commas, argument_start = 0, 0, 0
    arguments = call[2]
    for number, token in enumerate(arguments):
        depth += (token.text in "([{") - (token.text in ")]}")
        if token.text == "," and depth == 0:
            commas, argument_start = commas + 1, number + 1
    names = [parameter.partition("=")[0].strip() for parameter in callee.parameters]
    has_piped_operand = _is_piped(view.text, call[1], arguments, offset)
    active = min(commas + has_piped_operand, max(len(names) - 1, 0))
    if (
        len(arguments) > argument_start + 1
        and arguments[argument_start + 1].text == "="
        and arguments[argument_start].text in names
    ):
        active = names.index(arguments[argument_start].text)
    return Signature(callee.label, callee.parameters, callee.text, active)


def _is_piped(text: str, name: str, arguments: list[Token], offset: int) -> bool:
    """Return whether a pipe passes a value to the call.

    A value is passed if the call follows `|>`, or the colon or arrow of an alternative.
    """
    begin = arguments[0].start if arguments else offset
    before = text[:begin].rstrip().removesuffix("(").rstrip().removesuffix(name).rstrip()
    return before.endswith(("|>", ":", "=>"))
