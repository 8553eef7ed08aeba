"""One optimizer and what belongs to it: precision, accumulation, clipping, schedule, moving average."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from archir.diagnostics.errors import fail
from archir.recipes.training import Optimizer, Training
from archir_torch.lowering.precision import autocast, chosen_precision
from archir_torch.training import distributed
from archir_torch.training.checkpoint_state import State
from archir_torch.training.drop_path import DropPaths
from archir_torch.training.feed import Batch
from archir_torch.training.optimizer import build, factor
from archir_torch.training.tensors import divided_like, is_divided, local, whole


class Update(NamedTuple):
    """The loss that was minimised, and the norm of its gradients before clipping; nobody has waited for them."""

    loss: Tensor
    norm: Tensor


class Learner:
    """Trains a module, or named tensors (architecture parameters, say), and only them; `without` are a module's
    parameters that somebody else trains. Raises ArchError (A1704) if there is nothing to train.

    All processes start with the tensors of the first one and average their gradients. What a learner does is a function
    of the step's index; `state()` is all it remembers.
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
        without: Iterable[Tensor] = (),
    ) -> None:
        self._module = target if isinstance(target, nn.Module) else None
        named = target.named_parameters() if isinstance(target, nn.Module) else target.items()
        others = set(map(id, without))
        self.parameters = {name: p for name, p in named if p.requires_grad and id(p) not in others}
        if not self.parameters:
            raise fail("A1704", "there is nothing to train: no tensor takes gradients")
        self._buffers = dict(target.named_buffers()) if isinstance(target, nn.Module) else {}
        self._settings, self._epochs, self._steps, self._accumulate = settings, epochs, steps, accumulate
        first = next(iter(self.parameters.values()))
        self._device = first.device.type
        self._sharded = is_divided(first)
        self._precision = precision = chosen_precision(precision, self._device)
        self._scaler = torch.amp.GradScaler(self._device, enabled=precision == "fp16")
        if not self._sharded:
            distributed.broadcast(self._weights().values())
        self.optimizer = build(self.parameters.values(), settings)
        self._decay = ema
        averaged = {**self.parameters, **{n: b for n, b in self._buffers.items() if b.is_floating_point()}}
        self._averaged = averaged if ema is not None else {}
        self._ema = {name: tensor.detach().clone() for name, tensor in self._averaged.items()}

    def autocast(self) -> torch.autocast:
        """The precision in which the network runs."""
        return autocast(self._precision, self._device)

    def update(
        self, loss: Tensor | Callable[..., Tensor] | Sequence[Callable[..., Tensor]], step: int,
        batch: Batch | None = None,
    ) -> Update:  # fmt: skip
        """Lower a loss: a tensor, a function without arguments, or one of a batch, which is called for its parts.

        Of several functions of a batch the sum is lowered; one after the other, so that memory is that of one.
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
                for one in [loss] if callable(loss) else loss:
                    with self.autocast():
                        value = one(part)
                    losses.append(self._backward(value, part.weight))
            total = torch.stack(losses).sum() if len(losses) > 1 else losses[0]
        return Update(total, self.apply(step))

    def _backward(self, loss: Tensor, weight: float) -> Tensor:
        weighted = loss * weight if weight != 1 else loss
        inputs = None if self._sharded else list(self.parameters.values())
        self._scaler.scale(weighted).backward(inputs=inputs)
        return weighted.detach()

    def apply(self, step: int) -> Tensor:
        """An update with the gradients that are there; their norm before they are clipped."""
        parameters = list(self.parameters.values())
        if not self._sharded:
            distributed.average(p.grad for p in parameters if p.grad is not None)
        self._scaler.unscale_(self.optimizer)
        norm = self._clipped(parameters)
        rate = self.rate(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self._scaler.step(self.optimizer)
        self._scaler.update()
        if self._ema:
            self._follow(step)
        return norm

    def _clipped(self, parameters: list[Tensor]) -> Tensor:
        clip = self._settings.clip if self._settings.clip is not None else float("inf")
        norm = whole(nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]))
        if self._settings.clip is not None:
            nn.utils.clip_grads_with_norm_(parameters, clip, norm)
        return norm

    def rate(self, step: int) -> float:
        """The learning rate of a step."""
        return self._settings.lr * factor(self._settings, step / self._steps, self._epochs, 1 / self._steps)

    @torch.no_grad()
    def _follow(self, step: int) -> None:
        """The average forgets faster at first, when there is little to average: by (1 + step) / (10 + step)."""
        assert self._decay is not None
        decay = min(self._decay, (1 + step) / (10 + step))
        averages, tensors = (list(map(local, t.values())) for t in (self._ema, self._averaged))
        torch._foreach_lerp_(averages, tensors, 1 - decay)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Evaluation: without gradients, the module in evaluation mode with the averaged weights, if they are kept.

        Processes agree on the statistics of norms, and ArchError (A1703) is raised if their parameters differ.
        """
        distributed.average(b for b in self._buffers.values() if b.is_floating_point())
        if not self._sharded:
            distributed.check_same(self.parameters)
        training = self._module is not None and self._module.training
        self._swap()
        if self._module is not None:
            self._module.eval()
        try:
            with torch.no_grad(), self.autocast():
                yield
        finally:
            self._swap()
            if self._module is not None:
                self._module.train(training)

    @torch.no_grad()
    def _swap(self) -> None:
        for name, average in self._ema.items():
            held = self._averaged[name].clone()
            self._averaged[name].copy_(average)
            average.copy_(held)

    def state(self) -> State:
        """Everything that another learner of the same target needs to go on. The tensors are not copies."""
        tensors = {f"weights/{name}": tensor for name, tensor in self._weights().items()}
        tensors |= {f"ema/{name}": tensor for name, tensor in self._ema.items()}
        for name, parameter in self.parameters.items():
            kept = self.optimizer.state.get(parameter, {})
            tensors |= {f"{what}/{name}": value for what, value in kept.items() if isinstance(value, Tensor)}
        detached = {name: tensor.detach() for name, tensor in tensors.items()}
        return State(detached, {"scaler": self._scaler.state_dict()})

    @torch.no_grad()
    def restore(self, state: State) -> None:
        """Go on from a state."""
        kept = sorted({name.split("/", 1)[0] for name in state.tensors} - {"weights", "ema"})  # alike in all processes
        for name, tensor in self._weights().items():
            tensor.copy_(divided_like(state.tensors[f"weights/{name}"], tensor))
        for name, tensor in self._ema.items():
            tensor.copy_(divided_like(state.tensors[f"ema/{name}"], tensor))
        places = {parameter: name for name, parameter in self.parameters.items()}
        ordered = [p for group in self.optimizer.param_groups for p in group["params"]]
        found: dict[int, dict[str, Tensor]] = {}
        for number, parameter in enumerate(ordered):
            for what in kept:
                held = state.tensors.get(f"{what}/{places[parameter]}")
                if held is not None:
                    count = held.dim() == 0  # of steps, which is not divided
                    found.setdefault(number, {})[what] = (held if count else divided_like(held, parameter)).clone()
        self.optimizer.load_state_dict({"state": found, "param_groups": self.optimizer.state_dict()["param_groups"]})
        if state.facts["scaler"]:
            self._scaler.load_state_dict(dict(state.facts["scaler"]))

    def _weights(self) -> dict[str, Tensor]:
        return dict(self._module.state_dict()) if self._module is not None else self.parameters


def replayable(training: Training, paths: DropPaths) -> bool:
    """Whether a GPU may replay the network's part of steps (see `Replayed`): gradients are those of one call, and no
    other process has to be waited for."""
    alone = distributed.world().size == 1 and training.sharding == "none"
    same = training.drop_path == "constant" or not paths
    return training.cuda_graphs and alone and same and training.accumulate == 1
