"""A graph under construction: nodes with the scopes of modules, weights, and tensors brought into other layouts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
import torch

from archir.diagnostics.errors import RuleError
from archir.ir.graph import Graph, Node, NodeId, state_name
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.language.decompiler.imported import Array, Source, digest
from archir.ops.arithmetic import Concat
from archir.ops.constant import Constant as Numbers
from archir.ops.pool import GlobalAvgPool, GlobalMaxPool
from archir.ops.shape import ChannelShuffle, Flatten, Parameter, Reshape, Slice, ToMap, ToTokens, Transpose
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Atom, Axes, Axis, Unsupported, Value, plain, sizes

Weights = Mapping[str, Constant]
MOST_ZEROS = 1024
"""Zeros that programs say one by one."""
MOST_COPIES = 64
"""Copies of a tensor that stand side by side."""


class Builder:
    """What operators make nodes with. `module` and `leaf` say which module's operator is at hand."""

    def __init__(self, name: str, batch: int) -> None:
        self.graph = Graph(name)
        self.batch = Atom(batch)
        self.types: dict[NodeId, TensorType] = {}
        self.weights: dict[str, Array] = {}
        self.sources: dict[str, Source] = {}
        self.module = ""
        self.leaf = False
        self._scopes: dict[str, object] = {}
        self._layers: dict[object, str] = {}
        self._parameters: dict[object, NodeId] = {}
        self._alive: list[Constant] = []
        """Those that keys are made of: another tensor could have the identity of one that is gone."""
        self._no_states: dict[tuple[int, ...], NodeId] = {}
        self._joined: dict[tuple[int, ...], NodeId] = {}

    # nodes

    def add(self, op: Op, *operands: NodeId, scope: str | None = None) -> NodeId:
        """A node of the module at hand; of equal ones that move data there is one. Unsupported if a rule refuses."""
        op = _short(op)
        try:
            type_ = op.infer(*(self.types[operand] for operand in operands))
        except RuleError as error:
            raise Unsupported(f"{op.name}: {error.message}") from None
        number = self.graph.add(Node(op, scope=self._named(op) if scope is None else scope), *operands)
        self.types[number] = type_
        return number

    def layer(self, op: Op, weights: Weights, *operands: NodeId) -> NodeId:
        """A node with weights. Those of equal ones are shared, whatever the operations."""
        held = dict(weights.items())
        self._alive += held.values()
        key = tuple((name, weight.key) for name, weight in sorted(held.items()))
        if key not in self._layers:
            self._layers[key] = scope = self._free(self._owner(held, op), key)
            for name, weight in held.items():
                self._hold(state_name(scope, name), weight)
        return self.add(op, *operands, scope=self._layers[key])

    def shared(self, weights: Weights) -> bool:
        """Whether a layer holds these already."""
        return tuple((name, weight.key) for name, weight in sorted(weights.items())) in self._layers

    def _hold(self, name: str, weight: Constant) -> None:
        self.weights[name] = array = weight.tensor.detach().numpy()
        origin = weight.origin
        if origin is not None and origin.kept and not weight.computed:
            self.sources[name] = Source(origin.name, origin.shape, weight.moves, "", origin.also)
            return
        why = weight.computed or "a constant"
        if origin is not None and not origin.kept:
            why = f"{origin.name}, which state dicts lack"
        self.sources[name] = Source("", array.shape, computed=why, digest=digest(array))

    def _owner(self, weights: Weights, op: Op) -> str:
        """The scope that weights have in the source: `layer1.0.conv1.weight` is of `layer1[0].conv1`."""
        for role, weight in weights.items():
            if weight.origin is not None:
                name = weight.origin.name
                last = name.rpartition(".")[2]
                known = last in ("weight", "bias", "running_mean", "running_var", role)
                return scope_of(name.rpartition(".")[0] if known else name.removesuffix("_weight"))
        return f"{scope_of(self.module)}.{op.name}".lstrip(".")

    def _named(self, op: Op) -> str:
        path = scope_of(self.module)
        base = path if self.leaf and path else f"{path}.{op.name}".lstrip(".")
        return self._free(base, None)

    def _free(self, base: str, holder: object) -> str:
        scope, count = base or "net", 1
        while scope in self._scopes:
            count += 1
            scope = f"{base}_{count}"
        self._scopes[scope] = holder
        return scope

    def joined(self, nodes: Sequence[NodeId], axis: int) -> NodeId:
        """Nodes side by side. Of growing lists, each is the one before it and what is new: dense blocks read so."""
        known = next((k for k in range(len(nodes), 1, -1) if (axis, *nodes[:k]) in self._joined), 0)
        parts = (self._joined[axis, *nodes[:known]], *nodes[known:]) if known else tuple(nodes)
        if len(parts) == 1:
            return parts[0]
        channels = self.types[nodes[0]].channel_axis
        node = self.add(Concat(None if axis == channels else axis), *parts)
        return self._joined.setdefault((axis, *nodes), node)

    # layouts

    def node(self, value: Value) -> NodeId:
        """The node of a value; constants become learned tensors, or fixed ones."""
        if not isinstance(value.node, Constant):
            return value.node
        constant = value.node
        if not constant.trained and 1 < constant.tensor.numel() <= MOST_ZEROS and number_of(constant) == 0:
            return self._zeros(tuple(constant.tensor.shape))
        key = (*constant.key, *constant.tensor.shape)
        self._alive.append(constant)
        if key not in self._parameters:
            if constant.tensor.dtype == torch.int64 and constant.tensor.numel() <= MOST_ZEROS:
                beside = next(iter(self.graph.inputs.values()))
                made = self.add(Numbers(tuple(constant.tensor.flatten().tolist())), beside)
                self._parameters[key] = self._reshaped(made, tuple(constant.tensor.shape) or (1,))
                return self._parameters[key]
            if not constant.tensor.is_floating_point():
                raise Unsupported("constants that are no floating-point numbers")
            shape = tuple(constant.tensor.shape)
            if not shape:
                constant, shape = constant.reshaped((1,)), (1,)
            op = Parameter(shape, trained=constant.trained)
            self._parameters[key] = self.layer(op, {"value": constant})
        return self._parameters[key]

    def _zeros(self, shape: tuple[int, ...]) -> NodeId:
        """Zeros that nothing trains, such as first states."""
        if shape not in self._no_states:
            beside = next(iter(self.graph.inputs.values()))
            made = self.add(Numbers((0,) * prod(shape), "f32"), beside)
            self._no_states[shape] = self._reshaped(made, shape)
        return self._no_states[shape]

    def laid(self, value: Value, base: Axes) -> Value:
        """The same tensor on another base, of the same atoms."""
        if value.base == base:
            return value
        value = self._copied(value, [atom for atom in _flat(base) if atom not in value.atoms])
        if value.base == base:
            return value
        if sorted(map(id, value.atoms)) != sorted(map(id, _flat(base))):
            raise Unsupported("an expansion that is not the batch's")
        if isinstance(value.node, Constant):
            return replace(value, node=_moved(value.node, value.base, base), base=base)
        return replace(value, node=self._rearranged(value.node, value.base, base), base=base)

    def _copied(self, value: Value, atoms: Sequence[Atom]) -> Value:
        """With copies, which torch has as an expansion, one after the other."""
        for atom in atoms:
            if atom is self.batch or atom.size > MOST_COPIES:
                raise Unsupported("an expansion that is not the batch's")
            shape = (1, *sizes(value.base))
            if isinstance(value.node, Constant):
                one = self.node(replace(value, node=value.node.reshaped(shape)))
            else:
                one = self._reshaped(value.node, shape)
            value = replace(value, node=self.joined([one] * atom.size, 0), base=((atom,), *value.base))
        return value

    def _rearranged(self, node: NodeId, old: Axes, new: Axes) -> NodeId:
        if self.types[node].shape == sizes(new) and _flat(old) == _flat(new):
            return node
        pooled = self.graph[node].op
        if (
            isinstance(pooled, GlobalAvgPool | GlobalMaxPool)
            and not pooled.keep
            and new[1:] in (((), ()), ((), (), ()))
        ):
            operand = self.graph.operands(node)[0]
            if self.types[operand].rank == len(new) and new[0] == old[0]:
                return self.add(type(pooled)(keep=True), operand, scope=self.graph[node].scope)
        if _flat(old) == _flat(new):
            return self._reshaped(node, sizes(new))
        if len(old) == 3 and len(new) == 2 and new == (old[1] + old[2], old[0]):
            return self.add(ToTokens(), node)
        if len(old) == 2 and len(new) == 3 and old == (new[1] + new[2], new[0]):
            height, width = sizes(new[1:])
            return self.add(ToMap(None if height == width else height), node)
        if len(old) == len(new) and (order := _order(old, new)) is not None:
            return self._transposed(node, order)
        if len(old) == len(new) == 3 and old[1:] == new[1:] and (dealt := _runs([*old[0]], [*new[0]]))[2:] == []:
            return self.add(ChannelShuffle(_size(dealt[0])), node)
        runs = _runs(_flat(old), _flat(new))
        node = self._reshaped(node, tuple(_size(run) for run in runs))
        order = tuple(sorted(range(len(runs)), key=lambda i: _flat(new).index(runs[i][0])))
        return self._reshaped(self._transposed(node, order), sizes(new))

    def _transposed(self, node: NodeId, order: tuple[int, ...]) -> NodeId:
        if order == tuple(range(len(order))):
            return node
        usual = Transpose().order(len(order)) == order
        return self.add(Transpose(None if usual else order), node)

    def _reshaped(self, node: NodeId, shape: tuple[int, ...]) -> NodeId:
        if isinstance(self.graph[node].op, Reshape):
            (node,) = self.graph.operands(node)
        if self.types[node].shape == shape:
            return node
        return self.add(Flatten() if len(shape) == 1 else Reshape(shape), node)

    def plain(self, value: Value) -> Value:
        """On the base that torch's axes are, without the batch; copies along other axes are refused."""
        return self.laid(value, plain(value.axes, self.batch))

    def tokens(self, value: Value) -> Value:
        """On a base of two axes, or of one, of which the last is torch's last. A single token stays."""
        last = value.axes[-1]
        alone = plain(value.axes, self.batch) == value.base
        if len(value.base) in (1, 2) and value.base[-1] == last and (alone or all(value.base[:-1])):
            return value
        others = self._others(value, last)
        if not others:
            return self.laid(value, (last,))
        return self.laid(value, (tuple(others), last))

    def _others(self, value: Value, axis: Axis) -> list[Atom]:
        """The atoms of the base but those of an axis, in the base's order if they lie together there."""
        if any(axis == one for one in value.base):
            return [atom for one in value.base if one != axis for atom in one]
        return [atom for one in value.axes for atom in one if atom is not self.batch and atom not in axis]

    def map(self, value: Value, spatial: int = 2) -> Value:
        """On a base [C, H, W] of a torch tensor [B, C, H, W]."""
        if len(value.axes) != spatial + 2 or value.axes[0] not in ((self.batch,), ()):
            raise Unsupported(f"a tensor {list(value.shape)} whose first axis is not the batch")
        return self.laid(value, value.axes[1:])

    def isolated(self, value: Value, axis: int) -> tuple[Value, int]:
        """On a base where an axis of torch's is an axis, and which one."""
        wanted = value.axes[axis]
        if self.batch in wanted:
            raise Unsupported("an operation along the batch")
        if wanted in value.base and wanted:
            return value, value.base.index(wanted)
        for i, one in enumerate(value.base):
            for start in range(len(one) - len(wanted) + 1):
                if wanted and one[start : start + len(wanted)] == wanted:
                    parts = [part for part in (one[:start], wanted, one[start + len(wanted) :]) if part]
                    base = (*value.base[:i], *parts, *value.base[i + 1 :])
                    return self.laid(value, base), i + parts.index(wanted)
        base = plain(value.axes, self.batch)
        skipped = sum(one == (self.batch,) for one in value.axes[:axis])
        return self.laid(value, base), axis - skipped

    def sliced(self, value: Value, axis: int, start: int, stop: int) -> Value:
        """Positions of an axis of torch's."""
        size = value.shape[axis]
        if (start, stop) == (0, size):
            return value
        if self.batch in value.axes[axis]:
            raise Unsupported("positions of the batch")
        if not set(value.axes[axis]) & set(value.atoms):  # copies of one
            made: Axis = (Atom(stop - start),) if stop - start > 1 else ()
            return replace(value, axes=(*value.axes[:axis], made, *value.axes[axis + 1 :]))
        value, at, inner = self._leading(value, axis)
        new: Axis = (Atom(stop - start),) if stop - start > 1 else ()
        rest = value.base[at][len(value.axes[axis]) :]
        start, stop = start * inner, stop * inner
        if isinstance(value.node, Constant):
            node: NodeId | Constant = value.node.sliced(at, start, stop)
        else:
            type_ = self.types[value.node]
            end = None if stop == type_.shape[at] else stop
            node = self.add(Slice(start, end, None if at == type_.channel_axis else at), value.node)
        base = (*value.base[:at], new + rest, *value.base[at + 1 :])
        return replace(value, node=node, base=base, axes=(*value.axes[:axis], new, *value.axes[axis + 1 :]))

    def _leading(self, value: Value, axis: int) -> tuple[Value, int, int]:
        """On a base that has an axis of which torch's is the major part; which one, and the size of the rest."""
        wanted = value.axes[axis]
        for i, one in enumerate(value.base):
            if one[: len(wanted)] == wanted:
                return value, i, _size(one[len(wanted) :])
        value, at = self.isolated(value, axis)
        return value, at, 1


def _short(op: Op) -> Op:
    """With numbers of the fewest digits: of those that are the same in 32 bits, one is as good as another."""
    numbers = {name: value for name, value in op.attributes().items() if isinstance(value, float)}
    short = {name: float(str(np.float32(value))) for name, value in numbers.items()}
    return replace(op, **short) if short != numbers else op


def scope_of(path: str) -> str:
    """`layers.0.attn` -> `layers[0].attn`."""
    parts = [re.sub(r"\W", "_", part) for part in path.split(".") if part]
    scope = ""
    for part in parts:
        scope += f"[{part}]" if part.isdigit() and scope else f".{part}" if scope else part
    return scope


def _size(axis: Iterable[Atom]) -> int:
    size = 1
    for atom in axis:
        size *= atom.size
    return size


def _flat(axes: Axes) -> list[Atom]:
    return [atom for axis in axes for atom in axis]


def _order(old: Axes, new: Axes) -> tuple[int, ...] | None:
    left = list(range(len(old)))
    order = []
    for axis in new:
        found = next((i for i in left if old[i] == axis), None)
        if found is None:
            return None
        left.remove(found)
        order.append(found)
    return tuple(order)


def _runs(old: list[Atom], new: list[Atom]) -> list[list[Atom]]:
    """What stays together from one order to the other."""
    after = dict(itertools.pairwise(new))
    runs: list[list[Atom]] = []
    for atom in old:
        if runs and after.get(runs[-1][-1]) is atom:
            runs[-1].append(atom)
        else:
            runs.append([atom])
    return runs


def _moved(constant: Constant, old: Axes, new: Axes) -> Constant:
    if len(old) == len(new) and (order := _order(old, new)) is not None:
        return constant.permuted(order)
    if _flat(old) == _flat(new):
        return constant.reshaped(sizes(new))
    runs = _runs(_flat(old), _flat(new))
    constant = constant.reshaped(tuple(_size(run) for run in runs))
    order = tuple(sorted(range(len(runs)), key=lambda i: _flat(new).index(runs[i][0])))
    return constant.permuted(order).reshaped(sizes(new))


def number_of(constant: Constant) -> float | None:
    """The number that all elements of a constant are, unless it is learned."""
    tensor = constant.tensor
    if constant.trained or not tensor.numel() or tensor.dtype == torch.bool:
        return None
    first = tensor.reshape(-1)[0]
    return float(first) if bool((tensor == first).all()) else None
