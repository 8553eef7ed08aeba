"""CUDA graphs for training steps: kernel launches are recorded once and then replayed, without the host's
overhead.

Kernels of small networks run for less time than the host takes to launch them. The forward and backward passes of a
network are recorded as separate CUDA graphs (`torch.cuda.make_graphed_callables`). Everything else in a step runs
eagerly: data, loss, clipping, optimizers.
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

CALLS_BEFORE_RECORDING = 5
"""Number of eager calls with the same key before the next such call is recorded as a CUDA graph.

Recording rarely pays off for calls that happen once per epoch.
"""
MAX_RECORDS = 4
"""Maximum number of CUDA graphs per network. Each graph keeps the memory of its own step allocated."""

RECORDING = threading.Lock()
"""Lock that is held while a CUDA graph is recorded, because other threads must not use the GPU in the meantime."""


class GraphedNetwork:
    """Function that runs a network by CUDA graph replay in training on a GPU, and eagerly otherwise.

    The caller passes `possible=True` if three conditions hold: the gradients of a call are computed before the next
    call; gradients are not accumulated over calls, because the next replay overwrites them; and weights are only
    changed in place.

    Call it as `network(*inputs)`, or for mixtures as `network(*inputs, weights={name: [n]}, active=...)` (see
    `MixedNetwork`).
    """

    def __init__(self, network: nn.Module, *, possible: bool = True) -> None:
        self.network, self.possible = network, possible
        self.refused = ""
        """Reason why recording failed, after which all calls are eager; empty if no recording failed."""
        self._call_counts: dict[Any, int] = {}
        self._records: dict[Any, Callable[..., Any]] = {}
        self._pool: Any = None

    def __call__(
        self,
        *inputs: Tensor,
        weights: Mapping[str, Tensor] | None = None,
        active: Mapping[str, Collection[int]] | None = None,
        still: bool = False,
    ) -> Any:
        """Return the network's outputs.

        With `still`, gradients are computed for the mixture weights only, not for the network's own weights.
        """
        call = _Call(self.network, len(inputs), tuple(weights) if weights is not None else None)
        tensors = (*inputs, *(weights or {}).values())
        if active is not None:
            return self.network(*inputs, weights=weights, active=active)
        if not self._can_replay(tensors, still):
            return call(*tensors)
        key = _call_key(tensors, call.names, still)
        if key not in self._records:
            self._call_counts[key] = self._call_counts.get(key, 0) + 1
            if self._call_counts[key] <= CALLS_BEFORE_RECORDING or len(self._records) >= MAX_RECORDS:
                return call(*tensors)
            self._record(key, call, tensors, still)
            if self.refused:
                return call(*tensors)
        return self._records[key](*tensors)

    def _can_replay(self, tensors: tuple[Tensor, ...], still: bool) -> bool:
        """Return True if this call may be replayed: in training mode, all tensors on a GPU, and some tensor requires
        gradients."""
        if not (self.possible and not self.refused and torch.is_grad_enabled() and self.network.training):
            return False
        if not all(tensor.is_cuda for tensor in tensors):
            return False
        has_gradients = not still and any(tensor.requires_grad for tensor in self.network.parameters())
        return has_gradients or any(tensor.requires_grad for tensor in tensors)

    def _record(self, key: Any, call: _Call, tensors: tuple[Tensor, ...], still: bool) -> None:
        """Record a call as a CUDA graph, or set `refused` if the call cannot be recorded.

        Buffers and the random state are restored afterwards.
        """
        samples = tuple(tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in tensors)
        buffers = list(self.network.buffers())
        saved = [tensor.clone() for tensor in buffers]
        device = tensors[0].device
        autocast = torch.autocast(
            "cuda", torch.get_autocast_dtype("cuda"), torch.is_autocast_enabled("cuda"), cache_enabled=False
        )
        with RECORDING, torch.random.fork_rng([device]), autocast, warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*(debug mode is a prototype|AccumulateGrad node's stream)")
            try:
                self.refused = _replay_problem(call, samples)
                if not self.refused:
                    self._pool = self._pool or torch.cuda.graph_pool_handle()  # records never run at the same time
                    self._records[key] = torch.cuda.make_graphed_callables(
                        call.forward if still else call, samples, allow_unused_input=True, pool=self._pool
                    )
            except RuntimeError as error:  # for example, out of memory
                self.refused = str(error).splitlines()[0]
        with torch.no_grad():
            for buffer, before in zip(buffers, saved, strict=True):
                buffer.copy_(before)


class _Call(nn.Module):
    """Call of a network with a flat list of tensors: the inputs, then the mixture weights."""

    def __init__(self, network: nn.Module, inputs: int, names: tuple[str, ...] | None) -> None:
        super().__init__()
        self.network, self.inputs, self.names = network, inputs, names
        self.training = network.training

    def forward(self, *tensors: Tensor) -> Any:
        """Return the network's outputs."""
        if self.names is None:
            return self.network(*tensors)
        weights = dict(zip(self.names, tensors[self.inputs :], strict=True))
        return self.network(*tensors[: self.inputs], weights=weights)


def _call_key(tensors: tuple[Tensor, ...], names: tuple[str, ...] | None, still: bool) -> Any:
    """Return a key that is equal for calls that one CUDA graph can replay.

    It consists of shapes, dtypes, strides, gradient requirements and precision.
    """
    properties = tuple((tensor.shape, tensor.dtype, tensor.stride(), tensor.requires_grad) for tensor in tensors)
    autocast_dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
    return properties, names, still, autocast_dtype, torch.backends.cudnn.allow_tf32


def _replay_problem(call: _Call, samples: tuple[Tensor, ...]) -> str:
    """Run the forward and backward pass once; return why a CUDA graph cannot replay them, or "" if it can."""
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with _HostReads() as detector:
            outputs = [tensor for tensor in tree_leaves(call(*samples)) if tensor.requires_grad]
            wanted = [tensor for tensor in (*samples, *call.parameters()) if tensor.requires_grad]
            torch.autograd.grad(outputs, wanted, [torch.ones_like(tensor) for tensor in outputs], allow_unused=True)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    finally:
        torch.cuda.set_sync_debug_mode(mode)
    return (
        f"`{detector.operations[0]}` reads a tensor on the CPU, which cannot be replayed" if detector.operations else ""
    )


def on_host(tensor: Tensor) -> bool:
    """Return True if a tensor is on the CPU."""
    return tensor.device.type == "cpu"


class _HostReads(TorchDispatchMode):
    """Dispatch mode that collects operations that read CPU tensors.

    Such operations cannot be part of a CUDA graph, because a replay would use the values at the time of recording.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(isinstance(leaf, Tensor) and on_host(leaf) for leaf in tree_leaves((args, kwargs))):
            self.operations.append(str(func._schema.name).removeprefix("aten::"))
        return func(*args, **(kwargs or {}))
