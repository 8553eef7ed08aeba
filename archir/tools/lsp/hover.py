"""Hover texts in Markdown: the documentation of the name or keyword under the cursor, its value and its cost."""

from __future__ import annotations

from archir.ir.op import OPS, Op
from archir.language.elaboration.evaluate import ATTRIBUTES
from archir.language.elaboration.module import Block
from archir.language.elaboration.name_analysis import walk
from archir.language.syntax import ast
from archir.tools.lsp import signatures
from archir.tools.lsp.lexer import tokenize
from archir.tools.lsp.nets import Net, describe_choice, format_range
from archir.tools.lsp.occurrences import Occurrence
from archir.tools.lsp.view import View

_RULES = {"Result": "infer", "Weights": "weights", "Multiply-accumulates": "macs"}
"""Documented rules of an operation: the heading of each, and the name of the method that implements it.

The docstring of the method is shown under the heading.
"""
KEYWORDS = {
    "net": "a network or a search space of networks, with inputs and outputs: `net tiny(width = 16) { ... }`",
    "block": "a reusable part, called like an operation: `block unit(x, width) { return x |> conv(width) |> relu }`",
    "choose": "`choose width(8, 16)`, `choose op { a: relu, b: gelu }` or `choose parts 2 of [a, b, c]`: a choice",
    "cell": "a `block` whose choices are made once and shared by all its calls",
    "import": "imports blocks and constants: `import std.cells` from a library of archir, "
    '`import "parts.arch"` from a file',
    "const": "a constant of the file: `const WIDTHS = [8, 16]`",
    "input": "an input of a net; its shape has no batch axis: `input image: f32[3, 32, 32]`",
    "output": "an output of a net: `output logits = x`",
    "return": "the result of a block: `return x`, or `return a, b` for a list",
    "require": "excludes architectures that do not satisfy a condition: `require macs <= 600M`",
    "own": "separate weights for each combination of values that the arguments may have: `own conv(x, 8, kernel)`",
    "repeat": "repeats statements: `repeat 3 as i { ... }`; the count may be a choice",
    "for": "repeats statements for each item of a list: `for width in [8, 16] { ... }`",
    "if": "conditional statements: `if stride > 1 { ... } else { ... }`; or a value: `a if stride > 1 else b`",
    "match": "selects a case by value: `match kernel { 3 => conv(8), else => identity }`",
    "where": "which combinations of a choice are allowed",
}
"""Help text by keyword of the language."""
_MAX_CHOICES = 2
"""Maximum number of choices that one hover text describes."""


def hover(view: View, offset: int, nets: list[Net]) -> str | None:
    """Return the documentation of the name or keyword at an offset, or None if there is nothing to show.

    `nets` are the elaborated nets of the text.
    """
    occurrence = view.occurrence_at(offset)
    if occurrence is None:
        token = next((token for token in tokenize(view.text) if token.start <= offset <= token.end), None)
        help_text = KEYWORDS.get(token.text) if token is not None and token.kind == "keyword" else None
        return f"`{token.text}`: {help_text}" if token is not None and help_text else None
    parts = [_headline(view, occurrence), *_value_lines(view, occurrence, nets)]
    if occurrence.kind in ("choice", "alternative") or occurrence.target[2] == "local":
        parts += _choice_lines(view, occurrence, nets)
    return "\n\n".join(part for part in parts if part) or None


def _headline(view: View, occurrence: Occurrence) -> str:
    """Return the first paragraph of a hover text: the kind, signature or definition of a name."""
    match occurrence.kind:
        case "operation":
            return operation_page(OPS[occurrence.name])
        case "attribute" if occurrence.target[1] in OPS:
            return f"`{occurrence.name}` of `{occurrence.target[1]}`\n\n{operation_page(OPS[occurrence.target[1]])}"
        case "block" | "cell":
            value = occurrence.module.names.get(occurrence.name) if occurrence.module is not None else None
            signature = signatures.block_signature(value) if isinstance(value, Block) else None
            return (
                _signature_block(signature.label, signature.text) if signature is not None else f"`{occurrence.name}`"
            )
        case "net":
            net = occurrence.module.nets.get(occurrence.name) if occurrence.module is not None else None
            parameters = ", ".join(param.span.text for param in net.params) if net is not None else ""
            comment = signatures.comment_above(net.span.source.text, net.span.start) if net is not None else ""
            return _signature_block(f"net {occurrence.name}({parameters})", comment)
        case "const":
            constants = occurrence.module.constants() if occurrence.module is not None else []
            value = next(
                (const.span.text for const in constants if const.name.text == occurrence.name),
                f"const {occurrence.name}",
            )
            return _signature_block(value, "")
        case "property":
            return (
                f"`.{occurrence.name}`: known at compile time"
                if occurrence.name in ATTRIBUTES
                else f"`.{occurrence.name}`"
            )
        case "unknown":
            return f"`{occurrence.name}` is not defined"
    return f"{occurrence.kind} `{occurrence.name}`"


def operation_page(op: type[Op]) -> str:
    """Return the documentation of an operation in Markdown: its signature, its description and its rules."""
    signature = signatures.operation_signature(op)
    sections = [_signature_block(signature.label, signature.text)]
    for heading, method in _RULES.items():
        text = " ".join((getattr(op, method).__doc__ or "").split())
        if text and getattr(op, method) is not getattr(Op, method, None):
            sections.append(f"- {heading}: {text[:1].lower()}{text[1:]}")
    return "\n\n".join([sections[0], "\n".join(sections[1:])]) if sections[1:] else sections[0]


def _signature_block(label: str, text: str) -> str:
    """Return a signature as a code block, followed by a description."""
    return f"```arch\n{label}\n```" + (f"\n\n{text}" if text else "")


def _value_lines(view: View, occurrence: Occurrence, nets: list[Net]) -> list[str]:
    """Return lines of text with the values, types and costs that a name has in each net."""
    spans = {(occurrence.start, occurrence.end)}
    if occurrence.target[2] == "local" and not occurrence.is_definition:
        definitions = [
            definition_before
            for definition_before in view.occurrences_of(occurrence)
            if definition_before.is_definition and definition_before.end <= occurrence.start
        ]
        spans |= {(definition_before.start, definition_before.end) for definition_before in definitions[-1:]}
    definition = view.definition_at(occurrence.start)
    if definition is not None and occurrence.kind in ("operation", "block", "cell"):
        calls = [
            part.span for part in walk(definition) if isinstance(part, ast.Call) and part.span.start == occurrence.start
        ]
        spans |= {(span.start, span.end) for span in calls}
    lines = []
    for net in nets:
        values = list(dict.fromkeys(value for span in sorted(spans) for value in net.values.get(span, [])))
        name = f" in `{net.graph.name}`" if len(nets) > 1 else ""
        if values:
            lines.append(f"is{name}: " + ", ".join(f"`{value}`" for value in values))
        costs = net.block_costs(occurrence.name) if occurrence.kind in ("block", "cell") else None
        costs = net.costs if occurrence.kind == "net" and net.graph.name == occurrence.name else costs
        if costs is not None:
            lines.append(f"costs{name}: {format_range(costs['params'])} parameters, {format_range(costs['macs'])} MACs")
        if occurrence.kind == "net" and net.graph.name == occurrence.name and net.size is not None:
            lines.append(f"{net.size:,} architectures, {len(net.graph.decisions):,} choices")
    return lines


def _choice_lines(view: View, occurrence: Occurrence, nets: list[Net]) -> list[str]:
    """Return one line per choice to which a label, an alternative or a variable refers.

    Each line includes the number of architectures in which the choice is made.
    """
    definition = view.definition_at(occurrence.start)
    if definition is None:
        return []
    choose = _choice_of(definition, occurrence)
    lines = []
    for net in nets if choose is not None else []:
        assert choose is not None
        decisions = net.choices_in(choose.span.start, choose.span.end, view.path)
        for decision in decisions[:_MAX_CHOICES]:
            count = net.count_with(decision)
            count_text = f"; made in {count:,} of {net.size:,} architectures" if count is not None and net.size else ""
            lines.append(f"{describe_choice(decision.choice)}{count_text}")
        if len(decisions) > _MAX_CHOICES:
            lines.append(f"and {len(decisions) - _MAX_CHOICES} more choices are made here")
    return lines


def _choice_of(definition: ast.Definition, occurrence: Occurrence) -> ast.Choose | None:
    """Return the choice with the label or alternative at an occurrence, or the choice assigned to its variable."""
    for part in walk(definition):
        if isinstance(part, ast.Choose):
            names = [part.label] if part.label is not None else []
            names += [alternative.name for alternative in part.alternatives] if isinstance(part, ast.ChooseOne) else []
            if any(name.span.start == occurrence.start for name in names):
                return part
        is_assigned = isinstance(part, ast.Assign) and [target.text for target in part.targets] == [occurrence.name]
        if is_assigned and isinstance(part, ast.Assign) and isinstance(part.value, ast.Choose):
            return part.value
    return None
