"""A torch module as a graph of operators, by `torch.export`, and that as archir's graph."""

from __future__ import annotations

import inspect
import logging
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from archir.backends.tensors import CODES
from archir.diagnostics.errors import ArchError, Diagnostic, fail, listed
from archir.ir.graph import Graph
from archir.ir.structure import Input
from archir.language.decompiler.imported import Array, Imported, Source, held
from archir.passes.prune import prune
from archir_torch.importing import operators  # noqa: F401  (registers them)
from archir_torch.importing.builder import Builder, scope_of
from archir_torch.importing.constants import Constant, Named
from archir_torch.importing.folding import EXPANDED, FILLED, filled, folded
from archir_torch.importing.layout import Atom, Unsupported, Value, fresh
from archir_torch.importing.operators.complexes import COMPLEX, Complex
from archir_torch.importing.operators.elementwise import computed, constant_number, valued
from archir_torch.importing.operators.layers import written
from archir_torch.importing.outputs import labelled, named
from archir_torch.importing.partial import Cuts, Place, largest
from archir_torch.importing.patterns.inlining import inlined
from archir_torch.importing.patterns.matching import name_of
from archir_torch.importing.patterns.recognise import recognised
from archir_torch.importing.rules import OPERATORS

BATCH = 23
"""Samples that modules are traced with: a number that no axis of theirs is likely to have."""

DTYPES = {torch.float32: "f32", torch.int64: "i64", torch.int32: "i32", torch.bool: "bool"}
MISFIT = re.compile(r"size|dim|shape|argument")
"""What torch says where inputs are not those that a module takes."""
CHECKS = ("_assert", "sym_", "_guards")
"""Operators that compute nothing."""


class Missing:
    """What could not be imported, and all that needs it."""


MISSING = Missing()
Inputs = Tensor | Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True)
class Captured:
    """What `torch.export` made of a module."""

    program: ExportedProgram
    names: tuple[str, ...]
    """Of the inputs."""


def capture(module: nn.Module, example: Inputs) -> Captured:
    """The program of a module in evaluation. Raises ArchError (A3201) with what torch says of it."""
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if isinstance(example, Tensor):
        args = (example,)
    elif isinstance(example, Mapping):
        kwargs = dict(example)
    else:
        args = tuple(example)
    args, kwargs = pytree.tree_map_only(Tensor, _for_batch, (args, kwargs))
    said = ""
    with torch.no_grad(), warnings.catch_warnings(), quiet():
        warnings.simplefilter("ignore")
        for strict in (False, True):
            try:
                program = torch.export.export(module, args, kwargs, strict=strict)
                inlined(program.graph_module)
                if _writes_into_views(program.graph):
                    program = program.run_decompositions({})
                return Captured(program, tuple(kwargs))
            except ArchError:  # of an ONNX file's node, which it names
                raise
            except Exception as error:  # what users' modules raise, and what torch refuses
                said = said or " ".join(str(error).split())[:400]
    if "Long, Int" in said:
        hint: str | None = "inputs of integers are written i64:128, in Python torch.zeros(1, 128).long()"
    else:
        hint = _given(module, args, kwargs) if MISFIT.search(said) else None
    raise fail("A3201", f"torch.export cannot follow {type(module).__name__}: {said}", None, hint)


def _given(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """With which inputs a module was called, and what it takes, for who gave others than it expects."""
    pairs = [("", one) for one in args] + [(f"{name}=", one) for name, one in kwargs.items()]
    sizes = [f"{name}{'x'.join(map(str, one.shape[1:]))}" for name, one in pairs if isinstance(one, Tensor)]
    takes = [name for name in inspect.signature(module.forward).parameters if name not in ("args", "kwargs")]
    said = f"inputs were {listed(sizes, 4)}, for each of {BATCH} samples; sizes are said without an axis of samples"
    return f"{said}; the module takes {listed(takes, 6)}" if takes else said


@contextmanager
def quiet() -> Iterator[None]:
    """Torch says what it refuses in what it raises; what it logs besides are its own tracebacks."""
    log = logging.getLogger("torch")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)


def _for_batch(x: Tensor) -> Tensor:
    return x[:1].expand(BATCH, *x.shape[1:]).clone() if x.dim() else x


def _writes_into_views(graph: fx.Graph) -> bool:
    views = {"view", "slice", "select", "transpose", "permute", "unsqueeze", "narrow", "split", "chunk", "t", "expand"}
    for node in graph.nodes:
        if node.op == "call_function" and name_of(node).endswith("_") and not name_of(node).endswith("__"):
            first = node.args[0] if node.args else None
            if name_of(node) in ("copy_", "index_put_", "index_add_", "scatter_", "fill_", "zero_"):
                return True
            if isinstance(first, fx.Node) and first.op == "call_function" and name_of(first) in views:
                return True
    return False


def imported(
    module: nn.Module, example: Inputs, name: str = "network", partial: Callable[[Part], None] | None = None
) -> Imported:
    """archir's graph and weights of a module. Raises ArchError (A3201, A3202) with all that has no words in archir.

    With `partial`, which is called with a part that was cut out, the largest part is enough if not all can be had.
    """
    _require(module, example)
    training = {one: one.training for one in module.modules()}
    module.eval()
    try:
        reader = _Reader(module, capture(module, example), name, partial is not None)
        found = reader.read()
        if partial is not None and found.problems:
            partial(Part(found, reader.program, Cuts(reader.holes, reader.ends), reader.b.batch))
        return found
    finally:
        for one, mode in training.items():
            one.training = mode


def problems_of(module: nn.Module, example: Inputs) -> dict[str, Diagnostic]:
    """What of a module cannot be imported, by the path of the module that it is in."""
    reader = _Reader(module, capture(module, example), "network")
    with suppress(ArchError):
        reader.read()
    return {where: one for (where, _), one in reader.problems.items()}


def _require(module: Any, example: Any) -> None:
    """Raise ArchError (A3205) for what is no module, and for inputs that are not tensors of some samples."""
    if not isinstance(module, nn.Module):
        raise fail("A3205", f"{type(module).__name__} is no torch module", None, "subclass torch.nn.Module")
    if isinstance(example, Tensor):
        given: list[Any] = [example]
    else:
        given = list(
            example.values()
            if isinstance(example, Mapping)
            else example
            if isinstance(example, list | tuple)
            else [example]
        )
    other = next((one for one in given if not isinstance(one, Tensor)), None)
    if other is not None or not given:
        what = f"a {type(other).__name__}" if given else "nothing"
        hint = "example_inputs are a tensor, several, or tensors by argument; the module knows all others itself"
        raise fail("A3205", f"an example of inputs has {what} where a tensor should be", None, hint)
    if any(one.dim() and not len(one) for one in given):
        raise fail("A3205", "an example of inputs has no sample", None, "the first axis is that of the samples")


def _names(module: nn.Module) -> dict[str, list[str]]:
    """All names of the tensor that a name of a module's state dict has; of tensors with one name, nothing."""
    groups: dict[object, list[str]] = {}
    for name, tensor in module.state_dict().items():
        if not isinstance(tensor, Tensor):  # an extra state
            continue
        groups.setdefault((tensor.data_ptr() or id(tensor), tensor.shape, tensor.stride()), []).append(name)
    return {name: names for names in groups.values() if len(names) > 1 for name in names}


def _rest(module: nn.Module, sources: Iterable[Source]) -> dict[str, Array | None]:
    """What a module's state dict has besides the tensors that weights hold whole."""
    state = module.state_dict()
    overlapping = _overlapping(state)
    left = {*state} - held(sources) | overlapping
    return {name: None if name in overlapping else _array(tensor) for name, tensor in state.items() if name in left}


def _array(tensor: Any) -> Array | None:
    if not isinstance(tensor, Tensor) or tensor.is_quantized or tensor.layout is not torch.strided:
        return None
    tensor = tensor.detach().cpu()
    tensor = tensor.float() if tensor.dtype is torch.bfloat16 else tensor
    try:
        array: Array = tensor.numpy()
    except TypeError:  # of a type that numpy lacks
        return None
    return array if array.dtype.name in CODES else None


def _overlapping(state: Mapping[str, Any]) -> set[str]:
    """Names of tensors that lie in the memory of another one, in another layout: they cannot be told apart."""
    spans = sorted(
        ((start := tensor.data_ptr()), start + tensor.itemsize * _reach(tensor), (tensor.shape, tensor.stride()), name)
        for name, tensor in state.items()
        if isinstance(tensor, Tensor) and tensor.layout is torch.strided and tensor.numel()
    )
    found: set[str] = set()
    for i, (start, end, layout, name) in enumerate(spans):
        for other in spans[i + 1 :]:
            if other[0] >= end:
                break
            if (other[0], other[2]) != (start, layout):
                found |= {name, other[3]}
    return found


def _reach(tensor: Tensor) -> int:
    """Elements of memory from a tensor's first to its last one."""
    return 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))


def _arguments(captured: Captured) -> dict[str, str]:
    """The arguments that inputs were given as: torch writes them in small letters."""
    specs = captured.program.graph_signature.input_specs
    made = [spec.arg.name for spec in specs if spec.kind.name == "USER_INPUT"]
    known = [(one, name) for one, name in zip(made, captured.names, strict=False) if one.startswith(_small(name))]
    return dict(known) if len(known) == len(made) == len(captured.names) else {}


def _small(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "_", name.lower())


def _stored(program: ExportedProgram) -> dict[str, Tensor]:
    """The tensors of a program that are not trained, by the names of their nodes."""
    kept = {**program.constants, **program.state_dict}
    specs = program.graph_signature.input_specs
    found = {spec.arg.name: kept.get(str(spec.target)) for spec in specs if spec.kind.name != "PARAMETER"}
    return {name: tensor for name, tensor in found.items() if isinstance(tensor, Tensor)}


@dataclass(frozen=True)
class Part:
    """A part of a module, the program that it was cut out of, and where."""

    imported: Imported
    program: ExportedProgram
    cuts: Cuts
    batch: Atom


class _Reader:
    """The nodes of a program, one after the other. With `partial`, what cannot be read is cut out."""

    def __init__(self, module: nn.Module, captured: Captured, name: str, partial: bool = False) -> None:
        self.partial = partial
        self.holes: dict[str, Place] = {}
        self.ends: dict[str, tuple[Place, Value]] = {}
        self.module, self.program = module, captured.program
        self.graph = recognised(self.program.graph_module, _stored(self.program))
        self.b = Builder(name, BATCH)
        self.env: dict[fx.Node, Any] = {}
        self.classes: dict[str, str] = {"": type(module).__name__}
        self.problems: dict[tuple[str, str], Diagnostic] = {}
        self.first: Value | None = None
        self._cut: set[fx.Node] = set()
        self._called_by = _arguments(captured)

    def read(self) -> Imported:
        """All of it."""
        self._placeholders()
        for node in self.graph.nodes:
            if node.op == "call_function":
                self.env[node] = self._called(node)
            elif node.op == "get_attr":
                self.env[node] = Constant(getattr(self.program.graph_module, str(node.target)), computed="a constant")
            elif node.op == "output":
                self._outputs(node)
        problems = tuple(self.problems.values())
        if problems and not self.partial:
            raise ArchError(*problems)
        graph = largest(self.b.graph, self.b.types) if problems else prune(self.b.graph)
        self._only(graph)
        rest = _rest(self.module, self.b.sources.values())
        return Imported(graph, self.classes, self.b.weights, self.b.sources, rest, problems)

    def _only(self, graph: Graph) -> None:
        """Forget the weights of nodes that are not needed."""
        from archir_torch.lowering.module import weights_of

        kept = weights_of(graph)
        self.b.weights = {name: self.b.weights[name] for name in kept}
        self.b.sources = {name: self.b.sources[name] for name in kept}

    def _placeholders(self) -> None:
        signature = self.program.graph_signature
        specs = {spec.arg.name: spec for spec in signature.input_specs}
        known: dict[object, Named] = {}
        shared = _names(self.module)
        state = self.module.state_dict().keys()
        for node in self.graph.nodes:
            if node.op != "placeholder":
                continue
            spec = specs[node.name]
            if spec.kind.name == "USER_INPUT":
                self.env[node] = self._input(node)
                continue
            target = str(spec.target)
            stored = self.program.state_dict if target in self.program.state_dict else self.program.constants
            tensor = stored[target].detach()
            place = (tensor.data_ptr(), *tensor.shape, *tensor.stride())
            if tensor.dtype in (torch.float16, torch.bfloat16, torch.float64):
                tensor = tensor.float()
            trained = spec.kind.name == "PARAMETER"
            others = tuple(one for one in shared.get(target, ()) if one != target)
            origin = known.setdefault(
                place if trained and tensor.numel() else id(node),
                Named(target, tuple(tensor.shape), trained, others, target in state),
            )
            self.env[node] = Constant(tensor, origin, trained=trained)

    def _input(self, node: fx.Node) -> Any:
        value = node.meta.get("val")
        if not isinstance(value, Tensor):
            return value
        if not value.dim() or value.shape[0] != BATCH:
            raise fail("A3202", f"input `{node.name}` {list(value.shape)} has no axis of samples first")
        dtype = DTYPES.get(value.dtype)
        if dtype is None or dtype == "bool":
            raise fail("A3202", f"input `{node.name}` has numbers of {value.dtype}")
        label = named(self._called_by.get(node.name, node.name))
        made = self.b.add(Input(label, tuple(value.shape[1:]), dtype), scope="")
        base = fresh(value.shape[1:])
        found = Value(made, base, ((self.b.batch,), *base), dtype)
        self.first = self.first or found
        self.holes[label] = (node, None)
        return found

    def _outputs(self, node: fx.Node) -> None:
        flat = node.args[0]
        assert isinstance(flat, tuple | list)
        spec = self.program.call_spec.out_spec
        count = spec.num_leaves
        try:
            shaped = pytree.tree_unflatten(list(range(count)), spec)
        except Exception:  # what is given is made by a class of the user's
            shaped = tuple(range(count))
        given: list[Any] = [self.env.get(one) if isinstance(one, fx.Node) else one for one in flat][-count:]
        if not any(isinstance(one, Value | Missing) for one in given):
            raise fail("A3202", f"{type(self.module).__name__} gives nothing that is computed of its inputs")
        made_by = flat[-count:]
        for label, index in labelled(shaped).items():
            if isinstance(given[index], Value):
                self.b.module, self.b.leaf = "", False
                try:
                    self.b.graph.outputs[label] = self.b.node(self.b.plain(given[index]))
                    self.ends[label] = ((made_by[index], None), given[index])
                except Unsupported as error:
                    self._cannot(node, str(error))

    # one node

    def _called(self, node: fx.Node) -> Any:
        name = name_of(node)
        if name.startswith(CHECKS):
            return None
        given: Any = fx.node.map_arg((node.args, node.kwargs), lambda one: self.env.get(one, MISSING))
        args: list[Any] = [list(one) if isinstance(one, list | tuple) else one for one in given[0]]
        kwargs: dict[str, Any] = dict(given[1])
        leaves = pytree.tree_leaves([args, kwargs])
        if any(isinstance(one, Missing) for one in leaves):
            return self._hole(node)
        if name == "getitem":
            return args[0][args[1]]
        self._enter(node)
        inplace = name.endswith("_") and not name.endswith("__")
        made = self._made(node, name.rstrip("_") if inplace else name, args, kwargs, leaves)
        if inplace and isinstance(node.args[0], fx.Node):
            self.env[node.args[0]] = made
        return made

    def _made(self, node: fx.Node, name: str, args: list[Any], kwargs: dict[str, Any], leaves: list[Any]) -> Any:
        try:
            if name == "embedding" and isinstance(args[0], Constant) and args[0].trained and written(args[1]):
                return OPERATORS[name](self.b, *args, like=self.first)
            if name in FILLED:
                value = node.meta["val"]
                return filled(name, args, value.shape, value.dtype)
            if name in EXPANDED and isinstance(args[0], Constant) and args[0].trained and args[0].tensor.numel():
                return OPERATORS[name](self.b, valued(self.b, args[0]), *args[1:], **kwargs)
            if name == "linear" and isinstance(args[0], Constant) and constant_number(args[0]) == 0:
                return OPERATORS[name](self.b, valued(self.b, args[0]), *args[1:], **kwargs)  # of a first state
            if any(isinstance(one, Complex) for one in leaves):
                if name not in COMPLEX:
                    return self._cannot(node, "archir has no such operation of complex numbers")
                return self._checked(node, COMPLEX[name](self.b, *args, **kwargs))
            if not any(isinstance(one, Value) for one in leaves):
                assert callable(node.target)
                return folded(name, node.target, args, kwargs)
            if name not in OPERATORS:
                return self._cannot(node, "archir has no such operation")
            made = OPERATORS[name](self.b, *args, **kwargs)
            return self._checked(node, made)
        except Unsupported as error:
            return self._cannot(node, str(error))
        except ArchError:
            raise
        except Exception as error:  # arguments that no rule has thought of
            return self._cannot(node, f"a use of it that archir has no words for ({type(error).__name__})")

    def _checked(self, node: fx.Node, made: Any) -> Any:
        """What was made, if its shape is torch's."""
        expected = node.meta.get("val")
        if not isinstance(made, Value) or not isinstance(expected, Tensor):
            return made
        if expected.is_floating_point() and made.dtype != "f32":
            made = replace(computed(self.b, made), dtype="f32")
        if made.shape != tuple(expected.shape):
            if len(made.axes) == expected.dim():
                pairs = zip(made.shape, expected.shape, strict=True)
                if all(mine == theirs or (mine, theirs) == (1, BATCH) for mine, theirs in pairs):
                    return made
            raise Unsupported(f"a result {list(made.shape)} where torch has {list(expected.shape)}")
        return made

    def _enter(self, node: fx.Node) -> None:
        """The module that a node is of."""
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        for path, kind in stack:
            path = re.sub(r"@\d+", "", path)
            self.classes.setdefault(scope_of(path), str(kind).rpartition(".")[2].rstrip("'>"))
        path, kind = stack[-1] if stack else ("", "")
        self.b.module = re.sub(r"@\d+", "", path)
        self.b.leaf = "torch.nn.modules" in str(kind) and "container" not in str(kind)

    def _cannot(self, node: fx.Node, why: str) -> Any:
        where = self.b.module or type(self.module).__name__
        name = name_of(node)
        text = f"`{where}`: {name}: {why}"
        self.problems.setdefault((where, text), Diagnostic("A3202", text))
        return self._hole(node)

    def _hole(self, node: fx.Node) -> Any:
        """In a part, what is not read gives inputs, and what it reads are outputs."""
        if not self.partial or node.op == "output":
            return MISSING
        for one in node.all_input_nodes:
            value = self.env.get(one)
            if isinstance(value, Value) and not isinstance(value.node, Constant) and one not in self._cut:
                self._end(one, value)
        given = node.meta.get("val")
        if isinstance(given, tuple | list):
            return [self._given(node, one, i) for i, one in enumerate(given)]
        return self._given(node, given, None)

    def _end(self, node: fx.Node, value: Value) -> None:
        label = named(node.name)
        self._cut.add(node)
        if isinstance(self.b.graph[value.node].op, Input):  # type: ignore[index]
            return
        with suppress(Unsupported):  # samples folded into another axis: no output of a network
            self.b.graph.outputs[label] = self.b.node(self.b.plain(value))
            self.ends[label] = ((node, None), value)

    def _given(self, node: fx.Node, value: Any, index: int | None) -> Any:
        dtype = DTYPES.get(value.dtype) if isinstance(value, Tensor) else None
        if dtype in (None, "bool") or not value.dim() or value.shape[0] != BATCH:
            return MISSING
        label = named(node.name if index is None else f"{node.name}_{index}")
        made = self.b.add(Input(label, tuple(value.shape[1:]), dtype), scope="")
        self.holes[label] = (node, index)
        base = fresh(value.shape[1:])
        return Value(made, base, ((self.b.batch,), *base), dtype)
