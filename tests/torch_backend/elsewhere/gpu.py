"""A simulated GPU: tensors that claim to be on `cuda:0` and behave as if they were.

Computations run on the CPU, so that everything finishes and can be compared. Whatever a GPU would refuse is refused:
operations of tensors on both devices, generators of the other device. Whatever it would wait for is recorded, and so
are computations whose precision under autocast is not as it should be.

`pytest --real-gpu` runs the same tests on a real GPU, which reports by itself what it refuses and waits for.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.optim import optimizer
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

from archir_torch.lowering import replay

HERE, THERE = torch.device("cpu"), torch.device("cuda:0")
_OURS = ("archir", "test")

_WAITING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
"""Tags of operations for which the host must read the numbers."""
_SIXTEEN = (torch.bfloat16, torch.float16)
_IN_FLOAT32 = {
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10",
    "log2", "log1p", "reciprocal", "rsqrt", "sinh", "tan", "pow", "__pow__",
    "softplus", "layer_norm", "group_norm", "norm", "linalg_vector_norm", "cosine_similarity",
    "nll_loss_nd", "cross_entropy_loss",
    "kl_div", "l1_loss", "smooth_l1_loss", "huber_loss", "mse_loss", "binary_cross_entropy_with_logits", "dist",
    "cdist",    "logsumexp", "prod", "softmax", "log_softmax", "cumprod", "cumsum", "sum",
}  # fmt: skip
"""Functions that autocast computes in float32 on a GPU; on the CPU it leaves most of them in 16 bits."""
_PRODUCTS = {"convolution", "mm", "bmm", "addmm", "addmm_", "baddbmm"}
"""Operations that autocast computes in 16 bits; in float32 they are slower."""
_NEED_FLOAT32 = {"_softmax", "_log_softmax", "exp", "log", "log1p", "linalg_vector_norm", "cumsum", "pow", "logsumexp"}
"""Operations that lose too much precision in 16 bits."""


@dataclass
class GpuEvents:
    """Events on a GPU: a line for each, with its place in the code."""

    waits: list[str] = field(default_factory=list)
    narrow: list[str] = field(default_factory=list)
    """Operations in 16 bits that need more precision."""
    wide: list[str] = field(default_factory=list)
    """Matrix products in float32 under autocast."""
    replays: int = 0
    """Number of replayed calls, which are not launched kernel by kernel."""


REAL = [False]
"""True with `--real-gpu`."""
_EVENTS: list[GpuEvents] = []


def _record(what: str, name: str) -> None:
    for seen in _EVENTS:
        getattr(seen, what).append(f"{name} {_place()}")


def _place() -> str:
    """Return the innermost line of the project that is running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name != __name__ and name.split(".")[0].startswith(_OURS):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return "torch"


_AUTOCAST_ON = [False]
"""True if autocast was on when a function was called; below autocast itself torch reports that it is off."""


class GpuTensor(Tensor):
    """A tensor that claims to be on the GPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> GpuTensor:
        tensor = Tensor._make_wrapper_subclass(
            cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
            layout=held.layout, device=HERE, requires_grad=False,
        )  # fmt: skip
        tensor.held = held
        return tensor

    def __repr__(self, **_: Any) -> str:
        return f"Away({self.held!r})"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        match getattr(func, "__self__", None):
            case Tensor.device:
                return THERE
            case Tensor.is_cuda:
                return True
            case Tensor.is_cpu:
                return False
        if func is Tensor.get_device:
            return 0
        if func is Tensor.numpy:
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        if func is Tensor.tolist:
            _record("waits", "tolist")
            return args[0].held.tolist()
        if func in (Tensor.untyped_storage, Tensor.data_ptr):
            return getattr(args[0].held, func.__name__)()
        return super().__torch_function__(func, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        if name == "copy_":
            return _copy(func, args, kwargs)
        _check_devices(name, tree_leaves((args, kwargs)))
        if _selects_by_mask(name, args) if name.startswith(("index", "_index")) else _WAITING.intersection(func.tags):
            _record("waits", name)
        _check_precision(name, args)
        positional, named = tree_map(_to_cpu, (args, kwargs))
        out = tree_map(_to_gpu, func(*positional, **named))
        return return_and_correct_aliasing(func, args, kwargs, out)


def _to_cpu(value: Any) -> Any:
    return value.held if isinstance(value, GpuTensor) else value


def here(there: Tensor) -> Tensor:
    """Return the numbers of a GPU tensor, on the CPU."""
    if REAL[0]:
        assert there.device.type == "cuda", "the tensor never was on the GPU"
        return there.detach().cpu()
    assert isinstance(there, GpuTensor), "the tensor never was on the GPU"
    return there.held.detach()


def _to_gpu(value: Any) -> Any:
    return GpuTensor(value) if isinstance(value, Tensor) and not isinstance(value, GpuTensor) else value


def _copy(func: Any, args: Any, kwargs: Any) -> Tensor:
    """Copy numbers between devices or tensors."""
    to, source = args[:2]
    waits = not (args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
    if isinstance(to, GpuTensor) != isinstance(source, GpuTensor) and waits:
        _record("waits", "copy to the GPU" if isinstance(to, GpuTensor) else "copy to the CPU")
    func(_to_cpu(to), _to_cpu(source))
    return to  # type: ignore[no-any-return]


def _check_devices(name: str, leaves: list[Any]) -> None:
    """Raise RuntimeError for CPU tensors, except single numbers, and indices, which are copied."""
    for leaf in leaves:
        if isinstance(leaf, Tensor) and not isinstance(leaf, GpuTensor) and leaf.dim():
            if name.startswith(("index", "_index")) and not leaf.is_floating_point():
                _record("waits", f"{name} with indices of the CPU")
                continue
            text = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
            raise RuntimeError(f"{name}: {text}")


def _selects_by_mask(name: str, args: Any) -> bool:
    """True if elements are selected by a mask: only its values tell how many there are."""
    if name not in ("index", "index_put", "index_put_", "_index_put_impl_"):
        return False
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])


def _check_precision(name: str, args: Any) -> None:
    types = {leaf.dtype for leaf in tree_leaves(args) if isinstance(leaf, Tensor)}
    if name in _PRODUCTS and torch.float32 in types and _AUTOCAST_ON[-1]:
        _record("wide", name)
    if name.split(".")[0] in _NEED_FLOAT32 and types.intersection(_SIXTEEN):
        _record("narrow", name)


class _Move(torch.autograd.Function):
    """Copy between the devices, with gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, there: bool) -> Tensor:  # type: ignore[override]
        ctx.there = there
        return GpuTensor(x.detach().clone()) if there else x.held.detach().clone()  # type: ignore[attr-defined]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # type: ignore[override]
        return _Move.apply(gradient, not ctx.there), None


def _move(x: Tensor, there: bool, non_blocking: bool) -> Tensor:
    if isinstance(x, GpuTensor) == there:
        return x
    if not non_blocking:
        _record("waits", "copy to the GPU" if there else "copy to the CPU")
    return _Move.apply(x, there)  # type: ignore[no-any-return, no-untyped-call]


class _Device(TorchFunctionMode):
    """Function mode that creates tensors on a device, or moves them there."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", "")
        _AUTOCAST_ON[-1] = torch.is_autocast_enabled("cpu")
        if name in _IN_FLOAT32 and _AUTOCAST_ON[-1]:
            args, kwargs = tree_map(_in_float32, (args, kwargs))
        if function is Tensor.to:
            return self._to(args, kwargs)
        if function is Tensor.cuda:
            return _move(args[0], True, kwargs.get("non_blocking", False))
        if function is Tensor.cpu:
            return _move(args[0], False, False)
        if function is Tensor.pin_memory:
            return args[0]
        if function is Tensor.is_pinned:
            return False
        if name == "one_hot" and isinstance(args[0], GpuTensor):  # the original creates tensors on the wrong device
            return (args[0][..., None] == GpuTensor(torch.arange(args[1]))).long()
        if name == "scaled_dot_product_attention" and kwargs.get("is_causal") and isinstance(args[0], GpuTensor):
            seen = torch.ones(args[0].shape[-2], args[1].shape[-2], dtype=torch.bool).tril()
            kwargs |= {"attn_mask": GpuTensor(seen), "is_causal": False}
        device, leaves = kwargs.get("device"), tree_leaves((args, kwargs))
        there = any(isinstance(leaf, GpuTensor) for leaf in leaves)
        away = there if device is None else torch.device(device).type == "cuda"
        if away and any(isinstance(leaf, torch.Generator) and leaf.device.type == "cpu" for leaf in leaves):
            raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
        if device is None:
            return function(*args, **kwargs)
        if name in ("tensor", "as_tensor", "asarray"):
            del kwargs["device"]
            return _move(function(*args, **kwargs), away, False)
        created = function(*tree_map(_to_cpu, args), **{**kwargs, "device": HERE})
        return GpuTensor(created.detach()).requires_grad_(created.requires_grad) if away else created

    @staticmethod
    def _to(args: Any, kwargs: Any) -> Tensor:
        x, *options = args
        if options and isinstance(options[0], Tensor):
            options = [options[0].device, options[0].dtype, *options[1:]]
        copy = kwargs.pop("copy", False)
        device, dtype, non_blocking, layout = torch._C._nn._parse_to(*options, **kwargs)
        if device is not None:
            x = _move(x, device.type == "cuda", non_blocking)
        more = {"memory_format": layout} if layout is not None else {}
        return Tensor.to(x, dtype if dtype is not None else x.dtype, copy=copy, **more)


def _in_float32(value: Any) -> Any:
    return value.float() if isinstance(value, GpuTensor) and value.dtype in _SIXTEEN else value


class _Event:
    """An event that has happened once it is waited for."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def record(self, *_: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True


_PLAIN_GROUPS = torch.utils._foreach_utils._group_tensors_by_device_and_dtype


def _groups(tensors: Any, with_indices: bool = False) -> Any:
    """Group tensors by device and dtype, with those of the GPU separate; torch itself sees all of them on the CPU."""
    groups = _PLAIN_GROUPS(tensors, with_indices)
    there = any(isinstance(leaf, GpuTensor) for leaf in tree_leaves(tensors))
    return {(THERE if there else device, dtype): group for (device, dtype), group in groups.items()}


_PLAIN_FORK = torch.random.fork_rng
_PLAIN_APPLY = nn.Module._apply


def _apply_in_place(self: nn.Module, function: Any, recurse: bool = True) -> nn.Module:
    """Keep the identity of moved parameters."""
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        return _PLAIN_APPLY(self, function, recurse)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


_PLAIN_AUTOCAST = torch.autocast.__init__


def _autocast(self: Any, device_type: str, *arguments: Any, **settings: Any) -> None:
    _PLAIN_AUTOCAST(self, "cpu" if device_type == "cuda" else device_type, *arguments, **settings)


def _make_graphed(target: Any, samples: Any, allow_unused_input: bool, pool: object) -> Any:
    """`torch.cuda.make_graphed_callables`: refuses operations that wait, and invalidates outputs at the next call."""
    before: list[Tensor] = []
    kinds = [(tensor.shape, tensor.dtype, tensor.requires_grad) for tensor in samples]
    assert allow_unused_input
    assert pool

    def replay(*inputs: Tensor) -> Any:
        assert [(tensor.shape, tensor.dtype, tensor.requires_grad) for tensor in inputs] == kinds
        seen = _EVENTS[-1]
        waits = len(seen.waits)
        with torch.no_grad():
            for tensor in before:  # torch raises an error if a gradient still needs them
                tensor.held.fill_(torch.nan)  # type: ignore[attr-defined]
        outputs = target(*inputs)
        before[:] = tree_leaves(outputs)
        assert seen.waits[waits:] == []
        seen.replays += 1
        return outputs

    return replay


@contextmanager
def gpu() -> Iterator[GpuEvents]:
    """Context with a GPU `cuda:0`, whose events are recorded."""
    with _real() if REAL[0] else _simulated() as seen:
        yield seen


@contextmanager
def _real() -> Iterator[GpuEvents]:
    """Context with the real GPU, in full precision; torch warns of synchronisation."""
    seen, shown = GpuEvents(), warnings.showwarning
    exact = torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic

    def show(message: Any, *details: Any, **more: Any) -> None:
        if "synchroniz" in str(message):
            seen.waits.append(f"wait {_place()}")
        else:
            shown(message, *details, **more)

    plain = replay.GraphedNetwork.__call__

    def counted(self: Any, *inputs: Any, **more: Any) -> Any:
        outputs = plain(self, *inputs, **more)
        seen.replays += bool(self._records)
        return outputs

    patches = [
        mock.patch.object(warnings, "showwarning", show),
        mock.patch.object(replay.GraphedNetwork, "__call__", counted),
    ]
    with warnings.catch_warnings(), patches[0], patches[1]:
        warnings.filterwarnings("always", message=".*synchroniz.*")
        torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic = False, True
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield seen
        finally:
            torch.cuda.set_sync_debug_mode("default")
            torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic = exact


@contextmanager
def _simulated() -> Iterator[GpuEvents]:
    """Context with the simulated GPU."""
    seen, cuda = GpuEvents(), {
        "is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0,
        "is_bf16_supported": lambda including_emulation=True: True, "Event": _Event,
        "get_device_name": lambda device=None: "a simulated GPU",
        "synchronize": lambda device=None: _record("waits", "synchronize"),
        "make_graphed_callables": _make_graphed, "graph_pool_handle": lambda: (0, 1),
        "get_sync_debug_mode": lambda: 0, "set_sync_debug_mode": lambda mode: None,
    }  # fmt: skip
    others: list[tuple[Any, str, Any]] = [
        (torch.cuda.amp.common, "amp_definitely_not_available", bool),
        (torch.nn.utils.clip_grad, "_group_tensors_by_device_and_dtype", _groups),
        (optimizer, "_group_tensors_by_device_and_dtype", _groups),
        (torch.autocast, "__init__", _autocast),
        (torch.random, "fork_rng", lambda devices=(), **_: _PLAIN_FORK([])),
        (nn.Module, "_apply", _apply_in_place),
        (
            replay,
            "on_host",
            lambda tensor: bool(tensor.dim()) and not isinstance(tensor, GpuTensor),
        ),  # torch creates zeros on the CPU here
    ]
    with ExitStack() as stack:
        for target, name, value in [*((torch.cuda, *item) for item in cuda.items()), *others]:
            stack.enter_context(mock.patch.object(target, name, value))
        stack.enter_context(_Device())
        _EVENTS.append(seen)
        stack.callback(_EVENTS.remove, seen)
        yield seen
