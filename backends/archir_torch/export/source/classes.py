"""One class for calls of a block that are alike: numbers in which they differ become its parameters."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from archir.ir.graph import Graph
from archir.ir.typing import Types
from archir.ops.shape import Parameter, Slice
from archir_torch.export.source.calls import Call, has_weights, parts_of
from archir_torch.export.source.helpers import Helpers, split
from archir_torch.export.source.holes import Code, Mold, called, literal
from archir_torch.export.source.parameters import Parameters
from archir_torch.export.source.statements import MODULE, Line, Path, assignments, forward
from archir_torch.export.source.variables import RESERVED, Step, Variables, steps
from archir_torch.lowering.layers import Argument

SWAPPED = 2
"""Modules inside of a block that may be of different classes in calls that are one class: they are passed in."""


@dataclass
class Module:
    """A module of a class: where it is, and its constructor."""

    path: Path
    name: str
    is_block: bool
    mold: Mold


@dataclass
class Template:
    """The text of a class with holes, and the constants of one call."""

    modules: list[Module]
    lines: list[tuple[Line, Mold]]
    signature: list[str]
    returns: str
    channels: int | None

    @property
    def shape(self) -> tuple[object, ...]:
        """Equal for calls that can be one class, if the blocks in them can."""
        modules = tuple((m.path, "" if m.is_block else m.mold.text) for m in self.modules)
        return modules, tuple((line, mold.text) for line, mold in self.lines), tuple(self.signature), self.returns

    @property
    def blocks(self) -> tuple[str, ...]:
        """The classes of the blocks in it."""
        return tuple(m.name for m in self.modules if m.is_block)


class Classes:
    """The classes of a network, written so that what is used comes first."""

    def __init__(self, graph: Graph, types: Types, helpers: Helpers) -> None:
        self.graph, self.types, self.helpers = graph, types, helpers
        self.texts: dict[str, str] = {}

    def write(self, root: Call) -> None:
        """Write the classes of a call and of all below it."""
        pending = root.everything()
        while pending:
            ready = [call for call in pending if all(inner.class_name for inner in call.calls())]
            waiting = {call.name for call in pending if call not in ready}
            batch = [call for call in ready if call.name not in waiting] or ready
            for group in self._alike(batch):
                self._write_class(group)
            pending = [call for call in pending if not call.class_name]

    def _alike(self, calls: Sequence[Call]) -> list[list[tuple[Call, Template]]]:
        """Calls that become one class each."""
        found: dict[tuple[object, ...], list[tuple[Call, Template]]] = {}
        for call in calls:
            template = self._template(call)
            found.setdefault((call.name, template.shape), []).append((call, template))
        groups: list[list[tuple[Call, Template]]] = []
        for alike in found.values():
            columns = zip(*(template.blocks for _, template in alike), strict=True)
            if sum(len(set(column)) > 1 for column in columns) <= SWAPPED:
                groups.append(alike)
                continue
            same: dict[tuple[str, ...], list[tuple[Call, Template]]] = {}
            for call, template in alike:
                same.setdefault(template.blocks, []).append((call, template))
            groups += same.values()
        return groups

    def _template(self, call: Call) -> Template:
        todo = steps(self.graph, self.types, call)
        variables = Variables(self.graph, call, todo)
        modules: dict[Path, Module] = {}
        lines: list[tuple[Line, Mold]] = []
        signature = [variables.of(number) for number in call.inputs]
        for step in todo:
            texts = tuple(variables.of(number) for number in step.reads)
            path, module, mold = self._step(call, step, texts or (variables.batch(),), modules)
            if module is not None:
                assert path is not None
                modules.setdefault(path, module)
            targets = tuple(variables.give(step.writes))
            lines.append((Line(targets, texts, path, only_next=variables.only_next(step)), mold))
        returned = [variables.of(number) for number in call.outputs]
        returns = ", ".join(returned)
        if call.scope == "" and len(returned) > 1:
            pairs = zip(self.graph.outputs, returned, strict=True)
            returns = "{" + ", ".join(f'"{name}": {value}' for name, value in pairs) + "}"
        first = self.types[call.inputs[0]] if call.inputs else None
        channels = first.channels if first is not None and first.rank else None
        return Template([*modules.values()], lines, signature, returns, channels)

    def _step(
        self, call: Call, step: Step, texts: Sequence[str], modules: Mapping[Path, Module]
    ) -> tuple[Path | None, Module | None, Mold]:
        """A step's path and module, if it has one, and its expression."""
        calling = Mold(f"{MODULE}({', '.join(texts)})")
        if isinstance(step.item, Call):
            path = _path(call, step.item.scope, step.item.name)
            made = called(step.item.class_name, step.item.arguments)
            return path, Module(path, step.item.class_name, True, made), calling
        op = self.graph[step.item].op
        types = [self.types[operand] for operand in self.graph.operands(step.item)]
        if step.chunks:
            assert isinstance(op, Slice)
            return None, None, split(step.chunks, texts[0], op, types[0])
        constructor = self.helpers.module(op, types)
        if constructor is None:
            return None, None, self.helpers.expression(op, texts, types)
        if not has_weights(self.graph, self.types, step.item):
            path = _free(op.name, constructor, modules)
        else:
            path = _path(call, self.graph[step.item].scope, op.name)
        if path in modules and modules[path].mold != constructor:  # weights that another operation has, too
            return path, None, self.helpers.borrowed(op, texts, types, MODULE)
        if isinstance(op, Parameter):
            calling = Mold(f'{MODULE}["value"].expand({texts[0]}{", -1" * len(op.shape)})')
        return path, Module(path, op.name, False, constructor), calling

    def _write_class(self, group: Sequence[tuple[Call, Template]]) -> None:
        template = group[0][1]
        parameters = Parameters([t.channels for _, t in group])
        modules: list[tuple[Path, str]] = []
        for position, module in enumerate(template.modules):
            column = [t.modules[position] for _, t in group]
            if len({other.name for other in column}) > 1:
                swapped = [Argument(module.path.parts[0], Code(_written(other.mold))) for other in column]
                modules.append((module.path, parameters.expression(swapped)))
            else:
                modules.append((module.path, _filled([m.mold for m in column], parameters)))
        own: dict[str, str] = {}
        taken = {path.parts[0] for path, _ in modules}
        lines: list[Line] = []
        for position, (line, _) in enumerate(template.lines):
            molds = [t.lines[position][1] for _, t in group]
            constants = [_held(parameters.expression(column), column[0].name, own, taken) for column in _columns(molds)]
            text = molds[0].fill(constants)
            lines.append(Line(line.targets, line.operands, line.path, text, line.only_next))
        name = self._new_name(group[0][0].name)
        for position, (call, _) in enumerate(group):
            call.class_name, call.arguments = name, parameters.of(position)
        written = [f"class {name}(nn.Module):"]
        if modules or own:
            written += [f"    def __init__({', '.join(['self', *parameters.names])}):", "        super().__init__()"]
            written += [f"        self.{held} = {value}" for held, value in own.items()]
            written += [f"        {line}" for line in assignments(modules)]
            written.append("")
        written.append(f"    def forward({', '.join(['self', *template.signature])}):")
        written += [f"        {line}" for line in forward(lines, template.returns, [path for path, _ in modules])]
        self.texts[name] = "\n".join(written)

    def _new_name(self, name: str) -> str:
        made = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
        made = made if made.isidentifier() else f"Net{made}"
        if made in RESERVED or keyword.iskeyword(made):
            made += "Block"
        number, base = 2, made
        while made in self.texts or made in self.helpers.texts:
            made, number = f"{base}{number}", number + 1
        return made


def _path(call: Call, scope: str, name: str) -> Path:
    return Path(tuple(parts_of(scope)[len(parts_of(call.scope)) :]) or (name,))


def _free(name: str, constructor: Mold, modules: Mapping[Path, Module]) -> Path:
    """Where a module without weights is: where an equal one is, or else at a new place."""
    number, made = 2, Path((name,))
    while made in modules and modules[made].mold != constructor:
        made, number = Path((f"{name}_{number}",)), number + 1
    return made


def _columns(molds: Sequence[Mold]) -> list[tuple[Argument, ...]]:
    return [*zip(*(mold.holes for mold in molds), strict=True)]


def _filled(molds: Sequence[Mold], parameters: Parameters) -> str:
    return molds[0].fill([parameters.expression(column) for column in _columns(molds)])


def _written(mold: Mold) -> str:
    """The text of one call's constructor."""
    return mold.fill(
        ["" if hole.keyword and hole.value == hole.default else literal(hole.value) for hole in mold.holes]
    )


def _held(expression: str, name: str, own: dict[str, str], taken: set[str]) -> str:
    """How a forward function reads what a constructor knows: constants as they are, others by an attribute."""
    if not any(part.isidentifier() for part in expression.split()):
        return expression
    known = next((held for held, value in own.items() if value == expression), None)
    if known is None:
        known, number = name, 2
        while known in own or known in taken or hasattr(nn.Module, known):
            known, number = f"{name}_{number}", number + 1
        own[known] = expression
    return f"self.{known}"
