"""A graph as an `nn.Module`.

The module holds a list of steps, one per node; each reads and writes numbered values and frees what is not read again,
so that it uses memory like a forward function written by hand. Weights live in modules named by scopes.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from archir.backends import unlowered
from archir.diagnostics.errors import ArchError, Diagnostic
from archir.ir.graph import Graph, NodeId, Together, state_name
from archir.ir.op import OPS, Composite, Op, Weight
from archir.ir.structure import Input, Mix
from archir.ir.typing import Types, infer
from archir.passes.expand import expand
from archir_torch.lowering import operations as lowerings  # noqa: F401  (registers the rules)
from archir_torch.lowering.initial import initial
from archir_torch.lowering.inputs import check_inputs, expected
from archir_torch.lowering.kernels.compiled import compiled
from archir_torch.lowering.kernels.lazy import settled, whole
from archir_torch.lowering.kernels.library import laid_out
from archir_torch.lowering.rules import RULES

Path = tuple[str, ...]
"""Where a layer is: the components of its scope."""
Home = tuple[nn.Module, str]
"""The module that holds a layer, and its name there."""

_OVERWRITABLE = {"add", "batch_norm", "conv", "linear", "sub"}
"""Operations whose gradient does not need their own result: what reads it alone may overwrite it."""


class Named(nn.Module):
    """The weights of a scope, and their names."""

    names: tuple[str, ...] = ()


class Layer(Named):
    """The weights of one node and the function that uses them."""

    def __init__(self, function: Callable[..., Tensor], attributes: dict[str, Any], wants_mode: bool) -> None:
        super().__init__()
        self.function, self.attributes, self.wants_mode = function, attributes, wants_mode
        self.compiled = False
        """Whether kernels run instead of the function, where there are any."""

    def hold(self, name: str, weight: Weight, generator: torch.Generator | None) -> None:
        """Take a weight in, newly initialised."""
        tensor = initial(weight, generator)
        if weight.buffer:
            self.register_buffer(name, tensor)
        else:
            self.register_parameter(name, nn.Parameter(tensor))
        self.names = (*self.names, name)

    def forward(self, *operands: Tensor, **run: Any) -> Tensor:
        """The function of the operands and the weights."""
        found: Tensor = whole(self.lent(self.function, self.attributes, *operands, **run))
        return found

    def lent(
        self, function: Callable[..., Tensor], attributes: Mapping[str, Any], *operands: Tensor, **run: Any
    ) -> Tensor:
        """What another function makes of the operands and these weights."""
        weights = {**self._parameters, **self._buffers}
        if len(weights) != len(self.names):  # some are computed: parametrizations, weight norm, pruning
            weights = {name: getattr(self, name) for name in self.names}
        if self.wants_mode:
            run["training"] = self.training
        if self.compiled:
            function = compiled(function)
        return function(*operands, **weights, **attributes, **run)

    def extra_repr(self) -> str:
        """Name, weights and attributes, for printing."""
        weights = [f"{name}={list(getattr(self, name).shape)}" for name in self.names]
        return ", ".join([self.function.__name__, *weights, *(f"{n}={v}" for n, v in self.attributes.items())])


def called(layer: nn.Module, operands: Sequence[Any], **run: Any) -> Any:
    """What a layer, or what somebody put in its place, makes of operands. Where kernels run and nobody looks at what
    goes in and comes out, that need not be written yet."""
    if type(layer) is Layer and layer.compiled:
        hooks = layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks
        if not any(hooks):
            return layer.lent(layer.function, layer.attributes, *operands, **run)
    return layer(*map(whole, operands), **run)


class Borrower:
    """The function of a node that uses the weights of another's layer, which may be replaced where it is."""

    takes_unwritten = True
    """Layers see to it that kernels run."""

    def __init__(self, home: Home, function: Callable[..., Tensor], attributes: Mapping[str, Any]) -> None:
        self.home, self.function, self.attributes = home, function, attributes

    def __call__(self, *operands: Tensor, **run: Any) -> Tensor:
        """The function of the operands and the weights that are there now."""
        module, name = self.home
        layer: Any = module._modules[name]
        found: Tensor = layer.lent(self.function, self.attributes, *operands, **run)
        return found


class Scopes(nn.Module):
    """A place in the hierarchy of scopes."""


class Step:
    """What the network does for one node: a function, or the module `name` in `home`, which may be replaced there."""

    __slots__ = ("frees", "function", "home", "name", "reads", "settles", "wants_batch", "writes")

    def __init__(self, function: Callable[..., Tensor] | None, home: nn.Module | None = None, name: str = "") -> None:
        self.function: Any = function
        self.home: Any = home
        self.name = name
        self.reads: tuple[int, ...] = ()
        self.writes = 0
        self.frees: tuple[int, ...] = ()
        self.wants_batch = False
        self.settles = False
        """Whether several read the result: it is not left to each of them."""

    def run(self, values: Sequence[Any], batch: int) -> Any:
        """The node's result, of those of others."""
        operands = [values[i] for i in self.reads]
        more = {"batch": batch} if self.wants_batch else {}
        if self.function is None:
            return called(self.home._modules[self.name], operands, **more)
        return self.function(*operands, **more)


class Hierarchy(nn.Module):
    """Modules in modules, as scopes say. State dicts have the scopes' names, which modules cannot always have."""

    def __init__(self) -> None:
        super().__init__()
        self._renamed: dict[str, str] = {}

    def actual(self, name: str) -> str:
        """What a weight of a state dict is called among the module's own."""
        return next((one for one, wanted in self._renamed.items() if wanted == name), name)

    def _place(self, layers: Mapping[Path, Named]) -> dict[Path, Home]:
        """Put layers where their paths say; for each the module it is in and its name there.

        A module cannot hold another as `half` or `training`: it is kept as `half_`, and is `half` in state dicts.
        """
        homes: dict[Path, Home] = {}
        for path, layer in layers.items():
            home: nn.Module = self
            actual: list[str] = []
            for end, part in enumerate(path, 1):
                if end > 1:
                    home = home._modules[actual[-1]] or home
                actual.append(_available(home, part))
                if actual[-1] not in home._modules:
                    home.add_module(actual[-1], layers.get(path[:end]) or Scopes())
            homes[path] = home, actual[-1]
            if (*actual,) != path:
                self._renamed |= {".".join([*actual, name]): ".".join([*path, name]) for name in layer.names}
        if self._renamed:
            self.register_state_dict_post_hook(_to_scopes)  # type: ignore[no-untyped-call]
            self.register_load_state_dict_pre_hook(_from_scopes)  # type: ignore[no-untyped-call]
        return homes


class Network(Hierarchy):
    """A network: inputs in the order of the net; one tensor, or a dict of tensors if the net has several outputs."""

    def __init__(self, graph: Graph, generator: torch.Generator | None = None) -> None:
        super().__init__()
        graph = expand(graph)
        inputs = graph.inputs
        self.input_names, self.output_names = tuple(inputs), tuple(graph.outputs)
        slots = {number: slot for slot, number in enumerate(dict.fromkeys([*inputs.values(), *graph]))}
        self._outputs = tuple(slots[number] for number in graph.outputs.values())
        self._slots = len(slots)
        self._compiled = False
        self._steps: list[Step] = []
        types = infer(graph)
        self._expected = expected({name: types[number] for name, number in inputs.items()})
        self.open_sizes = False
        """Whether inputs of other sizes are taken; those of the net are what its operations were checked for."""
        paths, layers = _layers(graph, types, generator)
        homes = self._place(layers)
        for number in graph:
            if not isinstance(graph[number].op, Input):
                home = homes[paths[number]] if number in paths else None
                step = self._step(graph, number, home)
                step.reads, step.writes = tuple(slots[operand] for operand in graph.operands(number)), slots[number]
                self._steps.append(step)
        _free_early(self._steps, self._outputs)

    def _step(self, graph: Graph, number: NodeId, home: Home | None) -> Step:
        """What is done for a node; `home` says where its layer is, if it has one."""
        rule = RULES[type(graph[number].op)]
        if home is None:
            step = Step(_function(graph, number))
        elif _is_made_for(home, rule.function, attributes := rule.attributes(graph[number].op)):
            step = Step(None, *home)
        else:
            step = Step(Borrower(home, rule.function, attributes))
        step.wants_batch = RULES[type(graph[number].op)].takes("batch")
        return step

    def use_kernels(self) -> None:
        """From now on, train with kernels (see `compiled`), which gives the same figures but for rounding."""
        if self._compiled:
            return
        self._compiled = True
        for layer in self.modules():
            if isinstance(layer, Layer):
                layer.compiled = True
        readers = Counter([*self._outputs, *(slot for step in self._steps for slot in step.reads)])
        for step in self._steps:
            step.settles = readers[step.writes] > 1
            if step.function is not None and not hasattr(step.function, "takes_unwritten"):
                step.function = compiled(step.function)

    def _laid_out(self, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """Inputs as kernels want them, if they run."""
        if not (self._compiled and self.training and torch.is_grad_enabled()):
            return inputs
        return [laid_out(x) if x.dim() == 4 and x.device.type == "cpu" else x for x in inputs]

    def forward(self, *inputs: Tensor) -> Any:
        """Run the network on a batch. Raises TypeError and ValueError for inputs that the net does not take."""
        check_inputs(inputs, self._expected, self.open_sizes)
        values: list[Any] = [*self._laid_out(inputs), *[None] * (self._slots - len(inputs))]
        batch = inputs[0].shape[0] if inputs else 1
        for step in self._steps:
            found = step.run(values, batch)
            values[step.writes] = settled(found) if step.settles else found
            for i in step.frees:
                values[i] = None
        return self._given(values)

    def _given(self, values: list[Any]) -> Any:
        """What is handed out."""
        if len(self._outputs) == 1:
            return whole(values[self._outputs[0]])
        return {name: whole(values[i]) for name, i in zip(self.output_names, self._outputs, strict=True)}


def _is_made_for(home: Home, function: Callable[..., Tensor], attributes: Mapping[str, Any]) -> bool:
    module, name = home
    layer = module._modules[name]
    return not isinstance(layer, Layer) or (layer.function, layer.attributes) == (function, attributes)


def _layers(
    graph: Graph, types: Types, generator: torch.Generator | None
) -> tuple[dict[NodeId, Path], dict[Path, Layer]]:
    """The layers of nodes that have weights or depend on the module's mode, and their paths. Equal scopes share one.

    A node that stands for several has a layer for each of them; its path is that of the first.
    """
    layers: dict[Path, Layer] = {}
    found: dict[NodeId, Path] = {}
    for number in graph:
        node = graph[number]
        if isinstance(node.op, Input | Mix):
            continue
        rule = RULES[type(node.op)]
        weights = node.op.weights(*(types[operand] for operand in graph.operands(number)))
        if not weights and not rule.takes("training"):
            continue
        path = parts_of(node.scope)
        if not weights and (not path or path in layers):  # nothing is kept under its name: any free one will do
            path = (*path, f"{node.op.name}_{number}")
        together = graph.together.get(node.scope)
        for each in [parts_of(scope) for scope in together.scopes] if together else [path]:
            if each not in layers:
                layers[each] = Layer(rule.function, rule.attributes(node.op), rule.takes("training"))
                for name, weight in weights.items():
                    layers[each].hold(name, _part(weight, together), generator)
        found[number] = path
    return found, layers


def _part(weight: Weight, together: Together | None) -> Weight:
    """The weight of each of the nodes that one stands for."""
    if together is None or together.same:
        return weight
    return replace(weight, shape=(weight.shape[0] // len(together.scopes), *weight.shape[1:]))


def _function(graph: Graph, number: NodeId) -> Callable[..., Tensor]:
    """What a node without weights does."""
    op = graph[number].op
    rule = RULES[type(op)]
    attributes = rule.attributes(op)
    if rule.takes("inplace"):
        attributes["inplace"] = _may_overwrite(graph, number)
    return partial(rule.function, **attributes) if attributes else rule.function


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


def parts_of(scope: str) -> Path:
    """The components of a scope."""
    return tuple(re.findall(r"[^.\[\]]+", scope))


def _available(home: nn.Module, part: str) -> str:
    """A name for a part of a module: `half` -> `half_`, and so that no two meet, `half_` -> `half__`.

    Code that torch writes of a module reads its parts as attributes, which `nonlocal` cannot be.
    """
    attributes = (vars(home), home._parameters, home._buffers)
    bare = [part[:end] for end in range(len(part.rstrip("_")), len(part) + 1)]
    taken = any(
        keyword.iskeyword(name) or hasattr(type(home), name) or any(name in known for known in attributes)
        for name in bare
    )
    return f"{part}_" if taken else part


def _to_scopes(network: Hierarchy, state: dict[str, Any], prefix: str, _: Any) -> None:
    _rename(state, {prefix + actual: prefix + wanted for actual, wanted in network._renamed.items()})


def _from_scopes(network: Hierarchy, state: dict[str, Any], prefix: str, *_: Any) -> None:
    _rename(state, {prefix + wanted: prefix + actual for actual, wanted in network._renamed.items()})


def _rename(state: dict[str, Any], names: Mapping[str, str]) -> None:
    items = [(names.get(name, name), value) for name, value in state.items()]
    state.clear()
    state.update(items)


def supports(graph: Graph) -> list[Diagnostic]:
    """What of a graph cannot be lowered: choices that are not made, and operations without a rule."""
    return unlowered(graph, RULES, "torch")


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
    """Operations that can be written in `.arch`, stand for themselves, and have no lowering here."""
    return [op for op in OPS.values() if not (op.internal or issubclass(op, Composite)) and op not in RULES]
