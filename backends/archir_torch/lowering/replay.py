"""Steps that a GPU replays: what the host would start kernel by kernel is recorded once (CUDA graphs).

The kernels of small networks take less time than the host takes to start them. Forward and backward of a network are
recorded each by themselves (`torch.cuda.make_graphed_callables`); all else in a step stays as it is: data, loss,
clipping, optimizers.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

AFTER = 5
"""How often something is called before it is recorded: what is called once in an epoch seldom is worth it."""
MOST = 4
"""Kinds of calls that are recorded: each keeps the memory of its own step."""

RECORDING = threading.Lock()
"""Held while something is recorded: other threads must not ask the GPU for anything meanwhile."""


class Replayed:
    """A network as a function, recorded and replayed where a GPU trains it, and called as it is everywhere else.

    Whoever calls it makes sure that gradients of one call are taken before the next one, and that none of them are
    added up over calls: they lie where the next replay writes. Weights may change in place only. `possible` says that
    all this holds.

    `network(*inputs)`, or with mixtures `network(*inputs, weights={name: [n]}, active=...)`, see `MixedNetwork`.
    """

    def __init__(self, network: nn.Module, *, possible: bool = True) -> None:
        self.network, self.possible = network, possible
        self.refused = ""
        """Why something could not be recorded."""
        self._seen: dict[Any, int] = {}
        self._records: dict[Any, Callable[..., Any]] = {}
        self._pool: Any = None

    def __call__(
        self,
        *inputs: Tensor,
        weights: Mapping[str, Tensor] | None = None,
        active: Mapping[str, Collection[int]] | None = None,
        still: bool = False,
    ) -> Any:
        """The network's outputs. `still`: no gradients are taken of its own weights, but of those of mixtures."""
        call = _Call(self.network, len(inputs), tuple(weights) if weights is not None else None)
        given = (*inputs, *(weights or {}).values())
        if active is not None:
            return self.network(*inputs, weights=weights, active=active)
        if not self._worth(given, still):
            return call(*given)
        key = _kind(given, call.names, still)
        if key not in self._records:
            self._seen[key] = self._seen.get(key, 0) + 1
            if self._seen[key] <= AFTER or len(self._records) >= MOST:
                return call(*given)
            self._record(key, call, given, still)
            if self.refused:
                return call(*given)
        return self._records[key](*given)

    def _worth(self, given: tuple[Tensor, ...], still: bool) -> bool:
        if not (self.possible and not self.refused and torch.is_grad_enabled() and self.network.training):
            return False
        if not all(one.is_cuda for one in given):
            return False
        own = not still and any(one.requires_grad for one in self.network.parameters())
        return own or any(one.requires_grad for one in given)

    def _record(self, key: Any, call: _Call, given: tuple[Tensor, ...], still: bool) -> None:
        """Record a call, unless it does what cannot be replayed. The network and random numbers are as before."""
        samples = tuple(one.detach().clone().requires_grad_(one.requires_grad) for one in given)
        buffers = list(self.network.buffers())
        kept = [one.clone() for one in buffers]
        device = given[0].device
        precision = torch.autocast(
            "cuda", torch.get_autocast_dtype("cuda"), torch.is_autocast_enabled("cuda"), cache_enabled=False
        )
        with RECORDING, torch.random.fork_rng([device]), precision, warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*(debug mode is a prototype|AccumulateGrad node's stream)")
            try:
                self.refused = _unfit(call, samples)
                if not self.refused:
                    self._pool = self._pool or torch.cuda.graph_pool_handle()  # no two records are at work at once
                    self._records[key] = torch.cuda.make_graphed_callables(
                        call.forward if still else call, samples, allow_unused_input=True, pool=self._pool
                    )
            except RuntimeError as error:  # too little memory, say
                self.refused = str(error).splitlines()[0]
        with torch.no_grad():
            for buffer, before in zip(buffers, kept, strict=True):
                buffer.copy_(before)


class _Call(nn.Module):
    """The call of a network, with all tensors in a row: inputs, then weights of mixtures."""

    def __init__(self, network: nn.Module, inputs: int, names: tuple[str, ...] | None) -> None:
        super().__init__()
        self.network, self.inputs, self.names = network, inputs, names
        self.training = network.training

    def forward(self, *given: Tensor) -> Any:
        """The network's outputs."""
        if self.names is None:
            return self.network(*given)
        weights = dict(zip(self.names, given[self.inputs :], strict=True))
        return self.network(*given[: self.inputs], weights=weights)


def _kind(given: tuple[Tensor, ...], names: tuple[str, ...] | None, still: bool) -> Any:
    """What must be the same for a call to be a replay of another."""
    tensors = tuple((one.shape, one.dtype, one.stride(), one.requires_grad) for one in given)
    short = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
    return tensors, names, still, short, torch.backends.cudnn.allow_tf32


def _unfit(call: _Call, samples: tuple[Tensor, ...]) -> str:
    """Why a call cannot be replayed; nothing, if it can be. The call is made for it, with its gradients."""
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with _Outside() as outside:
            outputs = [one for one in tree_leaves(call(*samples)) if one.requires_grad]
            wanted = [one for one in (*samples, *call.parameters()) if one.requires_grad]
            torch.autograd.grad(outputs, wanted, [torch.ones_like(one) for one in outputs], allow_unused=True)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    finally:
        torch.cuda.set_sync_debug_mode(mode)
    return f"`{outside.found[0]}` reads what is on the CPU" if outside.found else ""


def on_host(tensor: Tensor) -> bool:
    """Whether a tensor is the CPU's."""
    return tensor.device.type == "cpu"


class _Outside(TorchDispatchMode):
    """Operations that read tensors of the CPU: a replay would read what was there when it was recorded."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(isinstance(one, Tensor) and on_host(one) for one in tree_leaves((args, kwargs))):
            self.found.append(str(func._schema.name).removeprefix("aten::"))
        return func(*args, **(kwargs or {}))
