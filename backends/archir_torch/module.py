"""A graph as an `nn.Module`.

The module holds a list of steps, one per node; each reads and writes numbered values and frees what is not read again,
so that it uses memory like a forward function written by hand. Weights live in modules named by scopes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from archir.errors import ArchError, Diagnostic
from archir.ir.graph import Graph, NodeId, state_name
from archir.ir.op import OPS, Op, Weight
from archir.ir.structure import Input, Select
from archir.ir.typing import Types, infer
from archir.passes.prune import prune
from archir_torch import lowerings  # noqa: F401  (registers the rules)
from archir_torch.initial import initial
from archir_torch.rules import RULES

_OVERWRITABLE = {"add", "batch_norm", "conv", "linear", "sub"}
"""Operations whose gradient does not need their own result: what reads it alone may overwrite it."""


class Layer(nn.Module):
    """The weights of one node and the function that uses them."""

    def __init__(self, function: Callable[..., Tensor], attributes: dict[str, Any], wants_mode: bool) -> None:
        super().__init__()
        self.function, self.attributes, self.wants_mode = function, attributes, wants_mode
        self.names: tuple[str, ...] = ()

    def hold(self, name: str, weight: Weight, generator: torch.Generator | None) -> None:
        """Take a weight in, newly initialised."""
        tensor = initial(weight, generator)
        if weight.buffer:
            self._buffers[name] = tensor
        else:
            self._parameters[name] = nn.Parameter(tensor)
        self.names = (*self.names, name)

    def forward(self, *operands: Tensor, **run: Any) -> Tensor:
        """The function of the operands and the weights."""
        weights = {**self._parameters, **self._buffers}
        if self.wants_mode:
            run["training"] = self.training
        return self.function(*operands, **weights, **self.attributes, **run)

    def extra_repr(self) -> str:
        """Name, weights and attributes, for printing."""
        weights = [f"{n}={list(w.shape)}" for n, w in (*self._parameters.items(), *self._buffers.items()) if w is not None]
        return ", ".join([self.function.__name__, *weights, *(f"{n}={v}" for n, v in self.attributes.items())])


class Scopes(nn.Module):
    """A place in the hierarchy of scopes."""


class Step:
    """What the module does for one node."""

    __slots__ = ("call", "frees", "reads", "run", "writes")

    def __init__(self, call: Callable[..., Tensor], reads: tuple[int, ...], writes: int, run: tuple[str, ...]) -> None:
        self.call, self.reads, self.writes, self.run = call, reads, writes, run
        self.frees: tuple[int, ...] = ()


class Network(nn.Module):
    """A network: inputs in the order of the net; one tensor, or a dict of tensors if the net has several outputs."""

    def __init__(self, graph: Graph, generator: torch.Generator | None = None) -> None:
        super().__init__()
        graph = prune(graph)
        types = infer(graph)
        inputs = graph.inputs
        self.input_names, self.output_names = tuple(inputs), tuple(graph.outputs)
        slots = {number: slot for slot, number in enumerate([*inputs.values(), *(n for n in graph if n not in inputs.values())])}
        self._outputs = tuple(slots[number] for number in graph.outputs.values())
        self._slots = len(slots)
        self._layers: dict[str, Layer] = {}
        self._steps = [
            _step(self._callable(graph, number, types, generator), graph, number, slots)
            for number in graph
            if not isinstance(graph[number].op, Input)
        ]
        _free_early(self._steps, self._outputs)

    def _callable(self, graph: Graph, number: NodeId, types: Types, generator: torch.Generator | None) -> Callable[..., Tensor]:
        node = graph[number]
        rule = RULES[type(node.op)]
        weights = node.op.weights(*(types[operand] for operand in graph.operands(number)))
        attributes = rule.attributes(node.op)
        if rule.takes("inplace"):
            attributes["inplace"] = _may_overwrite(graph, number)
        if not weights and not rule.takes("training"):
            return partial(rule.function, **attributes) if attributes else rule.function
        if node.scope in self._layers:
            return self._layers[node.scope]
        layer = Layer(rule.function, attributes, rule.takes("training"))
        for name, weight in weights.items():
            layer.hold(name, weight, generator)
        self._layers[node.scope] = layer
        _place(self, node.scope, layer)
        return layer

    def forward(self, *inputs: Tensor) -> Any:
        """Run the network on a batch."""
        if len(inputs) != len(self.input_names):
            raise TypeError(f"the network takes {len(self.input_names)} inputs ({', '.join(self.input_names)}), got {len(inputs)}")
        values: list[Any] = [*inputs, *[None] * (self._slots - len(inputs))]
        for step in self._steps:
            operands = [values[i] for i in step.reads]
            if step.run:
                values[step.writes] = step.call(*operands, batch=inputs[0].shape[0])
            else:
                values[step.writes] = step.call(*operands)
            for i in step.frees:
                values[i] = None
        if len(self._outputs) == 1:
            return values[self._outputs[0]]
        return {name: values[i] for name, i in zip(self.output_names, self._outputs, strict=True)}


def _step(call: Callable[..., Tensor], graph: Graph, number: NodeId, slots: dict[NodeId, int]) -> Step:
    run = ("batch",) if RULES[type(graph[number].op)].takes("batch") else ()
    return Step(call, tuple(slots[operand] for operand in graph.operands(number)), slots[number], run)


def _free_early(steps: list[Step], outputs: tuple[int, ...]) -> None:
    last = {slot: step for step in steps for slot in step.reads}
    for slot, step in last.items():
        if slot not in outputs:
            step.frees = (*step.frees, slot)


def _may_overwrite(graph: Graph, number: NodeId) -> bool:
    (operand,) = graph.operands(number)
    if operand in graph.outputs.values() or len(graph.consumers(operand)) != 1:
        return False
    return graph[operand].op.name in _OVERWRITABLE


def _place(root: nn.Module, scope: str, layer: Layer) -> None:
    """Put a layer where its scope says. Written into `_modules`: a scope may be named like an attribute of modules."""
    *path, last = re.findall(r"[^.\[\]]+", scope)
    home = root
    for component in path:
        below = home._modules.get(component)
        if below is None:
            below = home._modules[component] = Scopes()
        home = below
    taken = home._modules.get(last)
    if taken is not None:
        layer._modules.update(taken._modules)
    home._modules[last] = layer


def supports(graph: Graph) -> list[Diagnostic]:
    """What of a graph cannot be lowered: choices that are not made, and operations without a rule."""
    problems = []
    for number in graph:
        node = graph[number]
        open_ = node.op.choices | ({node.op.choice} if isinstance(node.op, Select) else set())
        if open_:
            names = ", ".join(f"`{path}`" for path in sorted(open_))
            problems.append(Diagnostic("A0901", f"{names} must be chosen before the network is lowered", node.span))
        elif not isinstance(node.op, Input) and type(node.op) not in RULES:
            problems.append(Diagnostic("A0904", f"the torch backend has no lowering of `{node.op.name}`", node.span))
    return problems


def lower(graph: Graph, *, generator: torch.Generator | None = None) -> Network:
    """The module of a graph without choices, its weights initialised from the generator (default: seed 0).

    Raises ArchError (A0901, A0904) with everything that cannot be lowered.
    """
    problems = supports(graph)
    if problems:
        raise ArchError(*problems)
    return Network(graph, generator if generator is not None else torch.Generator().manual_seed(0))


def weights_of(graph: Graph) -> dict[str, Weight]:
    """The weights of a graph without choices by their names in the state dict."""
    types = infer(graph)
    return {
        state_name(graph[number].scope, name): weight
        for number in types
        for name, weight in graph[number].op.weights(*(types[o] for o in graph.operands(number))).items()
    }


def missing_rules() -> list[type[Op]]:
    """Operations that can be written in `.arch` and have no lowering here."""
    return [op for op in OPS.values() if not op.internal and op not in RULES]
