"""What is said of the word under the cursor, in Markdown."""

from __future__ import annotations

from archir.ir.op import OPS, Op
from archir.language.elaboration.evaluate import ATTRIBUTES
from archir.language.elaboration.locals import walk
from archir.language.elaboration.values import Block
from archir.language.syntax import ast
from archir.tools.lsp import signatures
from archir.tools.lsp.nets import Net, amounts, label_of
from archir.tools.lsp.occurrences import Occurrence
from archir.tools.lsp.view import View
from archir.tools.lsp.words import words

_RULES = {"Result": "infer", "Weights": "weights", "Multiply-accumulates": "macs"}
KEYWORDS = {
    "net": "a network, or a space of them: `net tiny(width = 16) { ... }` has inputs and outputs",
    "block": "a part that is called as operations are: `block unit(x, width) { return x |> conv(width) |> relu }`",
    "choose": "`choose width(8, 16)`, `choose op { a: relu, b: gelu }` or `choose parts 2 of [a, b, c]`: a choice",
    "cell": "a `block` whose choices are made once, for all its calls",
    "import": 'makes blocks and constants known: `import std.cells` of the library, `import "parts.arch"` of a file',
    "const": "a value that the file's blocks and nets share: `const WIDTHS = [8, 16]`",
    "input": "what a net is given, without the batch: `input image: f32[3, 32, 32]`",
    "output": "what a net gives: `output logits = x`",
    "return": "what a block gives: `return x`, or `return a, b`, which is a list",
    "require": "leaves out the architectures that break a condition: `require macs <= 600M`",
    "own": "weights of its own for each alternative of what the arguments depend on",
    "repeat": "`repeat 3 as i { ... }`: statements several times",
    "for": "`for width in [8, 16] { ... }`: statements for each item of a list",
    "if": "`if stride > 1 { ... } else { ... }`: statements; `a if stride > 1 else b`: a value",
    "match": "`match kernel { 3 => conv(8), else => identity }`: cases",
    "where": "which combinations of a choice there are",
}
"""Words of the language, and what they are for."""
_SHOWN = 2


def hover(view: View, offset: int, found: list[Net]) -> str | None:
    """What is known of the word at an offset; None if it is nothing. `found` are the nets of the text."""
    one = view.at(offset)
    if one is None:
        word = next((word for word in words(view.text) if word.start <= offset <= word.end), None)
        said = KEYWORDS.get(word.text) if word is not None and word.kind == "keyword" else None
        return f"`{word.text}`: {said}" if word is not None and said else None
    parts = [_headline(view, one), *_values(view, one, found)]
    if one.kind in ("choice", "alternative") or one.target[2] == "local":
        parts += _choices(view, one, found)
    return "\n\n".join(part for part in parts if part) or None


def _headline(view: View, one: Occurrence) -> str:
    match one.kind:
        case "operation":
            return operation(OPS[one.name])
        case "attribute" if one.target[1] in OPS:
            return f"`{one.name}` of `{one.target[1]}`\n\n{operation(OPS[one.target[1]])}"
        case "block" | "cell":
            value = one.module.names.get(one.name) if one.module is not None else None
            found = signatures.of_block(value) if isinstance(value, Block) else None
            return _code(found.label, found.text) if found is not None else f"`{one.name}`"
        case "net":
            net = one.module.nets.get(one.name) if one.module is not None else None
            parameters = ", ".join(param.span.text for param in net.params) if net is not None else ""
            above = signatures.comment_above(net.span.source.text, net.span.start) if net is not None else ""
            return _code(f"net {one.name}({parameters})", above)
        case "const":
            home = one.module.constants() if one.module is not None else []
            value = next((const.span.text for const in home if const.name.text == one.name), f"const {one.name}")
            return _code(value, "")
        case "property":
            return f"`.{one.name}`: known before anything runs" if one.name in ATTRIBUTES else f"`.{one.name}`"
        case "unknown":
            return f"`{one.name}` means nothing here"
    return f"{one.kind} `{one.name}`"


def operation(op: type[Op]) -> str:
    """The page of an operation: how it is called, what it does, and its rules."""
    found = signatures.of_operation(op)
    said = [_code(found.label, found.text)]
    for what, rule in _RULES.items():
        text = " ".join((getattr(op, rule).__doc__ or "").split())
        if text and getattr(op, rule) is not getattr(Op, rule, None):
            said.append(f"- {what}: {text[:1].lower()}{text[1:]}")
    return "\n\n".join([said[0], "\n".join(said[1:])]) if said[1:] else said[0]


def _code(label: str, text: str) -> str:
    return f"```arch\n{label}\n```" + (f"\n\n{text}" if text else "")


def _values(view: View, one: Occurrence, found: list[Net]) -> list[str]:
    """What the name comes to, in each net: types and other values, with their cases; and what it costs."""
    spans = {(one.start, one.end)}
    if one.target[2] == "local" and not one.gives:
        before = [other for other in view.alike(one) if other.gives and other.end <= one.start]
        spans |= {(other.start, other.end) for other in before[-1:]}
    definition = view.definition_at(one.start)
    if definition is not None and one.kind in ("operation", "block", "cell"):
        calls = [part.span for part in walk(definition) if isinstance(part, ast.Call) and part.span.start == one.start]
        spans |= {(span.start, span.end) for span in calls}
    said = []
    for net in found:
        values = list(dict.fromkeys(value for span in sorted(spans) for value in net.values.get(span, [])))
        name = f" in `{net.graph.name}`" if len(found) > 1 else ""
        if values:
            said.append(f"is{name}: " + ", ".join(f"`{value}`" for value in values))
        costs = net.of_block(one.name) if one.kind in ("block", "cell") else None
        costs = net.costs if one.kind == "net" and net.graph.name == one.name else costs
        if costs is not None:
            said.append(f"costs{name}: {amounts(costs['params'])} parameters, {amounts(costs['macs'])} MACs")
        if one.kind == "net" and net.graph.name == one.name and net.size is not None:
            said.append(f"{net.size:,} architectures, {len(net.graph.decisions):,} choices")
    return said


def _choices(view: View, one: Occurrence, found: list[Net]) -> list[str]:
    """The choices that a label, an alternative or a variable stands for, and in how many architectures each is made."""
    definition = view.definition_at(one.start)
    if definition is None:
        return []
    tree = _choice_of(definition, one)
    said = []
    for net in found if tree is not None else []:
        assert tree is not None
        made = net.choices(tree.span.start, tree.span.end, view.path)
        for decision in made[:_SHOWN]:
            many = net.depending(decision)
            size = f"; made in {many:,} of {net.size:,} architectures" if many is not None and net.size else ""
            said.append(f"{label_of(decision.choice)}{size}")
        if len(made) > _SHOWN:
            said.append(f"and {len(made) - _SHOWN} more choices are made here")
    return said


def _choice_of(definition: ast.Definition, one: Occurrence) -> ast.Choose | None:
    """The choice with a label or alternative at a place, or the one that a variable is."""
    for part in walk(definition):
        if isinstance(part, ast.Choose):
            names = [part.label] if part.label is not None else []
            names += [alternative.name for alternative in part.alternatives] if isinstance(part, ast.ChooseOne) else []
            if any(name.span.start == one.start for name in names):
                return part
        chosen = isinstance(part, ast.Assign) and [target.text for target in part.targets] == [one.name]
        if chosen and isinstance(part, ast.Assign) and isinstance(part.value, ast.Choose):
            return part.value
    return None
