"""A GPU that is not there: tensors with numbers, which say that they are on `cuda:0` and behave as if they were.

What is computed is computed on the CPU, so that everything runs to its end and can be compared. What a GPU would refuse
is refused: operations of tensors on both sides, generators of the other side. What it would have to wait for is written
down, and so are computations whose precision under autocast is not what it should be.

`pytest --real-gpu` runs the same tests on a GPU that is there: it says by itself what it refuses and waits for.
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
"""What torch says of operations that the host must see the numbers of."""
_SIXTEEN = (torch.bfloat16, torch.float16)
_KEPT = {
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10",
    "log2", "log1p", "reciprocal", "rsqrt", "sinh", "tan", "pow", "__pow__",
    "softplus", "layer_norm", "group_norm", "norm", "linalg_vector_norm", "cosine_similarity",
    "nll_loss_nd", "cross_entropy_loss",
    "kl_div", "l1_loss", "smooth_l1_loss", "huber_loss", "mse_loss", "binary_cross_entropy_with_logits", "dist",
    "cdist",    "logsumexp", "prod", "softmax", "log_softmax", "cumprod", "cumsum", "sum",
}  # fmt: skip
"""What autocast computes in float32 on a GPU; on the CPU it leaves most of that in 16 bits."""
_PRODUCTS = {"convolution", "mm", "bmm", "addmm", "addmm_", "baddbmm"}
"""What autocast computes in 16 bits: in float32 it is slower than it need be."""
_DELICATE = {"_softmax", "_log_softmax", "exp", "log", "log1p", "linalg_vector_norm", "cumsum", "pow", "logsumexp"}
"""What loses too much in 16 bits."""


@dataclass
class Seen:
    """What a GPU would have met: a line for each, with where it comes from."""

    waits: list[str] = field(default_factory=list)
    narrow: list[str] = field(default_factory=list)
    """Delicate operations on 16 bits."""
    wide: list[str] = field(default_factory=list)
    """Products of matrices in float32 where autocast would have 16 bits."""
    replays: int = 0
    """Calls that were not made kernel by kernel."""


REAL = [False]
"""Whether there is one, which `--real-gpu` says."""
_SEEN: list[Seen] = []


def _say(what: str, name: str) -> None:
    for one in _SEEN:
        getattr(one, what).append(f"{name} {_place()}")


def _place() -> str:
    """The innermost line of the project that is being run."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name != __name__ and name.split(".")[0].startswith(_OURS):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return "torch"


_ASKED = [False]
"""Whether autocast was on when a function was called: below autocast itself torch says that it is off."""


class Away(Tensor):
    """A tensor that says that it is on the GPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> Away:
        made = Tensor._make_wrapper_subclass(
            cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
            layout=held.layout, device=HERE, requires_grad=False,
        )  # fmt: skip
        made.held = held
        return made

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
            _say("waits", "tolist")
            return args[0].held.tolist()
        if func in (Tensor.untyped_storage, Tensor.data_ptr):
            return getattr(args[0].held, func.__name__)()
        return super().__torch_function__(func, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        if name == "copy_":
            return _copied(func, args, kwargs)
        _together(name, tree_leaves((args, kwargs)))
        if _by_mask(name, args) if name.startswith(("index", "_index")) else _WAITING.intersection(func.tags):
            _say("waits", name)
        _precise(name, args)
        given, named = tree_map(_held, (args, kwargs))
        out = tree_map(_away, func(*given, **named))
        return return_and_correct_aliasing(func, args, kwargs, out)


def _held(one: Any) -> Any:
    return one.held if isinstance(one, Away) else one


def here(there: Tensor) -> Tensor:
    """The numbers of a tensor of the GPU, on the CPU."""
    if REAL[0]:
        assert there.device.type == "cuda", "the tensor never was on the GPU"
        return there.detach().cpu()
    assert isinstance(there, Away), "the tensor never was on the GPU"
    return there.held.detach()


def _away(one: Any) -> Any:
    return Away(one) if isinstance(one, Tensor) and not isinstance(one, Away) else one


def _copied(func: Any, args: Any, kwargs: Any) -> Tensor:
    """Numbers from one side to the other, or from one tensor to another."""
    to, source = args[:2]
    waits = not (args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
    if isinstance(to, Away) != isinstance(source, Away) and waits:
        _say("waits", "copy to the GPU" if isinstance(to, Away) else "copy to the CPU")
    func(_held(to), _held(source))
    return to  # type: ignore[no-any-return]


def _together(name: str, leaves: list[Any]) -> None:
    """All tensors are on the GPU, but for single numbers, and indices, which are copied."""
    for one in leaves:
        if isinstance(one, Tensor) and not isinstance(one, Away) and one.dim():
            if name.startswith(("index", "_index")) and not one.is_floating_point():
                _say("waits", f"{name} with indices of the CPU")
                continue
            text = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
            raise RuntimeError(f"{name}: {text}")


def _by_mask(name: str, args: Any) -> bool:
    """Whether numbers are picked by a mask: how many there are, only the numbers say."""
    if name not in ("index", "index_put", "index_put_", "_index_put_impl_"):
        return False
    return any(one is not None and one.dtype in (torch.bool, torch.uint8) for one in args[1])


def _precise(name: str, args: Any) -> None:
    types = {one.dtype for one in tree_leaves(args) if isinstance(one, Tensor)}
    if name in _PRODUCTS and torch.float32 in types and _ASKED[-1]:
        _say("wide", name)
    if name.split(".")[0] in _DELICATE and types.intersection(_SIXTEEN):
        _say("narrow", name)


class _Move(torch.autograd.Function):
    """From one side to the other."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, there: bool) -> Tensor:  # type: ignore[override]
        ctx.there = there
        return Away(x.detach().clone()) if there else x.held.detach().clone()  # type: ignore[attr-defined]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # type: ignore[override]
        return _Move.apply(gradient, not ctx.there), None


def _moved(x: Tensor, there: bool, non_blocking: bool) -> Tensor:
    if isinstance(x, Away) == there:
        return x
    if not non_blocking:
        _say("waits", "copy to the GPU" if there else "copy to the CPU")
    return _Move.apply(x, there)  # type: ignore[no-any-return, no-untyped-call]


class _Device(TorchFunctionMode):
    """What makes tensors on a device, or brings them there."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", "")
        _ASKED[-1] = torch.is_autocast_enabled("cpu")
        if name in _KEPT and _ASKED[-1]:
            args, kwargs = tree_map(_in_float32, (args, kwargs))
        if function is Tensor.to:
            return self._to(args, kwargs)
        if function is Tensor.cuda:
            return _moved(args[0], True, kwargs.get("non_blocking", False))
        if function is Tensor.cpu:
            return _moved(args[0], False, False)
        if function is Tensor.pin_memory:
            return args[0]
        if function is Tensor.is_pinned:
            return False
        if name == "one_hot" and isinstance(args[0], Away):  # these make tensors where torch believes that it is
            return (args[0][..., None] == Away(torch.arange(args[1]))).long()
        if name == "scaled_dot_product_attention" and kwargs.get("is_causal") and isinstance(args[0], Away):
            seen = torch.ones(args[0].shape[-2], args[1].shape[-2], dtype=torch.bool).tril()
            kwargs |= {"attn_mask": Away(seen), "is_causal": False}
        device, given = kwargs.get("device"), tree_leaves((args, kwargs))
        there = any(isinstance(one, Away) for one in given)
        away = there if device is None else torch.device(device).type == "cuda"
        if away and any(isinstance(one, torch.Generator) and one.device.type == "cpu" for one in given):
            raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
        if device is None:
            return function(*args, **kwargs)
        if name in ("tensor", "as_tensor", "asarray"):
            del kwargs["device"]
            return _moved(function(*args, **kwargs), away, False)
        made = function(*tree_map(_held, args), **{**kwargs, "device": HERE})
        return Away(made.detach()).requires_grad_(made.requires_grad) if away else made

    @staticmethod
    def _to(args: Any, kwargs: Any) -> Tensor:
        x, *rest = args
        if rest and isinstance(rest[0], Tensor):
            rest = [rest[0].device, rest[0].dtype, *rest[1:]]
        copy = kwargs.pop("copy", False)
        device, dtype, non_blocking, layout = torch._C._nn._parse_to(*rest, **kwargs)
        if device is not None:
            x = _moved(x, device.type == "cuda", non_blocking)
        more = {"memory_format": layout} if layout is not None else {}
        return Tensor.to(x, dtype if dtype is not None else x.dtype, copy=copy, **more)


def _in_float32(one: Any) -> Any:
    return one.float() if isinstance(one, Away) and one.dtype in _SIXTEEN else one


class _Event:
    """Something that has happened when it was waited for."""

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
    """Groups of tensors, those of the GPU apart; torch looks at them from a place where all are on the CPU."""
    found = _PLAIN_GROUPS(tensors, with_indices)
    there = any(isinstance(one, Away) for one in tree_leaves(tensors))
    return {(THERE if there else device, dtype): group for (device, dtype), group in found.items()}


_PLAIN_FORK = torch.random.fork_rng
_PLAIN_APPLY = nn.Module._apply


def _applied(self: nn.Module, function: Any, recurse: bool = True) -> nn.Module:
    """Parameters that are moved stay the objects that they are."""
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        return _PLAIN_APPLY(self, function, recurse)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


_PLAIN_AUTOCAST = torch.autocast.__init__


def _autocast(self: Any, device_type: str, *arguments: Any, **settings: Any) -> None:
    _PLAIN_AUTOCAST(self, "cpu" if device_type == "cuda" else device_type, *arguments, **settings)


def _graphed(target: Any, samples: Any, allow_unused_input: bool, pool: object) -> Any:
    """`torch.cuda.make_graphed_callables`: refuses what waits, and takes outputs away when the next call begins."""
    before: list[Tensor] = []
    kinds = [(one.shape, one.dtype, one.requires_grad) for one in samples]
    assert allow_unused_input
    assert pool

    def replay(*given: Tensor) -> Any:
        assert [(one.shape, one.dtype, one.requires_grad) for one in given] == kinds
        seen = _SEEN[-1]
        waits = len(seen.waits)
        with torch.no_grad():
            for one in before:  # torch says so if a gradient needs them still
                one.held.fill_(torch.nan)  # type: ignore[attr-defined]
        found = target(*given)
        before[:] = tree_leaves(found)
        assert seen.waits[waits:] == []
        seen.replays += 1
        return found

    return replay


@contextmanager
def gpu() -> Iterator[Seen]:
    """Inside, there is a GPU, `cuda:0`; what it meets is collected."""
    with _present() if REAL[0] else _imagined() as seen:
        yield seen


@contextmanager
def _present() -> Iterator[Seen]:
    """The GPU that is there. It computes in full precision, and torch warns of what waits for it."""
    seen, shown = Seen(), warnings.showwarning
    exact = torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic

    def show(message: Any, *rest: Any, **more: Any) -> None:
        if "synchroniz" in str(message):
            seen.waits.append(f"wait {_place()}")
        else:
            shown(message, *rest, **more)

    plain = replay.GraphedNetwork.__call__

    def counted(self: Any, *given: Any, **more: Any) -> Any:
        found = plain(self, *given, **more)
        seen.replays += bool(self._records)
        return found

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
def _imagined() -> Iterator[Seen]:
    seen, cuda = Seen(), {
        "is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0,
        "is_bf16_supported": lambda including_emulation=True: True, "Event": _Event,
        "get_device_name": lambda device=None: "a GPU that is not there",
        "synchronize": lambda device=None: _say("waits", "synchronize"),
        "make_graphed_callables": _graphed, "graph_pool_handle": lambda: (0, 1),
        "get_sync_debug_mode": lambda: 0, "set_sync_debug_mode": lambda mode: None,
    }  # fmt: skip
    others: list[tuple[Any, str, Any]] = [
        (torch.cuda.amp.common, "amp_definitely_not_available", bool),
        (torch.nn.utils.clip_grad, "_group_tensors_by_device_and_dtype", _groups),
        (optimizer, "_group_tensors_by_device_and_dtype", _groups),
        (torch.autocast, "__init__", _autocast),
        (torch.random, "fork_rng", lambda devices=(), **_: _PLAIN_FORK([])),
        (nn.Module, "_apply", _applied),
        (replay, "on_host", lambda one: bool(one.dim()) and not isinstance(one, Away)),  # torch fills in zeros here
    ]
    with ExitStack() as stack:
        for place, name, value in [*((torch.cuda, *one) for one in cuda.items()), *others]:
            stack.enter_context(mock.patch.object(place, name, value))
        stack.enter_context(_Device())
        _SEEN.append(seen)
        stack.callback(_SEEN.remove, seen)
        yield seen
