"""Python classes for block calls.

Calls of equal structure share one class; numbers in which these calls differ become parameters of the class.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from archir.ir.graph import Graph, scope_path
from archir.ir.typing import Types
from archir.ops.shape import Parameter, Slice
from archir_torch.export.source.calls import Call, has_weights
from archir_torch.export.source.helpers import Helpers, split_expression
from archir_torch.export.source.holes import Code, TextTemplate, call_template, literal
from archir_torch.export.source.parameters import Parameters
from archir_torch.export.source.statements import MODULE, Line, Path, assignments, forward_lines
from archir_torch.export.source.variables import RESERVED, Step, Variables, steps
from archir_torch.lowering.layers import Argument

MAX_SWAPPED = 2
"""Maximum number of submodules whose classes may differ between the calls that share a class.

Such submodules are passed to the constructor.
"""


@dataclass
class Module:
    """Submodule of an emitted class: its path, class name and constructor."""

    path: Path
    name: str
    is_block: bool
    mold: TextTemplate


@dataclass
class Template:
    """Source of one call's class, with holes in place of numbers, and the numbers of that call."""

    modules: list[Module]
    lines: list[tuple[Line, TextTemplate]]
    signature: list[str]
    returns: str
    channels: int | None

    @property
    def structure(self) -> tuple[object, ...]:
        """Key that is equal for calls that can share a class, provided that their nested blocks can."""
        modules = tuple((m.path, "" if m.is_block else m.mold.text) for m in self.modules)
        return modules, tuple((line, mold.text) for line, mold in self.lines), tuple(self.signature), self.returns

    @property
    def blocks(self) -> tuple[str, ...]:
        """Class names of the nested blocks."""
        return tuple(m.name for m in self.modules if m.is_block)


class Classes:
    """Emitted classes of a network by name; every class comes after the classes it depends on."""

    def __init__(self, graph: Graph, types: Types, helpers: Helpers) -> None:
        self.graph, self.types, self.helpers = graph, types, helpers
        self.texts: dict[str, str] = {}

    def write(self, root: Call) -> None:
        """Emit the classes for a call and all calls nested in it."""
        pending = root.everything()
        while pending:
            ready = [call for call in pending if all(child.class_name for child in call.calls())]
            waiting = {call.name for call in pending if call not in ready}
            batch = [call for call in ready if call.name not in waiting] or ready
            for group in self._group_calls(batch):
                self._write_class(group)
            pending = [call for call in pending if not call.class_name]

    def _group_calls(self, calls: Sequence[Call]) -> list[list[tuple[Call, Template]]]:
        """Group the calls that will share a class."""
        by_structure: dict[tuple[object, ...], list[tuple[Call, Template]]] = {}
        for call in calls:
            template = self._template(call)
            by_structure.setdefault((call.name, template.structure), []).append((call, template))
        groups: list[list[tuple[Call, Template]]] = []
        for group in by_structure.values():
            columns = zip(*(template.blocks for _, template in group), strict=True)
            if sum(len(set(column)) > 1 for column in columns) <= MAX_SWAPPED:
                groups.append(group)
                continue
            by_blocks: dict[tuple[str, ...], list[tuple[Call, Template]]] = {}
            for call, template in group:
                by_blocks.setdefault(template.blocks, []).append((call, template))
            groups += by_blocks.values()
        return groups

    def _template(self, call: Call) -> Template:
        """Return the template of the class for one call."""
        call_steps = steps(self.graph, self.types, call)
        variables = Variables(self.graph, call, call_steps)
        modules: dict[Path, Module] = {}
        lines: list[tuple[Line, TextTemplate]] = []
        signature = [variables.name_of(number) for number in call.inputs]
        for step in call_steps:
            texts = tuple(variables.name_of(number) for number in step.reads)
            path, module, mold = self._step_code(call, step, texts or (variables.batch(),), modules)
            if module is not None:
                assert path is not None
                modules.setdefault(path, module)
            targets = tuple(variables.allocate(step.writes))
            lines.append((Line(targets, texts, path, only_next=variables.only_next(step)), mold))
        returned = [variables.name_of(number) for number in call.outputs]
        returns = ", ".join(returned)
        if call.scope == "" and len(returned) > 1:
            pairs = zip(self.graph.outputs, returned, strict=True)
            returns = "{" + ", ".join(f'"{name}": {value}' for name, value in pairs) + "}"
        first = self.types[call.inputs[0]] if call.inputs else None
        channels = first.channels if first is not None and first.rank else None
        return Template([*modules.values()], lines, signature, returns, channels)

    def _step_code(
        self, call: Call, step: Step, texts: Sequence[str], modules: Mapping[Path, Module]
    ) -> tuple[Path | None, Module | None, TextTemplate]:
        """Return a step's expression, with the path and the definition of the submodule it calls.

        Both are None if the step calls no submodule; the definition is None if another step defines the submodule.
        """
        calling = TextTemplate(f"{MODULE}({', '.join(texts)})")
        if isinstance(step.item, Call):
            path = _relative_path(call, step.item.scope, step.item.name)
            constructed = call_template(step.item.class_name, step.item.arguments)
            return path, Module(path, step.item.class_name, True, constructed), calling
        op = self.graph[step.item].op
        types = [self.types[operand] for operand in self.graph.operands(step.item)]
        if step.chunks:
            assert isinstance(op, Slice)
            return None, None, split_expression(step.chunks, texts[0], op, types[0])
        constructor = self.helpers.module(op, types)
        if constructor is None:
            return None, None, self.helpers.expression(op, texts, types)
        if not has_weights(self.graph, self.types, step.item):
            path = _module_path(op.name, constructor, modules)
        else:
            path = _relative_path(call, self.graph[step.item].scope, op.name)
        if path in modules and modules[path].mold != constructor:  # weights shared with another operation
            return path, None, self.helpers.shared_expression(op, texts, types, MODULE)
        if isinstance(op, Parameter):
            calling = TextTemplate(f'{MODULE}["value"].expand({texts[0]}{", -1" * len(op.shape)})')
        return path, Module(path, op.name, False, constructor), calling

    def _write_class(self, group: Sequence[tuple[Call, Template]]) -> None:
        """Emit the class for a group of calls, and set its name and arguments in these calls."""
        template = group[0][1]
        parameters = Parameters([t.channels for _, t in group])
        modules: list[tuple[Path, str]] = []
        for position, module in enumerate(template.modules):
            column = [t.modules[position] for _, t in group]
            if len({other.name for other in column}) > 1:
                constructors = [Argument(module.path.parts[0], Code(_constructor_text(other.mold))) for other in column]
                modules.append((module.path, parameters.expression(constructors)))
            else:
                modules.append((module.path, _fill([m.mold for m in column], parameters)))
        attributes: dict[str, str] = {}
        taken = {path.parts[0] for path, _ in modules}
        lines: list[Line] = []
        for position, (line, _) in enumerate(template.lines):
            molds = [t.lines[position][1] for _, t in group]
            constants = [
                _attribute_expression(parameters.expression(column), column[0].name, attributes, taken)
                for column in _columns(molds)
            ]
            text = molds[0].fill(constants)
            lines.append(Line(line.targets, line.operands, line.path, text, line.only_next))
        name = self._new_name(group[0][0].name)
        for position, (call, _) in enumerate(group):
            call.class_name, call.arguments = name, parameters.arguments_of(position)
        source = [f"class {name}(nn.Module):"]
        if modules or attributes:
            source += [f"    def __init__({', '.join(['self', *parameters.names])}):", "        super().__init__()"]
            source += [f"        self.{attribute} = {value}" for attribute, value in attributes.items()]
            source += [f"        {line}" for line in assignments(modules)]
            source.append("")
        source.append(f"    def forward({', '.join(['self', *template.signature])}):")
        source += [f"        {line}" for line in forward_lines(lines, template.returns, [path for path, _ in modules])]
        self.texts[name] = "\n".join(source)

    def _new_name(self, name: str) -> str:
        """Return an unused class name derived from the name of a block."""
        result = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
        result = result if result.isidentifier() else f"Net{result}"
        if result in RESERVED or keyword.iskeyword(result):
            result += "Block"
        number, base = 2, result
        while result in self.texts or result in self.helpers.texts:
            result, number = f"{base}{number}", number + 1
        return result


def _relative_path(call: Call, scope: str, name: str) -> Path:
    """Return the path of a scope relative to a call; the path `name` if the scope is the call's own."""
    return Path(scope_path(scope)[len(scope_path(call.scope)) :] or (name,))


def _module_path(name: str, constructor: TextTemplate, modules: Mapping[Path, Module]) -> Path:
    """Return the path for a submodule without weights: that of an equal submodule, or else an unused path."""
    number, path = 2, Path((name,))
    while path in modules and modules[path].mold != constructor:
        path, number = Path((f"{name}_{number}",)), number + 1
    return path


def _columns(molds: Sequence[TextTemplate]) -> list[tuple[Argument, ...]]:
    """Return, for each hole, the constants that fill it in all calls."""
    return [*zip(*(mold.holes for mold in molds), strict=True)]


def _fill(molds: Sequence[TextTemplate], parameters: Parameters) -> str:
    """Fill the holes of a constructor with expressions of the class's parameters."""
    return molds[0].fill([parameters.expression(column) for column in _columns(molds)])


def _constructor_text(mold: TextTemplate) -> str:
    """Return the constructor of a single call, with its constants filled in."""
    return mold.fill(
        ["" if hole.keyword and hole.value == hole.default else literal(hole.value) for hole in mold.holes]
    )


def _attribute_expression(expression: str, name: str, attributes: dict[str, str], taken: set[str]) -> str:
    """Return the expression by which a forward function reads a constant or a value known to the constructor.

    A constant is returned as it is; any other value is read from an attribute, and new attributes are added to
    `attributes`.
    """
    if not any(part.isidentifier() for part in expression.split()):
        return expression
    attribute = next((key for key, value in attributes.items() if value == expression), None)
    if attribute is None:
        attribute, number = name, 2
        while attribute in attributes or attribute in taken or hasattr(nn.Module, attribute):
            attribute, number = f"{name}_{number}", number + 1
        attributes[attribute] = expression
    return f"self.{attribute}"
