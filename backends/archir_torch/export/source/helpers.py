"""What nodes become: layers of torch, expressions, and functions and modules that the file brings along."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.ops.arithmetic import Concat
from archir.ops.shape import Parameter, Slice
from archir_torch.export.source.holes import Mold, called, tidy, with_holes
from archir_torch.export.source.inlining import definition, expression, filled, sources, specialised
from archir_torch.lowering.layers import Argument, standard_layer
from archir_torch.lowering.rules import RULES, Rule

_LENDER = "__lender__"


class Helpers:
    """The functions and modules of a file that blocks share, by name, in the order in which they are needed."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._modules: dict[tuple[str, tuple[str, ...]], str] = {}

    def module(self, op: Op, types: Sequence[TensorType]) -> Mold | None:
        """The constructor of a node's module; None if it needs none."""
        layer = standard_layer(op, types)
        if layer is not None:
            if layer.source:
                self.texts.setdefault(layer.name, layer.source)
            return called(layer.name, layer.arguments)
        rule = RULES[type(op)]
        weights = op.weights(*types)
        if not weights and not rule.takes("training"):
            return None
        if isinstance(op, Parameter):
            shaped = called("torch.zeros", [Argument("size", size) for size in op.shape])
            return Mold(f'nn.ParameterDict({{"value": {shaped.text}}})', shaped.holes)
        key = (op.name, (*weights,))
        if key not in self._modules:
            self._modules[key] = name = self._free(op.name)
            buffers = [name for name, weight in weights.items() if weight.buffer]
            self._write_module(name, op, rule, [*weights], buffers)
        shapes = [Argument(f"{weight}_shape", w.shape) for weight, w in weights.items()]
        return called(self._modules[key], [*shapes, *(Argument(*pair) for pair in rule.attributes(op).items())])

    def _free(self, name: str) -> str:
        base = made = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
        number = 2
        while made in self.texts:
            made, number = f"{base}{number}", number + 1
        return made

    def expression(self, op: Op, texts: Sequence[str], types: Sequence[TensorType]) -> Mold:
        """What a node without weights is, of operands with these names."""
        rule = RULES[type(op)]
        match op:
            case Slice():
                return _sliced(op, texts[0], types[0])
            case Concat():
                return Mold(f"torch.cat([{', '.join(texts)}], {_axis(op, types[0])})")
        attributes, kept = rule.attributes(op), op.kept_attributes()
        more = {"inplace": False} if rule.takes("inplace") else {}
        inlined = expression(rule.function, texts, [x.rank + 1 for x in types], {**attributes, **more})
        if inlined is None:
            fixed = {name: attributes[name] for name in op.later if name in attributes and name not in kept}
            self._bring(rule, types, fixed | dict.fromkeys(op.operands[len(texts) :]))
            given = [f"{name}={value!r}" for name, value in attributes.items() if name not in fixed]
            inlined = f"{rule.function.__name__}({', '.join([*texts, *given])})"
        return with_holes(inlined, attributes)

    def borrowed(self, op: Op, texts: Sequence[str], types: Sequence[TensorType], module: str) -> Mold:
        """What a node is whose weights another's module holds, which is called `module`."""
        rule, attributes = RULES[type(op)], RULES[type(op)].attributes(op)
        held = op.weights(*types)
        lacking = [a.arg for a in definition(rule.function).args.args][len(texts) :]
        weights = [f"{_LENDER}.{name}" if name in held else "None" for name in lacking]
        ranks = [x.rank + 1 for x in types] + [0] * len(weights)
        inlined = expression(rule.function, [*texts, *weights], ranks, attributes)
        if inlined is None:
            self.texts |= sources(rule.function)
            given = [f"{name}={value!r}" for name, value in attributes.items()]
            inlined = f"{rule.function.__name__}({', '.join([*texts, *weights, *given])})"
        made = with_holes(inlined, attributes)
        return Mold(made.text.replace(_LENDER, module), made.holes)

    def _bring(self, rule: Rule, types: Sequence[TensorType], fixed: Mapping[str, Any]) -> None:
        """Bring a function along, without what operands of these ranks and these values do not need if none has
        others."""
        name = rule.function.__name__
        written = sources(rule.function)
        text = specialised(rule.function, [x.rank + 1 for x in types], fixed)
        if self.texts.get(name, text) != text:
            text = written[name]
        used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        whole = text == written[name]
        self.texts |= {other: part for other, part in written.items() if other != name and (whole or other in used)}
        self.texts[name] = text

    def _write_module(self, class_name: str, op: Op, rule: Rule, weights: list[str], buffers: list[str]) -> None:
        """A module around a rule that has weights, or depends on the mode, and is no layer of torch."""
        attributes = [*rule.attributes(op)]
        operands = [] if rule.takes("batch") else [name.lstrip("*") for name in op.operands]
        head = ", ".join(["self", *(f"{weight}_shape" for weight in weights), *attributes])
        lines = [f"class {class_name}(nn.Module):", f"    def __init__({head}):", "        super().__init__()"]
        for weight in weights:
            if weight in buffers:
                lines.append(f'        self.register_buffer("{weight}", torch.zeros({weight}_shape))')
            else:
                lines.append(f"        self.{weight} = nn.Parameter(torch.zeros({weight}_shape))")
        lines += [f"        self.{name} = {name}" for name in attributes]
        inputs = ", ".join(["self", *operands, *(["batch"] if rule.takes("batch") else [])])
        lines += ["", f"    def forward({inputs}):"]
        held = {*weights, *attributes, *(["training"] if rule.takes("training") else [])}
        body = _body(rule, held, operands)
        if body is None:
            self.texts |= sources(rule.function)
            given = [f"{name}=self.{name}" for name in [*weights, *attributes]]
            given += ["training=self.training"] if rule.takes("training") else []
            given += ["batch=batch"] if rule.takes("batch") else []
            body = [f"return {rule.function.__name__}({', '.join([*operands, *given])})"]
        self.texts[class_name] = "\n".join([*lines, *(f"        {line}" for line in body)])


def _sliced(op: Slice, text: str, x: TensorType) -> Mold:
    """`x[:, 16:32]`."""
    axis, start, stop = op.bounds(x)
    ends = [Argument("start", start)] if start else []
    ends += [Argument("stop", stop)] if stop < x.shape[axis] else []
    part = called("", ends).text.strip("()").split(", ") if ends else []
    first = part.pop(0) if start else ""
    bounds = f"{first}:{part[0] if part else ''}"
    home = "..., " if axis == x.rank - 1 else ":, " * (axis + 1)
    return Mold(f"{text}[{home}{bounds}]", tuple(ends))


def _axis(op: Concat, x: TensorType) -> int:
    """The axis with the batch axis; that of the features of tokens and vectors is the last."""
    if op.axis is None:
        return 1 if x.rank >= 3 else -1
    return op.axis if op.axis < 0 else op.axis + 1


def split(parts: int, text: str, op: Slice, x: TensorType) -> Mold:
    """A tensor in equal parts: `x.chunk(3, 1)`."""
    axis, *_ = op.bounds(x)
    return Mold(f"{text}.chunk({parts}, {-1 if axis == x.rank - 1 else axis + 1})")


def _body(rule: Rule, held: set[str], operands: Sequence[str]) -> list[str] | None:
    """A rule's statements with `self.name` for what the module holds, and defaults for what this operation lacks.

    None where they use or change more than that.
    """
    if len(sources(rule.function)) > 1:
        return None
    tree = definition(rule.function)
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    if stored & held:
        return None
    optional = {a.arg for a in tree.args.args + tree.args.kwonlyargs} - held - {a.arg for a in tree.args.args}
    if optional - {"batch"}:
        return None
    text = "\n".join(ast.unparse(statement) for statement in tree.body)
    with_defaults = tree.args.args[len(tree.args.args) - len(tree.args.defaults) :]
    lacking = {a.arg: d for a, d in zip(with_defaults, tree.args.defaults, strict=True)}
    lacking = {name: default for name, default in lacking.items() if name not in held and name not in operands}
    known: dict[str, ast.expr] = {name: ast.Attribute(ast.Name("self"), name) for name in held}
    return tidy(filled(text, {**known, **lacking})).splitlines()
