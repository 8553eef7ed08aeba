"""A network as a Python file that imports torch alone: one class per distinct block, parameterised.

The scopes of the graph say which nodes belong to which call of which block. Calls of the same shape become one class;
numbers in which they differ become its parameters. What is not a standard layer is the source of its lowering.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from torch import nn

from archir.errors import ArchError, fail
from archir.ir.graph import Graph, Node, NodeId
from archir.ir.structure import Input
from archir.ir.typing import Types, infer
from archir.passes.expand import expand
from archir_torch.inline import expression, sources
from archir_torch.layers import Argument, standard_layer
from archir_torch.module import supports
from archir_torch.rules import RULES

_IMPORTS: dict[str, set[str]] = {
    "from collections.abc import Callable": {"Callable"},
    "from typing import Any": {"Any"},
    "": set(),
    "import torch": {"torch"},
    "import torch.nn.functional as F": {"F"},
}
"""Imports and the names that need them."""

_RESERVED = {"F", "Tensor", "torch", "nn", "Any", "annotations"}
_HOLE = "\N{SYMBOL FOR NULL}"


@dataclass(frozen=True)
class Path:
    """A name below a block, such as `layer[0][1]`: its components."""

    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        """How the class that holds it reads it."""
        first, *rest = self.parts
        safe = first.isidentifier() and not keyword.iskeyword(first) and not hasattr(nn.Module(), first)
        head = f"self.{first}" if safe else f'self._modules["{first}"]'
        return head + "".join(f"[{part}]" if part.isdigit() else f'["{part}"]' for part in rest)


@dataclass
class Line:
    """A statement `target = callee(operands)`; `path` if the callee is a module of the class."""

    target: str
    operands: list[str]
    text: str
    path: Path | None = None


@dataclass
class Call:
    """One call of a block: its lines, its modules, and the constants that fill the holes in its text."""

    scope: str
    name: str
    inputs: list[NodeId] = field(default_factory=list)
    outputs: list[NodeId] = field(default_factory=list)
    items: list[Call | NodeId] = field(default_factory=list)
    class_name: str = ""
    arguments: list[Argument] = field(default_factory=list)

    def nodes(self) -> list[NodeId]:
        """All nodes inside."""
        return [n for item in self.items for n in (item.nodes() if isinstance(item, Call) else [item])]

    @property
    def height(self) -> int:
        """Levels of calls below."""
        return max((item.height + 1 for item in self.items if isinstance(item, Call)), default=0)


@dataclass
class Template:
    """The text of a class, with holes, and the constants of one call in the order of the holes."""

    modules: list[tuple[Path, str]]
    lines: list[Line]
    signature: list[str]
    returns: str
    holes: list[Argument]

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for calls that can be one class."""
        return (
            tuple((path.parts, text) for path, text in self.modules),
            tuple((line.target, line.text) for line in self.lines),
            tuple(self.signature),
            self.returns,
        )


class Emitter:
    """Writes the classes of a graph without choices."""

    def __init__(self, graph: Graph) -> None:
        self.graph = expand(graph)
        self.types: Types = infer(self.graph)
        self.helpers: dict[str, str] = {}
        self.classes: dict[str, str] = {}
        self.names: dict[tuple[str, object], str] = {}

    def emit(self) -> str:
        """The file."""
        root = self._tree()
        calls = sorted(_calls(root), key=lambda call: call.height)
        for _, level in groupby(calls, key=lambda call: call.height):
            self._write_level(list(level))
        about = f'"""The net `{self.graph.name}`, written by archir. It needs torch alone."""'
        body = "\n\n\n".join([*self.helpers.values(), *self.classes.values()])
        words = set(re.findall(r"\w+", body))
        imports = "\n".join(line for line, names in _IMPORTS.items() if not names or names & words)
        imports += "\nfrom torch import Tensor, nn" if "Tensor" in words else "\nfrom torch import nn"
        gap = "\n\n\n" if body.startswith(("def ", "class ")) else "\n\n"
        return f"{about}\n\nfrom __future__ import annotations\n\n{imports.strip()}{gap}{body}\n"

    # which nodes belong to which call

    def _tree(self) -> Call:
        root = Call("", self.graph.name)
        known = {"": root}
        for number in self.graph:
            if not isinstance(self.graph[number].op, Input):
                self._home(self.graph[number].scope, known).items.append(number)
        for call in _calls(root):
            inside = set(call.nodes())
            read = [operand for number in call.nodes() for operand in self.graph.operands(number)]
            call.inputs = list(dict.fromkeys(n for n in read if n not in inside))
            used = {n for n in inside for c in self.graph.consumers(n) if c not in inside} | set(
                self.graph.outputs.values()
            )
            call.outputs = [n for n in call.nodes() if n in used]
        root.inputs = list(self.graph.inputs.values())
        root.outputs = list(self.graph.outputs.values())
        return root

    def _home(self, scope: str, known: dict[str, Call]) -> Call:
        """The innermost call that a node of this scope belongs to, made if it is new."""
        parts = _parts(scope)
        home = known[""]
        for end in range(1, len(parts) + 1):
            prefix = _scope(parts[:end])
            if prefix in self.graph.blocks:
                if prefix not in known:
                    known[prefix] = Call(prefix, self.graph.blocks[prefix])
                    home.items.append(known[prefix])
                home = known[prefix]
        return home

    # classes

    def _write_level(self, calls: list[Call]) -> None:
        templates = [(call, self._template(call)) for call in calls]
        groups: dict[tuple[object, ...], list[tuple[Call, Template]]] = {}
        for call, template in templates:
            groups.setdefault((call.name, template.key), []).append((call, template))
        for (name, *_), group in groups.items():
            class_name = self._new_name(str(name))
            self._write_class(class_name, group)

    def _new_name(self, name: str) -> str:
        made = _camel(name)
        if made in _RESERVED or keyword.iskeyword(made):
            made += "Block"
        number, base = 2, made
        while made in self.classes or made in self.helpers:
            made, number = f"{base}{number}", number + 1
        return made

    def _template(self, call: Call) -> Template:
        names = _Names(self, call)
        modules: list[tuple[Path, str]] = []
        lines: list[Line] = []
        holes: list[Argument] = []
        shared: set[tuple[str, ...]] = set()
        signature = [names.of(number) for number in call.inputs]
        for item in call.items:
            operands = item.inputs if isinstance(item, Call) else list(self.graph.operands(item))
            texts = [names.of(operand) for operand in operands]
            if isinstance(item, Call):
                path = self._path(call, item.scope)
                made = _with_holes(item.class_name, item.arguments, holes)
                targets = names.give(item.outputs, operands)
                lines.append(Line(", ".join(targets), texts, f"{path.text}({', '.join(texts)})", path))
            else:
                node = self.graph[item]
                path = self._path(call, node.scope)
                text, made = self._node(item, node, path, texts, names, holes)
                (target,) = names.give([item], operands)
                lines.append(Line(target, texts, text, path if made else None))
            if made and path.parts not in shared:
                modules.append((path, made))
                shared.add(path.parts)
        returned = [names.of(number) for number in call.outputs]
        if call.scope == "" and len(returned) > 1:
            pairs = zip(self.graph.outputs, returned, strict=True)
            returns = "{" + ", ".join(f'"{name}": {value}' for name, value in pairs) + "}"
        else:
            returns = ", ".join(returned)
        return Template(modules, lines, signature, returns, holes)

    def _path(self, call: Call, scope: str) -> Path:
        parts = _parts(scope)[len(_parts(call.scope)) :]
        return Path(tuple(parts) or ("op",)) if parts else Path((self.graph[call.nodes()[0]].op.name,))

    def _node(
        self, number: NodeId, node: Node, path: Path, texts: list[str], names: _Names, holes: list[Argument]
    ) -> tuple[str, str]:
        """The text of a node's line, and of its module if it has one."""
        rule = RULES[type(node.op)]
        types = [self.types[operand] for operand in self.graph.operands(number)]
        weights = node.op.weights(*types)
        called = f"{path.text}({', '.join(texts)})"
        layer = standard_layer(node.op, types)
        if layer is not None:
            return called, _with_holes(layer.name, layer.arguments, holes)
        attributes = rule.attributes(node.op)
        if not weights and not rule.takes("training"):
            ranks = [x.rank + 1 for x in types]
            inlined = expression(
                rule.function, texts, ranks, {**attributes, **({"inplace": False} if rule.takes("inplace") else {})}
            )
            if inlined is not None:
                return inlined, ""
            self.helpers.update(sources(rule.function))
            given = [f"{name}={value!r}" for name, value in attributes.items()]
            return f"{rule.function.__name__}({', '.join([*texts, *given])})", ""
        name = self._module_class(node, [*weights], [name for name, w in weights.items() if w.buffer])
        if rule.takes("batch"):
            called = f"{path.text}({names.batch()})"
        shapes = [Argument(f"{weight}_shape", w.shape) for weight, w in weights.items()]
        return called, _with_holes(name, [*shapes, *(Argument(*pair) for pair in attributes.items())], holes)

    def _module_class(self, node: Node, weights: list[str], buffers: list[str]) -> str:
        """A module around a lowering that has weights, or depends on the mode, and is no standard layer."""
        rule = RULES[type(node.op)]
        key = (node.op.name, tuple(weights))
        if key in self.names:
            return self.names[key]
        self.helpers.update(sources(rule.function))
        attributes = list(rule.attributes(node.op))
        class_name = self.names[key] = self._new_name(node.op.name)
        operands = [] if rule.takes("batch") else [name.lstrip("*") for name in node.op.operands]
        shapes = [f"{weight}_shape" for weight in weights]
        head = ", ".join(["self", *shapes, *attributes])
        lines = [f"class {class_name}(nn.Module):", f"    def __init__({head}):", "        super().__init__()"]
        for weight in weights:
            if weight in buffers:
                lines.append(f'        self.register_buffer("{weight}", torch.zeros({weight}_shape))')
            else:
                lines.append(f"        self.{weight} = nn.Parameter(torch.zeros({weight}_shape))")
        lines += [f"        self.{name} = {name}" for name in attributes]
        arguments = [
            *operands,
            *(f"{weight}=self.{weight}" for weight in weights),
            *(f"{name}=self.{name}" for name in attributes),
        ]
        arguments += ["training=self.training"] if rule.takes("training") else []
        arguments += ["batch=batch"] if rule.takes("batch") else []
        inputs = ", ".join(["self", *operands, *(["batch"] if rule.takes("batch") else [])])
        lines += ["", f"    def forward({inputs}):", f"        return {rule.function.__name__}({', '.join(arguments)})"]
        self.helpers[class_name] = "\n".join(lines)
        return class_name

    def _write_class(self, class_name: str, group: Sequence[tuple[Call, Template]]) -> None:
        template = group[0][1]
        columns = list(zip(*(t.holes for _, t in group), strict=True)) if template.holes else []
        parameters: dict[str, tuple[Any, ...]] = {}
        filled: list[str] = []
        for column in columns:
            first, values = column[0], tuple(argument.value for argument in column)
            if all(value == values[0] for value in values):
                constant = "" if first.keyword and values[0] == first.default else repr(values[0])
            else:
                known = (name for name, other in parameters.items() if other == values)
                constant = next(known, None) or _fresh(first.name, parameters)
                parameters[constant] = values
            filled.append(f", {first.name}={constant}" if first.keyword and constant else constant)
        for position, (call, _) in enumerate(group):
            call.class_name = class_name
            call.arguments = [Argument(name, values[position]) for name, values in parameters.items()]
        fills = iter(filled)
        modules = [(path, re.sub(_HOLE, lambda _: next(fills), text)) for path, text in template.modules]
        lines = [f"class {class_name}(nn.Module):"]
        if modules:
            lines += [f"    def __init__({', '.join(['self', *parameters])}):", "        super().__init__()"]
            lines += [f"        {line}" for line in _assignments(modules)]
            lines.append("")
        lines.append(f"    def forward({', '.join(['self', *template.signature])}):")
        lines += [f"        {line}" for line in _statements(template, modules)]
        self.classes[class_name] = "\n".join(lines)


class _Names:
    """Variables of a forward function: the name of what is read for the last time is used again."""

    def __init__(self, emitter: Emitter, call: Call) -> None:
        self.call = call
        self.last: dict[NodeId, int] = {}
        for position, item in enumerate(call.items):
            for operand in item.inputs if isinstance(item, Call) else emitter.graph.operands(item):
                self.last[operand] = position
        for number in call.outputs:
            self.last[number] = len(call.items)
        self.names: dict[NodeId, str] = {}
        self.position = 0
        for number in call.inputs:
            op = emitter.graph[number].op
            wanted = op.label if isinstance(op, Input) and call.scope == "" else "x"
            self.names[number] = self._free(wanted if wanted.isidentifier() and not keyword.iskeyword(wanted) else "x")

    def _free(self, wanted: str) -> str:
        busy = set(self.names.values()) | _RESERVED | {"self"}
        for name in (wanted, "x", "y", "z", *(f"x{i}" for i in range(1, 10_000))):
            if name not in busy:
                return name
        raise AssertionError("too many variables")

    def of(self, number: NodeId) -> str:
        """The variable that holds a node's value."""
        return self.names[number]

    def batch(self) -> str:
        """The batch size, as an expression."""
        return f"{next(iter(self.names.values()))}.shape[0]"

    def give(self, made: list[NodeId], operands: list[NodeId]) -> list[str]:
        """Variables for new values, after the line that reads `operands`."""
        over = [number for number in self.names if self.last.get(number, -1) <= self.position]
        free = {self.names.pop(number) for number in over} & {"x", "y", "z"}
        for number in made:
            self.names[number] = free.pop() if len(free) == 1 else self._free("x")
        self.position += 1
        return [self.names[number] for number in made]


def _calls(call: Call) -> list[Call]:
    return [call, *(inner for item in call.items if isinstance(item, Call) for inner in _calls(item))]


def _parts(scope: str) -> list[str]:
    return re.findall(r"[^.\[\]]+", scope)


def _scope(parts: list[str]) -> str:
    return re.sub(r"\.(\d+)", r"[\1]", ".".join(parts))


def _camel(name: str) -> str:
    made = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    return made if made.isidentifier() else f"Net{made}"


def _fresh(name: str, taken: dict[str, Any]) -> str:
    number, made = 2, name
    while made in taken:
        made, number = f"{name}_{number}", number + 1
    return made


def _with_holes(name: str, arguments: Sequence[Argument], holes: list[Argument]) -> str:
    """`name(...)`, its constants in holes; what is given by keyword brings its comma along when it is filled in."""
    holes += arguments
    positional = ", ".join(_HOLE for argument in arguments if not argument.keyword)
    return f"{name}({positional}{_HOLE * sum(argument.keyword for argument in arguments)})"


def _assignments(modules: list[tuple[Path, str]]) -> list[str]:
    """The lines of a constructor: plain attributes, and lists and dicts of modules."""
    trees: dict[str, Any] = {}
    for path, text in modules:
        home, (*parts, last) = trees, path.parts
        for part in parts:
            home = home.setdefault(part, {})
        home[last] = text
    lines: list[str] = []
    for name, tree in trees.items():
        target = Path((name,)).text
        lines += _constructed(f"{target} = ", tree, "")
    return lines


def _constructed(prefix: str, tree: Any, suffix: str) -> list[str]:
    if isinstance(tree, str):
        return [f"{prefix}{tree}{suffix}"]
    dense = [*tree] == [str(i) for i in range(len(tree))]
    lines = [f"{prefix}nn.ModuleList([" if dense else f"{prefix}nn.ModuleDict({{"]
    entries = [_constructed("" if dense else f'"{key}": ', value, ",") for key, value in tree.items()]
    for entry, run in groupby(entries):
        count = len(list(run))
        if dense and count > 2 and len(entry) == 1:
            lines.append(f"    *({entry[0][:-1]} for _ in range({count})),")
        else:
            lines += [f"    {line}" for _ in range(count) for line in entry]
    return [*lines, f"]){suffix}" if dense else f"}}){suffix}"]


def _statements(template: Template, modules: list[tuple[Path, str]]) -> list[str]:
    """The lines of a forward function; calls of all modules of a list in a row become a loop."""
    sizes: dict[tuple[str, ...], int] = {}
    for path, _ in modules:
        sizes[path.parts[:-1]] = sizes.get(path.parts[:-1], 0) + 1
    lines: list[str] = []
    position = 0
    while position < len(template.lines):
        line = template.lines[position]
        count = _run(template.lines, position, sizes)
        if count > 1:
            assert line.path is not None
            home = Path(line.path.parts[:-1])
            lines += [f"for layer in {home.text}:", f"    {line.target} = layer({line.target})"]
        else:
            lines.append(f"{line.target} = {line.text}" if line.target else line.text)
        position += max(count, 1)
    last = lines[-1] if lines else ""
    if last.startswith(f"{template.returns} = "):
        lines[-1] = f"return {last[len(template.returns) + 3 :]}"
    else:
        lines.append(f"return {template.returns}")
    return lines


def _run(lines: list[Line], start: int, sizes: dict[tuple[str, ...], int]) -> int:
    """How many lines from `start` on call all modules of one list in turn, each on the result of the one before."""
    path = lines[start].path
    if path is None or len(path.parts) < 2 or path.parts[-1] != "0":
        return 0
    home = path.parts[:-1]
    count = 0
    for line in lines[start:]:
        same = line.path is not None and line.path.parts == (*home, str(count))
        if not same or [line.target] != line.operands:
            break
        count += 1
    return count if count == sizes[home] else 0


def emit(graph: Graph) -> str:
    """The Python source of a graph without choices. Raises ArchError for what cannot be lowered."""
    problems = supports(graph)
    if problems:
        raise ArchError(*problems)
    if any("training" in _parts(graph[number].scope) for number in graph):
        raise fail("A0904", "nothing in a torch file can be named `training`: modules have an attribute of that name")
    return Emitter(graph).emit()
