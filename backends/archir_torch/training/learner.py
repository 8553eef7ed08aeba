"""Learner: an optimizer with precision, gradient accumulation, clipping, schedule and moving average of the
weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from archir.diagnostics.errors import fail
from archir.recipes.training import Optimizer, Training
from archir_torch.lowering.precision import autocast, resolve_precision
from archir_torch.training import distributed
from archir_torch.training.checkpoint_state import State
from archir_torch.training.drop_path import DropPaths
from archir_torch.training.feed import Batch
from archir_torch.training.optimizer import build_optimizer, lr_factor
from archir_torch.training.tensors import full_tensor, is_sharded, local_shard, shard_like


class Update(NamedTuple):
    """Loss that was minimised, and gradient norm before clipping, as tensors that were not synchronised with the
    host."""

    loss: Tensor
    norm: Tensor


class Learner:
    """Trains only the parameters of a module, or only named tensors such as architecture parameters.

    `exclude` lists parameters of the module to leave out, because another learner trains them. All processes start
    with the tensors of the first process and average their gradients. An update depends on the step's index and on
    `state()`, which is the complete state of a learner. Raises ArchError (A1704) if no tensor requires gradients.
    """

    def __init__(
        self,
        target: nn.Module | Mapping[str, Tensor],
        settings: Optimizer,
        *,
        epochs: float,
        steps: int,
        precision: str = "float32",
        accumulate: int = 1,
        ema: float | None = None,
        exclude: Iterable[Tensor] = (),
    ) -> None:
        self._module = target if isinstance(target, nn.Module) else None
        named = target.named_parameters() if isinstance(target, nn.Module) else target.items()
        excluded = set(map(id, exclude))
        self.parameters = {name: p for name, p in named if p.requires_grad and id(p) not in excluded}
        if not self.parameters:
            raise fail("A1704", "there is nothing to train: no tensor requires gradients")
        self._buffers = dict(target.named_buffers()) if isinstance(target, nn.Module) else {}
        self._settings, self._epochs, self._steps, self._accumulate = settings, epochs, steps, accumulate
        first = next(iter(self.parameters.values()))
        self._device = first.device.type
        self._sharded = is_sharded(first)
        self._precision = precision = resolve_precision(precision, self._device)
        self._scaler = torch.amp.GradScaler(self._device, enabled=precision == "fp16")
        if not self._sharded:
            distributed.broadcast(self._weights().values())
        self.optimizer = build_optimizer(self.parameters.values(), settings)
        self._decay = ema
        averaged = {**self.parameters, **{n: b for n, b in self._buffers.items() if b.is_floating_point()}}
        self._averaged = averaged if ema is not None else {}
        self._ema = {name: tensor.detach().clone() for name, tensor in self._averaged.items()}

    def autocast(self) -> torch.autocast:
        """Return the autocast context for forward passes."""
        return autocast(self._precision, self._device)

    def update(
        self, loss: Tensor | Callable[..., Tensor] | Sequence[Callable[..., Tensor]], step: int,
        batch: Batch | None = None,
    ) -> Update:  # fmt: skip
        """Minimise a loss by one optimizer step.

        The loss is a tensor, a function without arguments, or a function of a batch. A function of a batch is called
        once for each part of the batch over which gradients are accumulated. If the loss is a sequence of functions,
        their sum is minimised; they are evaluated one after the other, so that the peak memory is that of a single
        function.
        """
        self.optimizer.zero_grad(set_to_none=True)
        if isinstance(loss, Tensor):
            total = self._backward(loss, 1.0)
        elif batch is None:
            assert callable(loss)
            with self.autocast():
                value = loss()
            total = self._backward(value, 1.0)
        else:
            losses = []
            for part in batch.parts(self._accumulate):
                for loss_function in [loss] if callable(loss) else loss:
                    with self.autocast():
                        value = loss_function(part)
                    losses.append(self._backward(value, part.weight))
            total = torch.stack(losses).sum() if len(losses) > 1 else losses[0]
        return Update(total, self.apply(step))

    def _backward(self, loss: Tensor, weight: float) -> Tensor:
        weighted = loss * weight if weight != 1 else loss
        inputs = None if self._sharded else list(self.parameters.values())
        self._scaler.scale(weighted).backward(inputs=inputs)
        return weighted.detach()

    def apply(self, step: int) -> Tensor:
        """Run the optimizer with the current gradients, and return their norm before clipping."""
        parameters = list(self.parameters.values())
        if not self._sharded:
            distributed.average(p.grad for p in parameters if p.grad is not None)
        self._scaler.unscale_(self.optimizer)
        norm = self._clip(parameters)
        rate = self.rate(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self._scaler.step(self.optimizer)
        self._scaler.update()
        if self._ema:
            self._update_average(step)
        return norm

    def _clip(self, parameters: list[Tensor]) -> Tensor:
        norm = full_tensor(nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]))
        if self._settings.clip is not None:
            nn.utils.clip_grads_with_norm_(parameters, self._settings.clip, norm)
        return norm

    def rate(self, step: int) -> float:
        """Return the learning rate at a step."""
        return self._settings.lr * lr_factor(self._settings, step / self._steps, self._epochs, 1 / self._steps)

    @torch.no_grad()
    def _update_average(self, step: int) -> None:
        """Update the moving average of the weights.

        The decay of the average is at most (1 + step) / (10 + step), so that the average adapts faster at the start.
        """
        assert self._decay is not None
        decay = min(self._decay, (1 + step) / (10 + step))
        averages, tensors = (list(map(local_shard, t.values())) for t in (self._ema, self._averaged))
        torch._foreach_lerp_(averages, tensors, 1 - decay)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Context manager for evaluation: gradients off, module in evaluation mode, moving averages of the weights if
        enabled.

        Running statistics of norms, and their moving averages, are averaged over processes. Raises ArchError (A1703) if
        parameters differ between processes.
        """
        statistics = [b for b in self._buffers.values() if b.is_floating_point()]
        distributed.average([*statistics, *(average for name, average in self._ema.items() if name in self._buffers)])
        if not self._sharded:
            distributed.check_same(self.parameters)
        training = self._module is not None and self._module.training
        self._swap_averages()
        if self._module is not None:
            self._module.eval()
        try:
            with torch.no_grad(), self.autocast():
                yield
        finally:
            self._swap_averages()
            if self._module is not None:
                self._module.train(training)

    @torch.no_grad()
    def _swap_averages(self) -> None:
        for name, average in self._ema.items():
            previous = self._averaged[name].clone()
            self._averaged[name].copy_(average)
            average.copy_(previous)

    def state(self) -> State:
        """Return the state from which another learner of the same parameters can continue. The tensors are not
        copied."""
        tensors = {f"weights/{name}": tensor for name, tensor in self._weights().items()}
        tensors |= {f"ema/{name}": tensor for name, tensor in self._ema.items()}
        for name, parameter in self.parameters.items():
            slots = self.optimizer.state.get(parameter, {})
            tensors |= {f"{slot}/{name}": value for slot, value in slots.items() if isinstance(value, Tensor)}
        detached = {name: tensor.detach() for name, tensor in tensors.items()}
        return State(detached, {"scaler": self._scaler.state_dict()})

    @torch.no_grad()
    def restore(self, state: State) -> None:
        """Continue from a saved state."""
        # sorted: the same order in all processes
        slot_names = sorted({name.split("/", 1)[0] for name in state.tensors} - {"weights", "ema"})
        for name, tensor in self._weights().items():
            tensor.copy_(shard_like(state.tensors[f"weights/{name}"], tensor))
        for name, tensor in self._ema.items():
            tensor.copy_(shard_like(state.tensors[f"ema/{name}"], tensor))
        names_by_parameter = {parameter: name for name, parameter in self.parameters.items()}
        ordered = [p for group in self.optimizer.param_groups for p in group["params"]]
        slots_by_parameter: dict[int, dict[str, Tensor]] = {}
        for number, parameter in enumerate(ordered):
            for slot in slot_names:
                stored = state.tensors.get(f"{slot}/{names_by_parameter[parameter]}")
                if stored is not None:
                    is_step_count = stored.dim() == 0  # the optimizer's step count is not sharded
                    slots_by_parameter.setdefault(number, {})[slot] = (
                        stored if is_step_count else shard_like(stored, parameter)
                    ).clone()
        self.optimizer.load_state_dict(
            {"state": slots_by_parameter, "param_groups": self.optimizer.state_dict()["param_groups"]}
        )
        if state.facts["scaler"]:
            self._scaler.load_state_dict(dict(state.facts["scaler"]))

    def _weights(self) -> dict[str, Tensor]:
        return dict(self._module.state_dict()) if self._module is not None else self.parameters


def can_replay(training: Training, paths: DropPaths) -> bool:
    """Return True if a GPU may replay the forward and backward pass of a step as a CUDA graph.

    Gradients must come from a single call, drop-path rates must be constant, and there must be only one process (see
    `GraphedNetwork`).
    """
    single_process = distributed.world().size == 1 and training.sharding == "none"
    constant_rates = training.drop_path == "constant" or not paths
    return training.cuda_graphs and single_process and constant_rates and training.accumulate == 1
