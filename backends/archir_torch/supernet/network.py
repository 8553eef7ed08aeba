"""Space as an `nn.Module` whose architecture is an argument: `model(x, architecture)`.

Each weight is stored once, at the size that the largest architecture needs. An architecture uses a slice of it
(`archir.passes.sharing`). Two things are cached between calls: the action of a node for the outcomes of the choices
on
which it depends, and the execution plan of an architecture.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from archir.backends import unlowered
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph, NodeId, scope_path, state_name
from archir.ir.op import Composite, Op, Weight
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.passes.sharing import Sharing
from archir.passes.specialize import specialize
from archir.passes.weight_slices import WeightSlice
from archir.spaces.architecture import Architecture
from archir_torch.lowering.inputs import ExpectedInput, check_inputs, expected_inputs
from archir_torch.lowering.kernels.kernel_lowerings import kernel_lowering, materializing
from archir_torch.lowering.kernels.lazy import make_shareable, materialize
from archir_torch.lowering.kernels.library import to_channels_last
from archir_torch.lowering.module import Hierarchy, Network, WeightHolder, lower
from archir_torch.lowering.rules import RULES
from archir_torch.lowering.weight_init import initial_tensor
from archir_torch.supernet.slicing import IndexedSlice, StridedSlice, make_slice

MAX_PLANS = 256
"""Maximum number of architectures whose execution plans are cached."""
MAX_ACTIONS = 1024
"""Maximum number of cached actions per node. Nodes after concatenations depend on many choices and so have
many actions."""


class LargestWeights(WeightHolder):
    """Weights of a scope, at the sizes that the largest architecture needs."""

    def __init__(self, weights: Mapping[str, Weight], generator: torch.Generator | None) -> None:
        super().__init__()
        self.names = tuple(weights)
        for name, weight in weights.items():
            tensor = initial_tensor(weight, generator)
            if weight.buffer:
                self.register_buffer(name, tensor)
            else:
                self.register_parameter(name, nn.Parameter(tensor))


@dataclass(frozen=True, slots=True)
class Action:
    """Computation of a node for fixed outcomes of the choices on which the node depends.

    `slices` holds the part of each weight that the computation uses; None stands for the whole weight.
    """

    function: Callable[..., Tensor]
    slices: tuple[tuple[str, StridedSlice | IndexedSlice | None], ...] = ()
    layer: LargestWeights | None = None
    takes_training: bool = False
    takes_batch: bool = False

    def __call__(self, operands: Sequence[Tensor], training: bool, batch: int) -> Tensor:
        """Compute the result; in training, write updated buffers back to the stored weights."""
        run: dict[str, Any] = {}
        if self.takes_training:
            run["training"] = training
        if self.takes_batch:
            run["batch"] = batch
        if self.layer is None:
            return self.function(*operands, **run)
        tensors = {**self.layer._parameters, **self.layer._buffers}
        updates: list[tuple[Tensor, StridedSlice | IndexedSlice, Tensor]] = []
        for name, part in self.slices:
            stored = tensors[name]
            assert stored is not None
            used = run[name] = stored if part is None else part.take(stored)
            if training and part is not None and name in self.layer._buffers and not _shares_storage(used, stored):
                updates.append((stored, part, used))
        result = self.function(*operands, **run)
        for stored, part, used in updates:
            part.write(stored, used)
        return result


@dataclass(frozen=True, slots=True)
class PlanStep:
    """Step of an execution plan: an action, the nodes that it reads and writes, and the nodes to free after it."""

    action: Action
    reads: tuple[NodeId, ...]
    writes: NodeId
    frees: tuple[NodeId, ...]
    is_shared: bool
    """Whether several steps read the result.

    A lazy result is then made shareable, so that it is computed only once.
    """


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """Steps that compute one architecture, its expected inputs, and its output nodes."""

    inputs: tuple[ExpectedInput, ...]
    steps: tuple[PlanStep, ...]
    outputs: tuple[NodeId, ...]


class SuperNetwork(Hierarchy):
    """Supernet of a space.

    `forward(*inputs, architecture)` computes the same as the architecture's own network with the same weights. Smaller
    architectures use the first channels of each tensor. In tensors that attention splits into heads, these are by
    default the first channels of each head; with `by_head=False`, the first channels of the whole tensor. Initial
    weights are drawn from `generator`, by default one with the seed 0.
    """

    def __init__(self, graph: Graph, generator: torch.Generator | None = None, by_head: bool = True) -> None:
        super().__init__()
        problems = unlowered(graph, RULES, "torch", choices=True)
        if problems:
            raise ArchError(*problems)
        self.graph = graph
        self.sharing = Sharing(graph, by_head)
        generator = generator if generator is not None else torch.Generator().manual_seed(0)
        layers = {
            scope_path(scope): LargestWeights(weights, generator) for scope, weights in self.sharing.largest.items()
        }
        refs = self._attach(layers)
        self._layers = {scope: refs[scope_path(scope)] for scope in self.sharing.largest}
        self.input_names, self.output_names = tuple(graph.inputs), tuple(graph.outputs)
        self._choice_paths = {n: tuple(c.path for c in self.sharing.depends_on(n)) for n in self.sharing.types}
        self._actions: dict[NodeId, dict[tuple[int, ...], Action]] = {number: {} for number in self.sharing.types}
        self._selects = {
            number: (op.choice, tuple(graph.operands(number)[position] for position in op.cases))
            for number in graph if isinstance(op := graph[number].op, Select)
        }  # fmt: skip
        self._inputs = frozenset(graph.inputs.values())
        self.open_sizes = False
        """Whether inputs may have other sizes than the architecture's own inputs."""
        self._uses_kernels = False
        self._replacements: dict[Callable[..., Tensor], Callable[..., Tensor]] = {}
        self._plans: OrderedDict[tuple[int, ...], ExecutionPlan] = OrderedDict()

    def forward(self, *arguments: Any) -> Any:
        """Run an architecture, the last argument, on a batch. The outputs have the same form as those of `Network`."""
        *inputs, architecture = arguments
        if len(inputs) != len(self.input_names) or not isinstance(architecture, Architecture):
            names = ", ".join(self.input_names)
            raise TypeError(f"a supernet takes its inputs ({names}) and an architecture")
        plan = self.plan(architecture)
        check_inputs(inputs, plan.inputs, self.open_sizes)
        if self._uses_kernels and self.training and torch.is_grad_enabled():
            inputs = [to_channels_last(x) if x.dim() == 4 else x for x in inputs]
        values: dict[NodeId, Any] = dict(zip(self.graph.inputs.values(), inputs, strict=True))
        batch = inputs[0].shape[0] if inputs else 1
        training = self.training
        for step in plan.steps:
            value = step.action([values[number] for number in step.reads], training, batch)
            values[step.writes] = make_shareable(value) if step.is_shared else value
            for number in step.frees:
                del values[number]
        if len(plan.outputs) == 1:
            return materialize(values[plan.outputs[0]])
        return {name: materialize(values[number]) for name, number in zip(self.output_names, plan.outputs, strict=True)}

    # plans

    def plan(self, architecture: Architecture) -> ExecutionPlan:
        """Return the execution plan of an architecture; recently used plans are cached."""
        cached = self._plans.get(architecture.codes)
        if cached is None:
            cached = self._plans[architecture.codes] = self._create_plan(architecture.outcomes)
            if len(self._plans) > MAX_PLANS:
                self._plans.popitem(last=False)
        self._plans.move_to_end(architecture.codes)
        return cached

    def substitute(self, lowering: Callable[..., Tensor], replacement: Callable[..., Tensor]) -> None:
        """Replace a lowering function by another one from now on."""
        self._replacements[lowering] = replacement
        self._clear_caches()

    def use_kernels(self) -> None:
        """Use compiled kernels in training from now on (see `kernel_lowering`). Results are the same up to rounding."""
        self._uses_kernels = True
        self._clear_caches()

    def _clear_caches(self) -> None:
        self._plans.clear()
        for actions in self._actions.values():
            actions.clear()

    def _create_plan(self, outcomes: Mapping[str, int]) -> ExecutionPlan:
        selects, graph = self._selects, self.graph

        def resolve(number: NodeId) -> NodeId:
            while number in selects:
                path, cases = selects[number]
                number = cases[outcomes.get(path, 0)]
            return number

        outputs = tuple(resolve(number) for number in graph.outputs.values())
        reads: dict[NodeId, tuple[NodeId, ...]] = {}
        stack = list(outputs)
        while stack:
            number = stack.pop()
            if number not in reads:
                reads[number] = operands = tuple([resolve(operand) for operand in graph.operands(number)])
                stack += operands
        kept = {*outputs, *self._inputs}
        consumers = Counter([*outputs, *(operand for operands in reads.values() for operand in operands)])
        steps = []
        for number in sorted(reads.keys() - self._inputs, reverse=True):
            frees = tuple([operand for operand in dict.fromkeys(reads[number]) if operand not in kept])
            kept.update(frees)
            steps.append(
                PlanStep(self._cached_action(number, outcomes), reads[number], number, frees, consumers[number] > 1)
            )
        types = {name: self.sharing.types[number].at(outcomes) for name, number in graph.inputs.items()}
        return ExecutionPlan(expected_inputs(types), tuple(reversed(steps)), outputs)

    def _cached_action(self, number: NodeId, outcomes: Mapping[str, int]) -> Action:
        key = tuple([outcomes.get(path, 0) for path in self._choice_paths[number]])
        actions = self._actions[number]
        if key not in actions:
            if len(actions) >= MAX_ACTIONS:
                actions.clear()
            actions[key] = self._create_action(number, outcomes)
        return actions[key]

    def _create_action(self, number: NodeId, outcomes: Mapping[str, int]) -> Action:
        node = self.graph[number]
        op = node.op.at(outcomes)
        if isinstance(op, Composite):
            types = [self.sharing.types[operand].at(outcomes) for operand in self.graph.operands(number)]
            expanded = _expanded(op, types)
            return Action(materializing(expanded) if self._uses_kernels else expanded)
        rule = RULES[type(op)]
        attributes = rule.attributes(op)
        lowering = self._replacements.get(rule.function, rule.function)
        lowering = kernel_lowering(lowering) if self._uses_kernels else lowering
        function = partial(lowering, **attributes) if attributes else lowering
        layer = None
        cuts: list[tuple[str, StridedSlice | IndexedSlice | None]] = []
        parts = self.sharing.slices(number, outcomes)
        if parts:
            parent, name = self._layers[node.scope]
            weights = parent._modules[name]
            assert isinstance(weights, LargestWeights)
            layer = weights
            largest = self.sharing.largest[node.scope]
            cuts = [(name, make_slice(part, largest[name].shape)) for name, part in parts.items()]
        return Action(function, tuple(cuts), layer, rule.takes("training"), rule.takes("batch"))

    # slices of weights

    def slices(self, architecture: Architecture) -> dict[str, StridedSlice | IndexedSlice | None]:
        """Return the slice of each weight that an architecture uses, by state-dict name; None stands for the whole
        weight."""
        return {
            state_name(self.graph[step.writes].scope, name): part
            for step in self.plan(architecture).steps
            for name, part in step.action.slices
        }

    def weight_slices(self, architecture: Architecture) -> dict[str, WeightSlice]:
        """Return the indices along each axis that an architecture uses of each weight, by state-dict name."""
        return {
            state_name(self.graph[step.writes].scope, name): part
            for step in self.plan(architecture).steps
            for name, part in self.sharing.slices(step.writes, architecture.outcomes).items()
        }

    def weights(self, architecture: Architecture) -> dict[str, Tensor]:
        """Return the weights of an architecture by their names in its own network, as views where possible, otherwise
        as copies."""
        state = self.state_dict()
        with torch.no_grad():
            return {
                name: state[name] if part is None else part.take(state[name])
                for name, part in self.slices(architecture).items()
            }

    def used(self, architecture: Architecture) -> dict[str, Tensor]:
        """Return a boolean mask for each weight by state-dict name: True at the elements that an architecture uses."""
        masks, state = {}, self.state_dict()
        for name, part in self.slices(architecture).items():
            masks[name] = mask = torch.zeros(state[name].shape, dtype=torch.bool)
            if part is None:
                mask.fill_(True)
            else:
                part.write(mask, torch.ones(part.shape, dtype=torch.bool))
        return masks


def extract(model: SuperNetwork, architecture: Architecture) -> Network:
    """Return an architecture's own network, with copies of its weights and the training mode of the supernet.

    Its results are bit-identical to those of the supernet for this architecture.
    """
    network = lower(specialize(model.graph, architecture.outcomes))
    tensor = next((each for each in model.state_dict().values() if each.is_floating_point()), None)
    if tensor is not None:
        network = network.to(tensor.device, tensor.dtype, non_blocking=True)
    network.load_state_dict(model.weights(architecture))
    return network.train(model.training)


def _shares_storage(a: Tensor, b: Tensor) -> bool:
    """True if two tensors share their memory."""
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _expanded(op: Composite, types: Sequence[TensorType]) -> Callable[..., Tensor]:
    """Return a function that computes a composite operation by running the operations into which it expands."""
    steps: list[tuple[Callable[..., Tensor], tuple[int, ...]]] = []
    result_types = list(types)

    def add(simple: Op, *operands: int) -> int:
        rule = RULES[type(simple)]
        steps.append((partial(rule.function, **rule.attributes(simple)), operands))
        result_types.append(simple.infer(*(result_types[operand] for operand in operands)))
        return len(result_types) - 1

    result: int = op.expand(add, range(len(types)), types)

    def run(*operands: Tensor) -> Tensor:
        values = list(operands)
        for function, indices in steps:
            values.append(function(*(values[operand] for operand in indices)))
        return values[result]

    return run
