"""Translation of nodes to Python source: torch layers, expressions, and helper functions and modules.

Helper functions and modules are defined in the emitted file itself.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.ops.arithmetic import Concat
from archir.ops.shape import Parameter, Slice
from archir_torch.export.source.holes import TextTemplate, call_template, tidy, with_holes
from archir_torch.export.source.inlining import definition, evaluate_text, expression, sources, specialise_rule
from archir_torch.lowering.layers import Argument, standard_layer
from archir_torch.lowering.rules import RULES, Rule

_SHARED_MODULE = "__lender__"
"""Placeholder for the module that owns the weights of a shared-weight operation."""


class Helpers:
    """Helper functions and modules of an emitted file by name, dependencies first.

    All blocks of the file share them.
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._modules: dict[tuple[str, tuple[str, ...]], str] = {}

    def module(self, op: Op, types: Sequence[TensorType]) -> TextTemplate | None:
        """Return the constructor of the module for a node; None if the node needs no module."""
        layer = standard_layer(op, types)
        if layer is not None:
            if layer.source:
                self.texts.setdefault(layer.name, layer.source)
            return call_template(layer.name, layer.arguments)
        rule = RULES[type(op)]
        weights = op.weights(*types)
        if not weights and not rule.has_modes(op):
            return None
        if isinstance(op, Parameter):
            zeros = call_template("torch.zeros", [Argument("size", size) for size in op.shape])
            return TextTemplate(f'nn.ParameterDict({{"value": {zeros.text}}})', zeros.holes)
        key = (op.name, (*weights,))
        if key not in self._modules:
            self._modules[key] = name = self._free_name(op.name)
            buffers = [name for name, weight in weights.items() if weight.buffer]
            self._write_module(name, op, rule, [*weights], buffers)
        shapes = [Argument(f"{weight}_shape", w.shape) for weight, w in weights.items()]
        return call_template(self._modules[key], [*shapes, *(Argument(*pair) for pair in rule.attributes(op).items())])

    def _free_name(self, name: str) -> str:
        """Return an unused class name derived from the name of an operation."""
        base = candidate = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
        number = 2
        while candidate in self.texts:
            candidate, number = f"{base}{number}", number + 1
        return candidate

    def expression(self, op: Op, texts: Sequence[str], types: Sequence[TensorType]) -> TextTemplate:
        """Return the expression that computes a node without weights from operands with the given names."""
        rule = RULES[type(op)]
        match op:
            case Slice():
                return _slice_expression(op, texts[0], types[0])
            case Concat():
                return TextTemplate(f"torch.cat([{', '.join(texts)}], {_axis(op, types[0])})")
        attributes = rule.attributes(op)
        extra = {"inplace": False} if rule.takes("inplace") else {}
        inlined = expression(rule.function, texts, [x.rank + 1 for x in types], {**attributes, **extra})
        if inlined is None:
            parameters = inspect.signature(rule.function).parameters
            modes = {"training": False} if rule.takes("training") else {}
            fixed = modes | {name: value for name, value in attributes.items() if value == parameters[name].default}
            self._add_function(rule, types, fixed | dict.fromkeys(op.operands[len(texts) :]))
            keywords = [f"{name}={value!r}" for name, value in attributes.items() if name not in fixed]
            inlined = f"{rule.function.__name__}({', '.join([*texts, *keywords])})"
        return with_holes(inlined, attributes)

    def shared_expression(self, op: Op, texts: Sequence[str], types: Sequence[TensorType], module: str) -> TextTemplate:
        """Return the expression of a node that uses the weights of another operation's module.

        `module` is that module's name.
        """
        rule, attributes = RULES[type(op)], RULES[type(op)].attributes(op)
        op_weights = op.weights(*types)
        remaining = [a.arg for a in definition(rule.function).args.args][len(texts) :]
        weights = [f"{_SHARED_MODULE}.{name}" if name in op_weights else "None" for name in remaining]
        ranks = [x.rank + 1 for x in types] + [0] * len(weights)
        inlined = expression(rule.function, [*texts, *weights], ranks, attributes)
        if inlined is None:
            self.texts |= sources(rule.function)
            keywords = [f"{name}={value!r}" for name, value in attributes.items()]
            inlined = f"{rule.function.__name__}({', '.join([*texts, *weights, *keywords])})"
        result = with_holes(inlined, attributes)
        return TextTemplate(result.text.replace(_SHARED_MODULE, module), result.holes)

    def _add_function(self, rule: Rule, types: Sequence[TensorType], fixed: Mapping[str, Any]) -> None:
        """Add the function of a lowering rule to the file, specialised to operand ranks and fixed parameter values.

        If the file already contains another specialisation of the function, the general function replaces it.
        """
        name = rule.function.__name__
        definitions = sources(rule.function)
        text = specialise_rule(rule.function, [x.rank + 1 for x in types], fixed)
        if self.texts.get(name, text) != text:
            text = definitions[name]
        used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        is_full = text == definitions[name]
        self.texts |= {
            other: part for other, part in definitions.items() if other != name and (is_full or other in used)
        }
        self.texts[name] = text

    def _write_module(self, class_name: str, op: Op, rule: Rule, weights: list[str], buffers: list[str]) -> None:
        """Emit a module class for a lowering rule that has weights or depends on the mode, and has no torch layer."""
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
        required = len(operands) - op.optional
        signature = operands[:required] + [f"{name}=None" for name in operands[required:]]
        inputs = ", ".join(["self", *signature, *(["batch"] if rule.takes("batch") else [])])
        lines += ["", f"    def forward({inputs}):"]
        attribute_names = {*weights, *attributes, *(["training"] if rule.takes("training") else [])}
        body = _inline_body(rule, attribute_names, operands)
        if body is None:
            self.texts |= sources(rule.function)
            keywords = [f"{name}=self.{name}" for name in [*weights, *attributes]]
            keywords += ["training=self.training"] if rule.takes("training") else []
            keywords += ["batch=batch"] if rule.takes("batch") else []
            body = [f"return {rule.function.__name__}({', '.join([*operands, *keywords])})"]
        self.texts[class_name] = "\n".join([*lines, *(f"        {line}" for line in body)])


def _slice_expression(op: Slice, text: str, x: TensorType) -> TextTemplate:
    """Return the expression of a slice, such as `x[:, 16:32]`."""
    axis, start, stop = op.bounds(x)
    limits = [Argument("start", start)] if start else []
    limits += [Argument("stop", stop)] if stop < x.shape[axis] else []
    texts = call_template("", limits).text.strip("()").split(", ") if limits else []
    first = texts.pop(0) if start else ""
    bounds = f"{first}:{texts[0] if texts else ''}"
    prefix = "..., " if axis == x.rank - 1 else ":, " * (axis + 1)
    return TextTemplate(f"{text}[{prefix}{bounds}]", tuple(limits))


def _axis(op: Concat, x: TensorType) -> int:
    """Return the axis of a concatenation, counted with the batch axis; -1 for the features of tokens and vectors."""
    if op.axis is None:
        return 1 if x.rank >= 3 else -1
    return op.axis if op.axis < 0 else op.axis + 1


def split_expression(parts: int, text: str, op: Slice, x: TensorType) -> TextTemplate:
    """Return the expression that splits a tensor into equal parts, such as `x.chunk(3, 1)`."""
    axis, *_ = op.bounds(x)
    return TextTemplate(f"{text}.chunk({parts}, {-1 if axis == x.rank - 1 else axis + 1})")


def _inline_body(rule: Rule, attributes: set[str], operands: Sequence[str]) -> list[str] | None:
    """Return the statements of a lowering rule as the body of a module's forward function.

    The module's attributes become `self.name`, and absent operands get their defaults. Returns None if the statements
    use other functions or assign to attributes.
    """
    if len(sources(rule.function)) > 1:
        return None
    tree = definition(rule.function)
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    if stored & attributes:
        return None
    optional = {a.arg for a in tree.args.args + tree.args.kwonlyargs} - attributes - {a.arg for a in tree.args.args}
    if optional - {"batch"}:
        return None
    text = "\n".join(ast.unparse(statement) for statement in tree.body)
    with_defaults = tree.args.args[len(tree.args.args) - len(tree.args.defaults) :]
    defaults = {a.arg: d for a, d in zip(with_defaults, tree.args.defaults, strict=True)}
    defaults = {name: default for name, default in defaults.items() if name not in attributes and name not in operands}
    replacements: dict[str, ast.expr] = {name: ast.Attribute(ast.Name("self"), name) for name in attributes}
    return tidy(evaluate_text(text, {**replacements, **defaults})).splitlines()
