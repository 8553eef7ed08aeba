"""Import of a torch module: trace it with `torch.export`, then translate the traced graph to an archir graph."""

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
from archir.diagnostics.errors import ArchError, Diagnostic, fail, join_names
from archir.ir.graph import Graph
from archir.ir.structure import Input
from archir.language.decompiler.imported import Array, Imported, Source, fully_used_tensors
from archir.passes.prune import prune
from archir_torch.importing import operators  # noqa: F401  (registers them)
from archir_torch.importing.builder import Builder, scope_of
from archir_torch.importing.constants import Constant, StoredTensor
from archir_torch.importing.folding import EXPANSIONS, FILL_VALUES, filled_constant, fold_call
from archir_torch.importing.labels import output_labels, valid_name
from archir_torch.importing.layout import Atom, Unsupported, Value, new_axes
from archir_torch.importing.operators.complexes import COMPLEX_OPERATORS, Complex
from archir_torch.importing.operators.elementwise import as_numeric, as_value, scalar_of
from archir_torch.importing.operators.layers import is_plain_lookup
from archir_torch.importing.partial import Cuts, NodeResult, largest_component
from archir_torch.importing.patterns.fuse import fuse_patterns
from archir_torch.importing.patterns.matching import name_of
from archir_torch.importing.rules import OPERATORS


def inline_regions(module: fx.GraphModule) -> None:
    """Inline the bodies of `wrap_with_...` operators (regions such as autocast), including nested ones.

    In evaluation mode and 32-bit precision, such regions do not change what their bodies compute.
    """
    has_regions = True
    while has_regions:
        regions = [node for node in module.graph.nodes if name_of(node).startswith("wrap_with")]
        has_regions = bool(regions)
        for node in regions:
            _inline(module, node)


def _inline(module: fx.GraphModule, node: fx.Node) -> None:
    """Inline the body of one region."""
    bodies = [
        (i, argument)
        for i, argument in enumerate(node.args)
        if isinstance(argument, fx.Node) and argument.op == "get_attr"
    ]
    index, body = next((i, getattr(module, str(argument.target))) for i, argument in bodies)
    arguments = iter(node.args[index + 1 :])
    env: dict[fx.Node, Any] = {}
    results: Any = ()
    with module.graph.inserting_before(node):
        for inner in body.graph.nodes:
            if inner.op == "placeholder":
                env[inner] = next(arguments)
            elif inner.op == "output":
                results = fx.node.map_arg(inner.args[0], env.__getitem__)
            else:
                env[inner] = module.graph.node_copy(inner, env.__getitem__)
                if inner.op == "get_attr":
                    name = f"{body._get_name()}_{inner.target}_{id(inner)}"
                    setattr(module, name, getattr(body, str(inner.target)))
                    env[inner].target = name
    for user in list(node.users):
        if name_of(user) == "getitem":
            user.replace_all_uses_with(results[user.args[1]])
            module.graph.erase_node(user)
    if node.users:
        node.replace_all_uses_with(results[0] if isinstance(results, tuple | list) else results)
    module.graph.erase_node(node)


BATCH = 23
"""Batch size with which modules are traced; the number is unlikely to be the size of another axis."""

DTYPES = {torch.float32: "f32", torch.int64: "i64", torch.int32: "i32", torch.bool: "bool"}
"""archir's element type by torch dtype."""
MISMATCH = re.compile(r"size|dim|shape|argument")
"""Pattern of torch error messages about inputs with wrong shapes or a wrong number of inputs."""
CHECK_PREFIXES = ("_assert", "sym_", "_guards")
"""Prefixes of operators that compute no tensors, such as assertions."""


class Missing:
    """Type of `MISSING`, the value of unsupported operators and of everything computed from them."""


MISSING = Missing()
"""Value that stands for the result of an operator that cannot be imported."""
Inputs = Tensor | Sequence[Any] | Mapping[str, Any]
"""Example inputs of a module: a tensor, a sequence of tensors, or a mapping from argument names to tensors."""


@dataclass(frozen=True)
class TracedModule:
    """Module that was traced by `torch.export`."""

    program: ExportedProgram
    input_names: tuple[str, ...]
    """Argument names of the inputs, if they were passed by name."""


def trace(module: nn.Module, example: Inputs) -> TracedModule:
    """Trace a module in evaluation mode with `torch.export`.

    Raises ArchError (A3201) with torch's message if the module cannot be traced.
    """
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if isinstance(example, Tensor):
        args = (example,)
    elif isinstance(example, Mapping):
        kwargs = dict(example)
    else:
        args = tuple(example)
    args, kwargs = pytree.tree_map_only(Tensor, _for_batch, (args, kwargs))
    message = ""
    with torch.no_grad(), warnings.catch_warnings(), quiet():
        warnings.simplefilter("ignore")
        for strict in (False, True):
            try:
                program = torch.export.export(module, args, kwargs, strict=strict)
                inline_regions(program.graph_module)
                if _writes_into_views(program.graph):
                    program = program.run_decompositions({})
                return TracedModule(program, tuple(kwargs))
            except ArchError:  # it names a node of an ONNX file
                raise
            except Exception as error:  # users' modules and torch raise errors of many kinds
                message = message or " ".join(str(error).split())[:400]
    if "Long, Int" in message:
        hint: str | None = "write inputs of integers as i64:128, in Python as torch.zeros(1, 128).long()"
    else:
        hint = _inputs_hint(module, args, kwargs) if MISMATCH.search(message) else None
    raise fail("A3201", f"torch.export cannot follow {type(module).__name__}: {message}", None, hint)


def _inputs_hint(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return a hint that shows the shapes of the inputs beside the parameters that the module takes."""
    pairs = [("", value) for value in args] + [(f"{name}=", value) for name, value in kwargs.items()]
    sizes = [f"{name}{'x'.join(map(str, value.shape[1:]))}" for name, value in pairs if isinstance(value, Tensor)]
    parameters = [name for name in inspect.signature(module.forward).parameters if name not in ("args", "kwargs")]
    text = f"the inputs were {join_names(sizes, 4)} for each of {BATCH} samples; shapes do not include the batch axis"
    return f"{text}; the module takes {join_names(parameters, 6)}" if parameters else text


@contextmanager
def quiet() -> Iterator[None]:
    """Context manager that silences torch's logger, which only repeats what exceptions report."""
    log = logging.getLogger("torch")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)


def _for_batch(x: Tensor) -> Tensor:
    """Return a batch of BATCH samples that repeats an input's first sample."""
    return x[:1].expand(BATCH, *x.shape[1:]).clone() if x.dim() else x


def _writes_into_views(graph: fx.Graph) -> bool:
    """Return whether a graph writes into views in place; such writes must be removed by `run_decompositions`."""
    views = {"view", "slice", "select", "transpose", "permute", "unsqueeze", "narrow", "split", "chunk", "t", "expand"}
    for node in graph.nodes:
        if node.op == "call_function" and name_of(node).endswith("_") and not name_of(node).endswith("__"):
            first = node.args[0] if node.args else None
            if name_of(node) in ("copy_", "index_put_", "index_add_", "scatter_", "fill_", "zero_"):
                return True
            if isinstance(first, fx.Node) and first.op == "call_function" and name_of(first) in views:
                return True
    return False


def import_module(
    module: nn.Module, example: Inputs, name: str = "network", partial: Callable[[Part], None] | None = None
) -> Imported:
    """Import a module as a graph and weights.

    Raises ArchError (A3201, A3202) with all unsupported operators. If `partial` is given, unsupported operators are
    cut out instead, and the largest supported part of the module is returned. `partial` is then called with this part
    and the values at which it was cut.
    """
    _require_valid(module, example)
    training = {child: child.training for child in module.modules()}
    module.eval()
    try:
        reader = _Importer(module, trace(module, example), name, partial is not None)
        result = reader.run()
        if partial is not None and result.problems:
            partial(Part(result, reader.program, Cuts(reader.part_inputs, reader.part_outputs), reader.builder.batch))
        return result
    finally:
        for child, mode in training.items():
            child.training = mode


def problems_of(module: nn.Module, example: Inputs) -> dict[str, Diagnostic]:
    """Return a diagnostic for each submodule that cannot be imported, by the path of the submodule."""
    reader = _Importer(module, trace(module, example), "network")
    with suppress(ArchError):
        reader.run()
    return {path: problem for (path, _), problem in reader.problems.items()}


def _require_valid(module: Any, example: Any) -> None:
    """Raise ArchError (A3205) unless the arguments are a torch module and example tensors with at least one sample."""
    if not isinstance(module, nn.Module):
        raise fail("A3205", f"{type(module).__name__} is not a torch module", None, "subclass torch.nn.Module")
    if isinstance(example, Tensor):
        examples: list[Any] = [example]
    else:
        examples = list(
            example.values()
            if isinstance(example, Mapping)
            else example
            if isinstance(example, list | tuple)
            else [example]
        )
    wrong = next((value for value in examples if not isinstance(value, Tensor)), None)
    if wrong is not None or not examples:
        actual = f"a {type(wrong).__name__}" if examples else "nothing"
        hint = "example_inputs must be a tensor, several tensors, or tensors by argument; omit all other arguments"
        raise fail("A3205", f"the example input has {actual} where a tensor should be", None, hint)
    if any(value.dim() and not len(value) for value in examples):
        raise fail("A3205", "an example input has no sample", None, "the first axis is the batch axis: make it 1")


def _aliases(module: nn.Module) -> dict[str, list[str]]:
    """Return, for each name of a tensor that has several names in a state dict, the list of all its names."""
    groups: dict[object, list[str]] = {}
    for name, tensor in module.state_dict().items():
        if not isinstance(tensor, Tensor):  # an extra state
            continue
        groups.setdefault((tensor.data_ptr() or id(tensor), tensor.shape, tensor.stride()), []).append(name)
    return {name: names for names in groups.values() if len(names) > 1 for name in names}


def _leftover_tensors(module: nn.Module, sources: Iterable[Source]) -> dict[str, Array | None]:
    """Return the tensors of a module's state dict that cannot be restored completely from the imported weights.

    Tensors of types that files do not support are None.
    """
    state = module.state_dict()
    overlapping = _overlapping(state)
    left = {*state} - fully_used_tensors(sources) | overlapping
    return {name: None if name in overlapping else _as_array(tensor) for name, tensor in state.items() if name in left}


def _as_array(tensor: Any) -> Array | None:
    """Convert a tensor to an array; None if it is quantized, sparse, or of a type that files do not support."""
    if not isinstance(tensor, Tensor) or tensor.is_quantized or tensor.layout is not torch.strided:
        return None
    tensor = tensor.detach().cpu()
    tensor = tensor.float() if tensor.dtype is torch.bfloat16 else tensor
    try:
        array: Array = tensor.numpy()
    except TypeError:  # numpy lacks its element type
        return None
    return array if array.dtype.name in CODES else None


def _overlapping(state: Mapping[str, Any]) -> set[str]:
    """Return the names of tensors whose memory overlaps with a tensor of another layout.

    Such tensors cannot be stored separately.
    """
    spans = sorted(
        (
            (start := tensor.data_ptr()),
            start + tensor.itemsize * _memory_extent(tensor),
            (tensor.shape, tensor.stride()),
            name,
        )
        for name, tensor in state.items()
        if isinstance(tensor, Tensor) and tensor.layout is torch.strided and tensor.numel()
    )
    result: set[str] = set()
    for i, (start, end, layout, name) in enumerate(spans):
        for other in spans[i + 1 :]:
            if other[0] >= end:
                break
            if (other[0], other[2]) != (start, layout):
                result |= {name, other[3]}
    return result


def _memory_extent(tensor: Tensor) -> int:
    """Return the distance in memory from a tensor's first to its last element, plus one, in elements."""
    return 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))


def _argument_names(captured: TracedModule) -> dict[str, str]:
    """Map names of input nodes to names of arguments; torch writes node names in lower case."""
    specs = captured.program.graph_signature.input_specs
    node_names = [spec.arg.name for spec in specs if spec.kind.name == "USER_INPUT"]
    pairs = [
        (node, name)
        for node, name in zip(node_names, captured.input_names, strict=False)
        if node.startswith(_torch_spelling(name))
    ]
    return dict(pairs) if len(pairs) == len(node_names) == len(captured.input_names) else {}


def _torch_spelling(name: str) -> str:
    """Return an argument name as torch spells it in node names: lower case, underscores for other characters."""
    return re.sub(r"[^a-z0-9]", "_", name.lower())


def _stored_tensors(program: ExportedProgram) -> dict[str, Tensor]:
    """Return a program's untrained tensors by the names of their nodes."""
    tensors = {**program.constants, **program.state_dict}
    specs = program.graph_signature.input_specs
    result = {spec.arg.name: tensors.get(str(spec.target)) for spec in specs if spec.kind.name != "PARAMETER"}
    return {name: tensor for name, tensor in result.items() if isinstance(tensor, Tensor)}


@dataclass(frozen=True)
class Part:
    """Imported part of a module, the traced program from which it was cut, and the cuts."""

    imported: Imported
    program: ExportedProgram
    cuts: Cuts
    batch: Atom


class _Importer:
    """Translates the nodes of a traced program one by one. With `partial`, unsupported operators are cut out."""

    def __init__(self, module: nn.Module, captured: TracedModule, name: str, partial: bool = False) -> None:
        self.partial = partial
        self.part_inputs: dict[str, NodeResult] = {}
        self.part_outputs: dict[str, tuple[NodeResult, Value]] = {}
        self.module, self.program = module, captured.program
        self.graph = fuse_patterns(self.program.graph_module, _stored_tensors(self.program))
        self.builder = Builder(name, BATCH)
        self.values: dict[fx.Node, Any] = {}
        self.classes: dict[str, str] = {"": type(module).__name__}
        self.problems: dict[tuple[str, str], Diagnostic] = {}
        self.first_input: Value | None = None
        self._cut_nodes: set[fx.Node] = set()
        self._argument_of = _argument_names(captured)

    def run(self) -> Imported:
        """Translate the program.

        Without `partial`, raises ArchError (A3202) with all problems. With `partial`, the problems are listed in the
        result.
        """
        self._placeholders()
        for node in self.graph.nodes:
            if node.op == "call_function":
                self.values[node] = self._import_call(node)
            elif node.op == "get_attr":
                self.values[node] = Constant(
                    getattr(self.program.graph_module, str(node.target)), computed="a constant"
                )
            elif node.op == "output":
                self._outputs(node)
        problems = tuple(self.problems.values())
        if problems and not self.partial:
            raise ArchError(*problems)
        graph = largest_component(self.builder.graph, self.builder.types) if problems else prune(self.builder.graph)
        self._drop_unused_weights(graph)
        leftover = _leftover_tensors(self.module, self.builder.sources.values())
        return Imported(graph, self.classes, self.builder.weights, self.builder.sources, leftover, problems)

    def _drop_unused_weights(self, graph: Graph) -> None:
        """Drop the weights that no node of the graph uses."""
        from archir_torch.lowering.module import weights_of

        used = weights_of(graph)
        self.builder.weights = {name: self.builder.weights[name] for name in used}
        self.builder.sources = {name: self.builder.sources[name] for name in used}

    def _placeholders(self) -> None:
        """Create the graph's inputs, and constants for the module's parameters and buffers."""
        signature = self.program.graph_signature
        specs = {spec.arg.name: spec for spec in signature.input_specs}
        origins: dict[object, StoredTensor] = {}
        shared = _aliases(self.module)
        state = self.module.state_dict().keys()
        for node in self.graph.nodes:
            if node.op != "placeholder":
                continue
            spec = specs[node.name]
            if spec.kind.name == "USER_INPUT":
                self.values[node] = self._input(node)
                continue
            target = str(spec.target)
            stored = self.program.state_dict if target in self.program.state_dict else self.program.constants
            tensor = stored[target].detach()
            place = (tensor.data_ptr(), *tensor.shape, *tensor.stride())
            if tensor.dtype in (torch.float16, torch.bfloat16, torch.float64):
                tensor = tensor.float()
            trained = spec.kind.name == "PARAMETER"
            aliases = tuple(alias for alias in shared.get(target, ()) if alias != target)
            origin = origins.setdefault(
                place if trained and tensor.numel() else id(node),
                StoredTensor(target, tuple(tensor.shape), trained, aliases, target in state),
            )
            self.values[node] = Constant(tensor, origin, trained=trained)

    def _input(self, node: fx.Node) -> Any:
        """Create an input of the graph.

        Raises ArchError (A3202) if its first axis is not the batch axis, or its element type is not supported.
        """
        value = node.meta.get("val")
        if not isinstance(value, Tensor):
            return value
        if not value.dim() or value.shape[0] != BATCH:
            raise fail("A3202", f"the first axis of input `{node.name}` {list(value.shape)} is not the batch axis")
        dtype = DTYPES.get(value.dtype)
        if dtype is None or dtype == "bool":
            raise fail("A3202", f"input `{node.name}` has the unsupported type {value.dtype}")
        label = valid_name(self._argument_of.get(node.name, node.name))
        number = self.builder.add(Input(label, tuple(value.shape[1:]), dtype), scope="")
        base = new_axes(value.shape[1:])
        input_value = Value(number, base, ((self.builder.batch,), *base), dtype)
        self.first_input = self.first_input or input_value
        self.part_inputs[label] = (node, None)
        return input_value

    def _outputs(self, node: fx.Node) -> None:
        """Create the graph's outputs with labels. Raises ArchError (A3202) if no output depends on the inputs."""
        flat = node.args[0]
        assert isinstance(flat, tuple | list)
        spec = self.program.call_spec.out_spec
        count = spec.num_leaves
        try:
            structure = pytree.tree_unflatten(list(range(count)), spec)
        except Exception:  # the module returns an instance of a user's class
            structure = tuple(range(count))
        results: list[Any] = [self.values.get(item) if isinstance(item, fx.Node) else item for item in flat][-count:]
        if not any(isinstance(item, Value | Missing) for item in results):
            raise fail("A3202", f"{type(self.module).__name__} gives nothing that depends on its inputs")
        nodes = flat[-count:]
        for label, index in output_labels(structure).items():
            if isinstance(results[index], Value):
                self.builder.module, self.builder.leaf = "", False
                try:
                    self.builder.graph.outputs[label] = self.builder.node(self.builder.with_torch_base(results[index]))
                    self.part_outputs[label] = ((nodes[index], None), results[index])
                except Unsupported as error:
                    self._report_problem(node, str(error))

    # translation of single nodes

    def _import_call(self, node: fx.Node) -> Any:
        """Translate an operator call and return its value.

        If an operand is MISSING, the call is cut out, like an unsupported operator.
        """
        name = name_of(node)
        if name.startswith(CHECK_PREFIXES):
            return None
        operands: Any = fx.node.map_arg((node.args, node.kwargs), lambda item: self.values.get(item, MISSING))
        args: list[Any] = [list(item) if isinstance(item, list | tuple) else item for item in operands[0]]
        kwargs: dict[str, Any] = dict(operands[1])
        leaves = pytree.tree_leaves([args, kwargs])
        if any(isinstance(item, Missing) for item in leaves):
            return self._cut_out(node)
        if name == "getitem":
            return args[0][args[1]]
        self._enter_module(node)
        inplace = name.endswith("_") and not name.endswith("__")
        result = self._apply_operator(node, name.rstrip("_") if inplace else name, args, kwargs, leaves)
        if inplace and isinstance(node.args[0], fx.Node):
            self.values[node.args[0]] = result
        return result

    def _apply_operator(
        self, node: fx.Node, name: str, args: list[Any], kwargs: dict[str, Any], leaves: list[Any]
    ) -> Any:
        """Call the import function of an operator on its arguments. If the operator is unsupported, record a
        problem."""
        try:
            if name == "embedding" and isinstance(args[0], Constant) and args[0].trained and is_plain_lookup(args[1]):
                return OPERATORS[name](self.builder, *args, like=self.first_input)
            if name in FILL_VALUES:
                value = node.meta["val"]
                return filled_constant(name, args, value.shape, value.dtype)
            if name in EXPANSIONS and isinstance(args[0], Constant) and args[0].trained and args[0].tensor.numel():
                return OPERATORS[name](self.builder, as_value(self.builder, args[0]), *args[1:], **kwargs)
            if name == "linear" and isinstance(args[0], Constant) and scalar_of(args[0]) == 0:
                return OPERATORS[name](
                    self.builder, as_value(self.builder, args[0]), *args[1:], **kwargs
                )  # an initial state
            if any(isinstance(leaf, Complex) for leaf in leaves):
                if name not in COMPLEX_OPERATORS:
                    return self._report_problem(node, "archir has no such operation for complex numbers")
                return self._check_result(node, COMPLEX_OPERATORS[name](self.builder, *args, **kwargs))
            if not any(isinstance(leaf, Value) for leaf in leaves):
                assert callable(node.target)
                return fold_call(name, node.target, args, kwargs)
            operator = OPERATORS.find(name)
            if operator is None:
                return self._report_problem(node, "archir has no such operation")
            return self._check_result(node, operator(self.builder, *args, **kwargs))
        except Unsupported as error:
            return self._report_problem(node, str(error))
        except ArchError:
            raise
        except Exception as error:  # arguments that the operator's function does not expect
            return self._report_problem(node, f"unsupported arguments ({type(error).__name__})")

    def _check_result(self, node: fx.Node, result: Any) -> Any:
        """Return the result of an import function, with the dtype that the result has in torch.

        Raises Unsupported if the shape differs from the shape in torch.
        """
        expected = node.meta.get("val")
        if not isinstance(result, Value) or not isinstance(expected, Tensor):
            return result
        if expected.is_floating_point() and result.dtype != "f32":
            result = replace(as_numeric(self.builder, result), dtype="f32")
        if result.shape != tuple(expected.shape):
            if len(result.axes) == expected.dim():
                pairs = zip(result.shape, expected.shape, strict=True)
                if all(size == expected_size or (size, expected_size) == (1, BATCH) for size, expected_size in pairs):
                    return result
            raise Unsupported(f"the shape {list(result.shape)} instead of torch's {list(expected.shape)}")
        return result

    def _enter_module(self, node: fx.Node) -> None:
        """Set the builder's current module to the one that a node belongs to."""
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        for path, kind in stack:
            path = re.sub(r"@\d+", "", path)
            self.classes.setdefault(scope_of(path), str(kind).rpartition(".")[2].rstrip("'>"))
        path, kind = stack[-1] if stack else ("", "")
        self.builder.module = re.sub(r"@\d+", "", path)
        self.builder.leaf = "torch.nn.modules" in str(kind) and "container" not in str(kind)

    def _report_problem(self, node: fx.Node, reason: str) -> Any:
        """Record why a node cannot be imported, and cut it out."""
        path = self.builder.module or type(self.module).__name__
        name = name_of(node)
        text = f"`{path}`: {name}: {reason}"
        self.problems.setdefault((path, text), Diagnostic("A3202", text))
        return self._cut_out(node)

    def _cut_out(self, node: fx.Node) -> Any:
        """Return the value to use for the results of a node that cannot be imported.

        If a part of the module may be imported, the results become inputs of the part, and the values that the node
        reads become outputs of the part. Otherwise the value is MISSING.
        """
        if not self.partial or node.op == "output":
            return MISSING
        for item in node.all_input_nodes:
            value = self.values.get(item)
            if isinstance(value, Value) and not isinstance(value.node, Constant) and item not in self._cut_nodes:
                self._add_part_output(item, value)
        example = node.meta.get("val")
        if isinstance(example, tuple | list):
            return [self._add_part_input(node, item, i) for i, item in enumerate(example)]
        return self._add_part_input(node, example, None)

    def _add_part_output(self, node: fx.Node, value: Value) -> None:
        """Make a value an output of the imported part."""
        label = valid_name(node.name)
        self._cut_nodes.add(node)
        if isinstance(self.builder.graph[value.node].op, Input):  # type: ignore[index]
            return
        with suppress(Unsupported):  # with samples folded into another axis, it cannot be an output
            self.builder.graph.outputs[label] = self.builder.node(self.builder.with_torch_base(value))
            self.part_outputs[label] = ((node, None), value)

    def _add_part_input(self, node: fx.Node, value: Any, index: int | None) -> Any:
        """Create an input of the imported part for a result of a cut-out node.

        Returns MISSING if the result cannot be an input.
        """
        dtype = DTYPES.get(value.dtype) if isinstance(value, Tensor) else None
        if dtype in (None, "bool") or not value.dim() or value.shape[0] != BATCH:
            return MISSING
        label = valid_name(node.name if index is None else f"{node.name}_{index}")
        number = self.builder.add(Input(label, tuple(value.shape[1:]), dtype), scope="")
        self.part_inputs[label] = (node, index)
        base = new_axes(value.shape[1:])
        return Value(number, base, ((self.builder.batch,), *base), dtype)
