"""A space as an `nn.Module` whose architecture is an argument: `model(x, architecture)`.

Weights are there once, at the size that the largest architecture needs; an architecture uses its part of them
(`archir.passes.sharing`). Nothing is rebuilt from one call to the next: what a node does under the outcomes of
the choices that it depends on is worked out once, and so is the order of the nodes that an architecture needs.
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
from archir.ir.graph import Graph, NodeId, state_name
from archir.ir.op import Composite, Op, Weight
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.passes.positions import Part
from archir.passes.sharing import Sharing
from archir.passes.specialize import specialize
from archir.spaces.architecture import Architecture
from archir_torch.lowering.initial import initial
from archir_torch.lowering.inputs import Expected, check_inputs, expected
from archir_torch.lowering.kernels.compiled import compiled
from archir_torch.lowering.kernels.lazy import settled, whole
from archir_torch.lowering.kernels.library import laid_out
from archir_torch.lowering.module import Hierarchy, Named, Network, lower, parts_of
from archir_torch.lowering.rules import RULES
from archir_torch.supernet.slicing import Cut, Picked, cut

MOST_PLANS = 256
"""Architectures whose order of nodes is remembered."""
MOST_ACTIONS = 1024
"""Of a node that are remembered: behind concatenations they depend on many choices."""


class Shared(Named):
    """The largest weights of a scope."""

    def __init__(self, weights: Mapping[str, Weight], generator: torch.Generator | None) -> None:
        super().__init__()
        self.names = tuple(weights)
        for name, weight in weights.items():
            tensor = initial(weight, generator)
            if weight.buffer:
                self.register_buffer(name, tensor)
            else:
                self.register_parameter(name, nn.Parameter(tensor))


@dataclass(frozen=True, slots=True)
class Action:
    """What a node does under certain outcomes; `cuts` are the parts of its weights, None where it takes them whole."""

    function: Callable[..., Tensor]
    cuts: tuple[tuple[str, Cut | Picked | None], ...] = ()
    layer: Shared | None = None
    wants_mode: bool = False
    wants_batch: bool = False

    def __call__(self, operands: Sequence[Tensor], training: bool, batch: int) -> Tensor:
        """The result; in training, buffers take up what was measured."""
        run: dict[str, Any] = {}
        if self.wants_mode:
            run["training"] = training
        if self.wants_batch:
            run["batch"] = batch
        if self.layer is None:
            return self.function(*operands, **run)
        held = {**self.layer._parameters, **self.layer._buffers}
        copied: list[tuple[Tensor, Cut | Picked, Tensor]] = []
        for name, part in self.cuts:
            whole = held[name]
            assert whole is not None
            own = run[name] = whole if part is None else part.of(whole)
            if training and part is not None and name in self.layer._buffers and not _shared(own, whole):
                copied.append((whole, part, own))
        result = self.function(*operands, **run)
        for whole, part, own in copied:
            part.write(whole, own)
        return result


@dataclass(frozen=True, slots=True)
class Move:
    """A step of a plan: what is done, with which values, to which, and what is not needed after it."""

    action: Action
    reads: tuple[NodeId, ...]
    writes: NodeId
    frees: tuple[NodeId, ...]
    settles: bool
    """Whether several read the result: what is not written yet is not left to each of them."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done for an architecture, and where its outputs are."""

    inputs: tuple[Expected, ...]
    moves: tuple[Move, ...]
    outputs: tuple[NodeId, ...]


class SuperNetwork(Hierarchy):
    """A space. `forward(*inputs, architecture)` is what the architecture's own network computes with these weights.

    `by_head=False`: what attention splits into heads has the first channels, as everything else.
    """

    def __init__(self, graph: Graph, generator: torch.Generator | None = None, by_head: bool = True) -> None:
        super().__init__()
        problems = unlowered(graph, RULES, "torch", choices=True)
        if problems:
            raise ArchError(*problems)
        self.graph = graph
        self.sharing = Sharing(graph, by_head)
        layers = {parts_of(scope): Shared(weights, generator) for scope, weights in self.sharing.largest.items()}
        homes = self._place(layers)
        self._layers = {scope: homes[parts_of(scope)] for scope in self.sharing.largest}
        self.input_names, self.output_names = tuple(graph.inputs), tuple(graph.outputs)
        self._depends = {n: tuple(c.path for c in self.sharing.depends_on(n)) for n in self.sharing.types}
        self._actions: dict[NodeId, dict[tuple[int, ...], Action]] = {number: {} for number in self.sharing.types}
        self._selects = {
            number: (op.choice, tuple(graph.operands(number)[position] for position in op.cases))
            for number in graph if isinstance(op := graph[number].op, Select)
        }  # fmt: skip
        self._inputs = frozenset(graph.inputs.values())
        self.open_sizes = False
        """Whether inputs of other sizes are taken than an architecture has."""
        self._compiled = False
        self._instead: dict[Callable[..., Tensor], Callable[..., Tensor]] = {}
        self._plans: OrderedDict[tuple[int, ...], Plan] = OrderedDict()

    def forward(self, *given: Any) -> Any:
        """Run an architecture, the last argument, on a batch; outputs as a `Network` gives them."""
        *inputs, architecture = given
        if len(inputs) != len(self.input_names) or not isinstance(architecture, Architecture):
            names = ", ".join(self.input_names)
            raise TypeError(f"a supernet takes its inputs ({names}) and an architecture")
        plan = self.plan(architecture)
        check_inputs(inputs, plan.inputs, self.open_sizes)
        if self._compiled and self.training and torch.is_grad_enabled():
            inputs = [laid_out(x) if x.dim() == 4 else x for x in inputs]
        values: dict[NodeId, Any] = dict(zip(self.graph.inputs.values(), inputs, strict=True))
        batch = inputs[0].shape[0] if inputs else 1
        training = self.training
        for move in plan.moves:
            found = move.action([values[number] for number in move.reads], training, batch)
            values[move.writes] = settled(found) if move.settles else found
            for number in move.frees:
                del values[number]
        if len(plan.outputs) == 1:
            return whole(values[plan.outputs[0]])
        return {name: whole(values[number]) for name, number in zip(self.output_names, plan.outputs, strict=True)}

    # plans

    def plan(self, architecture: Architecture) -> Plan:
        """What is done for an architecture."""
        known = self._plans.get(architecture.codes)
        if known is None:
            known = self._plans[architecture.codes] = self._planned(architecture.outcomes)
            if len(self._plans) > MOST_PLANS:
                self._plans.popitem(last=False)
        return known

    def substitute(self, lowering: Callable[..., Tensor], other: Callable[..., Tensor]) -> None:
        """From now on, run another function where this lowering would be."""
        self._instead[lowering] = other
        self._forget()

    def use_kernels(self) -> None:
        """From now on, train with kernels (see `compiled`), which gives the same figures but for rounding."""
        self._compiled = True
        self._forget()

    def _forget(self) -> None:
        self._plans.clear()
        for known in self._actions.values():
            known.clear()

    def _planned(self, outcomes: Mapping[str, int]) -> Plan:
        selects, graph = self._selects, self.graph

        def standing(number: NodeId) -> NodeId:
            while number in selects:
                path, cases = selects[number]
                number = cases[outcomes.get(path, 0)]
            return number

        outputs = tuple(standing(number) for number in graph.outputs.values())
        reads: dict[NodeId, tuple[NodeId, ...]] = {}
        stack = list(outputs)
        while stack:
            number = stack.pop()
            if number not in reads:
                reads[number] = found = tuple([standing(operand) for operand in graph.operands(number)])
                stack += found
        later = {*outputs, *self._inputs}
        readers = Counter([*outputs, *(operand for found in reads.values() for operand in found)])
        moves = []
        for number in sorted(reads.keys() - self._inputs, reverse=True):
            frees = tuple([operand for operand in dict.fromkeys(reads[number]) if operand not in later])
            later.update(frees)
            moves.append(Move(self._action(number, outcomes), reads[number], number, frees, readers[number] > 1))
        types = {name: self.sharing.types[number].at(outcomes) for name, number in graph.inputs.items()}
        return Plan(expected(types), tuple(reversed(moves)), outputs)

    def _action(self, number: NodeId, outcomes: Mapping[str, int]) -> Action:
        key = tuple([outcomes.get(path, 0) for path in self._depends[number]])
        known = self._actions[number]
        if key not in known:
            if len(known) >= MOST_ACTIONS:
                known.clear()
            known[key] = self._made(number, outcomes)
        return known[key]

    def _made(self, number: NodeId, outcomes: Mapping[str, int]) -> Action:
        node = self.graph[number]
        op = node.op.at(outcomes)
        if isinstance(op, Composite):
            types = [self.sharing.types[operand].at(outcomes) for operand in self.graph.operands(number)]
            written = _written_out(op, types)
            return Action(compiled(written) if self._compiled else written)
        rule = RULES[type(op)]
        attributes = rule.attributes(op)
        lowering = self._instead.get(rule.function, rule.function)
        lowering = compiled(lowering) if self._compiled else lowering
        function = partial(lowering, **attributes) if attributes else lowering
        layer = None
        cuts: list[tuple[str, Cut | Picked | None]] = []
        parts = self.sharing.parts(number, outcomes)
        if parts:
            home, name = self._layers[node.scope]
            held = home._modules[name]
            assert isinstance(held, Shared)
            layer = held
            largest = self.sharing.largest[node.scope]
            cuts = [(name, cut(part, largest[name].shape)) for name, part in parts.items()]
        return Action(function, tuple(cuts), layer, rule.takes("training"), rule.takes("batch"))

    # networks of their own

    def cuts(self, architecture: Architecture) -> dict[str, Cut | Picked | None]:
        """By name in the state dict, the parts of weights that an architecture uses; None for all of one."""
        return {
            state_name(self.graph[move.writes].scope, name): part
            for move in self.plan(architecture).moves
            for name, part in move.action.cuts
        }

    def parts(self, architecture: Architecture) -> dict[str, Part]:
        """By name in the state dict, the positions on each axis of a weight that an architecture uses."""
        return {
            state_name(self.graph[move.writes].scope, name): part
            for move in self.plan(architecture).moves
            for name, part in self.sharing.parts(move.writes, architecture.outcomes).items()
        }

    def weights(self, architecture: Architecture) -> dict[str, Tensor]:
        """An architecture's weights by the names that they have in its own network; not copies where views will do."""
        held = self.state_dict()
        with torch.no_grad():
            return {
                name: held[name] if part is None else part.of(held[name])
                for name, part in self.cuts(architecture).items()
            }

    def used(self, architecture: Architecture) -> dict[str, Tensor]:
        """Masks by name in the state dict: where an architecture uses a weight."""
        found, held = {}, self.state_dict()
        for name, part in self.cuts(architecture).items():
            found[name] = mask = torch.zeros(held[name].shape, dtype=torch.bool)
            if part is None:
                mask.fill_(True)
            else:
                part.write(mask, torch.ones(part.shape, dtype=torch.bool))
        return found


def extract(model: SuperNetwork, architecture: Architecture) -> Network:
    """An architecture's own network, with copies of its weights, in the mode of the supernet.

    It computes to the bit what the supernet computes for the architecture.
    """
    network = lower(specialize(model.graph, architecture.outcomes))
    held = next(iter(model.state_dict().values()), None)
    if held is not None:
        network = network.to(held.device, non_blocking=True)
    network.load_state_dict(model.weights(architecture))
    return network.train(model.training)


def _shared(one: Tensor, other: Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _written_out(op: Composite, types: Sequence[TensorType]) -> Callable[..., Tensor]:
    """What an operation that stands for others does."""
    steps: list[tuple[Callable[..., Tensor], tuple[int, ...]]] = []
    known = list(types)

    def add(simple: Op, *read: int) -> int:
        rule = RULES[type(simple)]
        steps.append((partial(rule.function, **rule.attributes(simple)), read))
        known.append(simple.infer(*(known[operand] for operand in read)))
        return len(known) - 1

    result: int = op.expand(add, range(len(types)), types)

    def run(*operands: Tensor) -> Tensor:
        values = list(operands)
        for function, read in steps:
            values.append(function(*(values[operand] for operand in read)))
        return values[result]

    return run
