"""Lowered graph as an `nn.Module`.

The module runs a list of steps, one per node. Each step reads and writes numbered slots, and frees the values that no
later step reads, so that peak memory is that of a handwritten forward function. Weights belong to submodules that are
named after the scopes of the net.
"""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from archir.backends import unlowered
from archir.diagnostics.errors import ArchError, Diagnostic
from archir.ir.graph import Graph, MergedScopes, NodeId, scope_path, state_name
from archir.ir.op import OPS, Composite, Op, Weight
from archir.ir.structure import Input, Mix
from archir.ir.typing import Types, infer
from archir.passes.expand import expand
from archir_torch.lowering.inputs import check_inputs, expected_inputs
from archir_torch.lowering.kernels.kernel_lowerings import kernel_lowering
from archir_torch.lowering.kernels.lazy import make_shareable, materialize
from archir_torch.lowering.kernels.library import to_channels_last
from archir_torch.lowering.rules import RULES
from archir_torch.lowering.weight_init import initial_tensor

Path = tuple[str, ...]
"""Components of a layer's scope: `a.b[0]` is (`a`, `b`, `0`)."""
ChildRef = tuple[nn.Module, str]
"""Reference to a submodule as parent module and attribute name, so that the submodule can be replaced at any
time."""

_OVERWRITABLE = {"add", "batch_norm", "conv", "linear", "sub"}
"""Operations whose gradient does not need their result, so that the result's only consumer may overwrite it in
place."""


class WeightHolder(nn.Module):
    """Module that holds the weights of one scope."""

    names: tuple[str, ...] = ()
    """Names of the weights, in the order in which the operation declares them."""


class Layer(WeightHolder):
    """Weights of one node, and the function that uses them."""

    def __init__(self, function: Callable[..., Tensor], attributes: dict[str, Any], takes_training: bool) -> None:
        super().__init__()
        self.function, self.attributes, self.takes_training = function, attributes, takes_training
        self.uses_kernels = False
        """Whether the layer runs the compiled-kernel variant of its function, if the function has one."""

    def add_weight(self, name: str, weight: Weight, generator: torch.Generator | None) -> None:
        """Register a weight as a parameter or buffer, with its initial value."""
        tensor = initial_tensor(weight, generator)
        if weight.buffer:
            self.register_buffer(name, tensor)
        else:
            self.register_parameter(name, nn.Parameter(tensor))
        self.names = (*self.names, name)

    def forward(self, *operands: Tensor, **run: Any) -> Tensor:
        """Apply the layer's function to the operands and the weights."""
        result: Tensor = materialize(self.call_function(self.function, self.attributes, *operands, **run))
        return result

    def call_function(
        self, function: Callable[..., Tensor], attributes: Mapping[str, Any], *operands: Tensor, **run: Any
    ) -> Tensor:
        """Apply a given function, instead of the layer's own, to operands and to the weights of this layer."""
        weights = {**self._parameters, **self._buffers}
        if len(weights) != len(self.names):  # some weights are computed: parametrizations, weight norm, pruning
            weights = {name: getattr(self, name) for name in self.names}
        if self.takes_training:
            run["training"] = self.training
        if self.uses_kernels:
            function = kernel_lowering(function)
        return function(*operands, **weights, **attributes, **run)

    def extra_repr(self) -> str:
        """Return the function's name, weights and attributes, for printing."""
        weights = [f"{name}={list(getattr(self, name).shape)}" for name in self.names]
        return ", ".join([self.function.__name__, *weights, *(f"{n}={v}" for n, v in self.attributes.items())])


def call_layer(layer: nn.Module, operands: Sequence[Any], **run: Any) -> Any:
    """Call a layer, or the module that replaced it, on operands.

    If the layer uses kernels and has no hooks, operands and result may be lazy tensors. Otherwise the operands are
    materialized first.
    """
    if type(layer) is Layer and layer.uses_kernels:
        hooks = layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks
        if not any(hooks):
            return layer.call_function(layer.function, layer.attributes, *operands, **run)
    return layer(*map(materialize, operands), **run)


class SharedLayerCall:
    """Function that uses the weights of another node's layer.

    The layer is looked up in its parent module at each call, since another module may have replaced it.
    """

    accepts_lazy = True
    """Marks that operands may be lazy: the layer chooses between its function and the compiled kernel."""

    def __init__(self, ref: ChildRef, function: Callable[..., Tensor], attributes: Mapping[str, Any]) -> None:
        self.ref, self.function, self.attributes = ref, function, attributes

    def __call__(self, *operands: Tensor, **run: Any) -> Tensor:
        """Apply the function to operands and to the current weights of the layer."""
        module, name = self.ref
        layer: Any = module._modules[name]
        result: Tensor = layer.call_function(self.function, self.attributes, *operands, **run)
        return result


class ScopeModule(nn.Module):
    """Container module for a scope without weights of its own."""


class Step:
    """Computation of one node: `function` or, if that is None, a call of the submodule `name` of `parent`.

    The submodule is looked up at each call, since another module may have replaced it.
    """

    __slots__ = ("frees", "function", "is_shared", "name", "parent", "reads", "takes_batch", "writes")

    def __init__(self, function: Callable[..., Tensor] | None, parent: nn.Module | None = None, name: str = "") -> None:
        self.function: Any = function
        self.parent: Any = parent
        self.name = name
        self.reads: tuple[int, ...] = ()
        self.writes = 0
        self.frees: tuple[int, ...] = ()
        self.takes_batch = False
        self.is_shared = False
        """Whether several steps read the result.

        A lazy result is then made shareable, so that it is computed only once.
        """

    def run(self, values: Sequence[Any], batch: int) -> Any:
        """Compute the node's result from the values in the slots; `batch` is the number of samples."""
        operands = [values[i] for i in self.reads]
        keywords = {"batch": batch} if self.takes_batch else {}
        if self.function is None:
            return call_layer(self.parent._modules[self.name], operands, **keywords)
        return self.function(*operands, **keywords)


class Hierarchy(nn.Module):
    """Module whose submodules form the tree of the net's scopes.

    The state dict uses the names of the scopes, even those that Python does not allow as names of submodules.
    """

    def __init__(self) -> None:
        super().__init__()
        self._renamed: dict[str, str] = {}
        self.register_load_state_dict_pre_hook(_from_arrays)  # type: ignore[no-untyped-call]

    def parameter_name(self, name: str) -> str:
        """Convert a name in the state dict to the name of the same parameter or buffer in the module."""
        return next((actual for actual, wanted in self._renamed.items() if wanted == name), name)

    def _attach(self, layers: Mapping[Path, WeightHolder]) -> dict[Path, ChildRef]:
        """Attach layers at the submodules that their paths name, and return a reference to each by path.

        A module cannot have a submodule with the name of one of its attributes, such as `half` or `training`. The
        submodule is then called `half_`; in state dicts it keeps the name `half`.
        """
        refs: dict[Path, ChildRef] = {}
        for path, layer in layers.items():
            parent: nn.Module = self
            names: list[str] = []
            for depth, part in enumerate(path, 1):
                if depth > 1:
                    parent = parent._modules[names[-1]] or parent
                names.append(_child_name(parent, part))
                if names[-1] not in parent._modules:
                    parent.add_module(names[-1], layers.get(path[:depth]) or ScopeModule())
            refs[path] = parent, names[-1]
            if (*names,) != path:
                self._renamed |= {".".join([*names, name]): ".".join([*path, name]) for name in layer.names}
        if self._renamed:
            self.register_state_dict_post_hook(_to_scope_names)  # type: ignore[no-untyped-call]
            self.register_load_state_dict_pre_hook(_from_scope_names)  # type: ignore[no-untyped-call]
        return refs


class Network(Hierarchy):
    """Module for a graph without choices.

    `forward` takes the inputs in the order of the net. It returns one tensor, or a dict of tensors by name if the net
    has several outputs.
    """

    def __init__(self, graph: Graph, generator: torch.Generator | None = None) -> None:
        super().__init__()
        graph = expand(graph)
        inputs = graph.inputs
        self.input_names, self.output_names = tuple(inputs), tuple(graph.outputs)
        slots = {number: slot for slot, number in enumerate(dict.fromkeys([*inputs.values(), *graph]))}
        self._outputs = tuple(slots[number] for number in graph.outputs.values())
        self._slots = len(slots)
        self._uses_kernels = False
        self._steps: list[Step] = []
        types = infer(graph)
        self._expected = expected_inputs({name: types[number] for name, number in inputs.items()})
        self.open_sizes = False
        """Whether inputs may have other sizes than declared in the net.

        The operations were checked only for the declared sizes.
        """
        paths, layers = _create_layers(graph, types, generator)
        refs = self._attach(layers)
        for number in graph:
            if not isinstance(graph[number].op, Input):
                ref = refs[paths[number]] if number in paths else None
                step = self._step(graph, number, ref)
                step.reads, step.writes = tuple(slots[operand] for operand in graph.operands(number)), slots[number]
                self._steps.append(step)
        _set_frees(self._steps, self._outputs)

    def _step(self, graph: Graph, number: NodeId, ref: ChildRef | None) -> Step:
        """Create the step of a node; `ref` refers to the node's layer, None if it has no layer."""
        rule = RULES[type(graph[number].op)]
        if ref is None:
            step = Step(_bound_function(graph, number))
        elif _calls_function(ref, rule.function, attributes := rule.attributes(graph[number].op)):
            step = Step(None, *ref)
        else:
            step = Step(SharedLayerCall(ref, rule.function, attributes))
        step.takes_batch = RULES[type(graph[number].op)].takes("batch")
        return step

    def use_kernels(self) -> None:
        """Use compiled kernels in training from now on (see `kernel_lowering`). Results are the same up to rounding."""
        if self._uses_kernels:
            return
        self._uses_kernels = True
        for layer in self.modules():
            if isinstance(layer, Layer):
                layer.uses_kernels = True
        readers = Counter([*self._outputs, *(slot for step in self._steps for slot in step.reads)])
        for step in self._steps:
            step.is_shared = readers[step.writes] > 1
            if step.function is not None and not hasattr(step.function, "accepts_lazy"):
                step.function = kernel_lowering(step.function)

    def _prepare_inputs(self, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """Convert inputs to channels-last memory format if compiled kernels are used."""
        if not (self._uses_kernels and self.training and torch.is_grad_enabled()):
            return inputs
        return [to_channels_last(x) if x.dim() == 4 and x.device.type == "cpu" else x for x in inputs]

    def forward(self, *inputs: Tensor) -> Any:
        """Run the network on a batch.

        Raises TypeError or ValueError if the inputs do not match those of the net (see `check_inputs`).
        """
        check_inputs(inputs, self._expected, self.open_sizes)
        values: list[Any] = [*self._prepare_inputs(inputs), *[None] * (self._slots - len(inputs))]
        batch = inputs[0].shape[0] if inputs else 1
        for step in self._steps:
            value = step.run(values, batch)
            values[step.writes] = make_shareable(value) if step.is_shared else value
            for i in step.frees:
                values[i] = None
        return self._results(values)

    def _results(self, values: list[Any]) -> Any:
        """Return the output tensor, or the output tensors by name, from the values in the slots."""
        if len(self._outputs) == 1:
            return materialize(values[self._outputs[0]])
        return {name: materialize(values[i]) for name, i in zip(self.output_names, self._outputs, strict=True)}


def _calls_function(ref: ChildRef, function: Callable[..., Tensor], attributes: Mapping[str, Any]) -> bool:
    """Return True if calling the module at `ref` applies this function with these attributes.

    The module at `ref` may be the node's layer or a module that replaced it.
    """
    module, name = ref
    layer = module._modules[name]
    return not isinstance(layer, Layer) or (layer.function, layer.attributes) == (function, attributes)


def _create_layers(
    graph: Graph, types: Types, generator: torch.Generator | None
) -> tuple[dict[NodeId, Path], dict[Path, Layer]]:
    """Create a layer for each node with weights or a training mode.

    Returns the layer path of each node, and the layers by path. Nodes with the same scope share a layer. If several
    scopes were merged into one node, each of these scopes has a layer, and the path of the node is that of the first
    scope.
    """
    layers: dict[Path, Layer] = {}
    paths: dict[NodeId, Path] = {}
    for number in graph:
        node = graph[number]
        if isinstance(node.op, Input | Mix):
            continue
        rule = RULES[type(node.op)]
        weights = node.op.weights(*(types[operand] for operand in graph.operands(number)))
        if not weights and not rule.has_modes(node.op):
            continue
        path = scope_path(node.scope)
        if not weights and (not path or path in layers):  # it saves no state, so that any free name will do
            path = (*path, f"{node.op.name}_{number}")
        merged = graph.merged_scopes.get(node.scope)
        for layer_path in [scope_path(scope) for scope in merged.scopes] if merged else [path]:
            if layer_path not in layers:
                layers[layer_path] = Layer(rule.function, rule.attributes(node.op), rule.takes("training"))
                for name, weight in weights.items():
                    layers[layer_path].add_weight(name, _split_weight(weight, merged), generator)
        paths[number] = path
    return paths, layers


def _split_weight(weight: Weight, merged: MergedScopes | None) -> Weight:
    """Split the weight of a node into which scopes were merged; return the weight of each scope.

    `merged` is None if the node has only one scope; then the weight is returned unchanged.
    """
    if merged is None or merged.is_shared:
        return weight
    return replace(weight, shape=(weight.shape[0] // len(merged.scopes), *weight.shape[1:]))


def _bound_function(graph: Graph, number: NodeId) -> Callable[..., Tensor]:
    """Return the function of a node without weights, with its attributes bound."""
    op = graph[number].op
    rule = RULES[type(op)]
    attributes = rule.attributes(op)
    if rule.takes("inplace"):
        attributes["inplace"] = _may_overwrite(graph, number)
    return partial(rule.function, **attributes) if attributes else rule.function


def _set_frees(steps: list[Step], outputs: tuple[int, ...]) -> None:
    """Let each step free the slots that no later step reads; outputs are kept."""
    last = {slot: step for step in steps for slot in step.reads}
    for slot, step in last.items():
        if slot not in outputs:
            step.frees = (*step.frees, slot)


def _may_overwrite(graph: Graph, number: NodeId) -> bool:
    """Return True if a node may overwrite its operand in place.

    The node must be the operand's only consumer, and the gradient of the operation that produced the operand must not
    need the operand's value.
    """
    (operand,) = graph.operands(number)
    if operand in graph.outputs.values() or len(graph.consumers(operand)) != 1:
        return False
    return graph[operand].op.name in _OVERWRITABLE


def _child_name(parent: nn.Module, part: str) -> str:
    """Return a valid submodule name: `half` -> `half_`, and `half_` -> `half__`, so that different names stay
    different.

    Python keywords such as `nonlocal` are renamed too, because code that torch generates accesses submodules as
    attributes.
    """
    attributes = (vars(parent), parent._parameters, parent._buffers)
    candidates = [part[:length] for length in range(len(part.rstrip("_")), len(part) + 1)]
    is_taken = any(
        keyword.iskeyword(name) or hasattr(type(parent), name) or any(name in members for members in attributes)
        for name in candidates
    )
    return f"{part}_" if is_taken else part


def _to_scope_names(network: Hierarchy, state: dict[str, Any], prefix: str, _: Any) -> None:
    """State-dict hook: rename entries from submodule names to scope names."""
    _rename(state, {prefix + actual: prefix + wanted for actual, wanted in network._renamed.items()})


def _from_arrays(network: Hierarchy, state: dict[str, Any], *_: Any) -> None:
    """Hook before a state dict is loaded: convert numpy arrays, such as the weights of an import, to tensors."""
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            state[name] = torch.from_numpy(value if value.flags.writeable else value.copy())


def _from_scope_names(network: Hierarchy, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Hook before a state dict is loaded: rename entries from scope names to submodule names."""
    _rename(state, {prefix + wanted: prefix + actual for actual, wanted in network._renamed.items()})


def _rename(state: dict[str, Any], names: Mapping[str, str]) -> None:
    """Rename entries of a state dict in place; their order is kept."""
    items = [(names.get(name, name), value) for name, value in state.items()]
    state.clear()
    state.update(items)


def supports(graph: Graph) -> list[Diagnostic]:
    """Return a diagnostic for each node that cannot be lowered: an undecided choice, or an operation without a
    lowering rule."""
    return unlowered(graph, RULES, "torch")


def lower(graph: Graph, *, generator: torch.Generator | None = None) -> Network:
    """Lower a graph without choices to a module. The generator (default: seed 0) initialises the weights.

    Raises ArchError (A0901, A0904) with a diagnostic for every node that cannot be lowered.
    """
    problems = supports(graph)
    if problems:
        raise ArchError(*problems)
    return Network(graph, generator if generator is not None else torch.Generator().manual_seed(0))


def weights_of(graph: Graph) -> dict[str, Weight]:
    """Return the declared weights of a graph without choices, by their names in the state dict."""
    types = infer(graph)
    return {
        state_name(graph[number].scope, name): weight
        for number in types
        for name, weight in graph[number].op.weights(*(types[o] for o in graph.operands(number))).items()
    }


def missing_rules() -> list[type[Op]]:
    """Return the operations of the `.arch` language that have no lowering to torch, without composite operations."""
    return [op for op in OPS.values() if not (op.internal or issubclass(op, Composite)) and op not in RULES]
