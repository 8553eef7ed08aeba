"""Training settings of recipes and commands: optimizer and schedule."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from archir.utils.settings import (
    Count,
    ListAsTuple,
    NonNegative,
    Positive,
    Seed,
    Settings,
)

MAX_LR = 1000.0
"""Maximum learning rate."""
Momentum = Annotated[float, Field(ge=0, lt=1)]


def _ascending(times: tuple[float, ...]) -> tuple[float, ...]:
    if list(times) != sorted(times):
        raise ValueError("it should be in ascending order")
    return times


class Optimizer(Settings):
    """An optimizer and its learning-rate schedule. Times are in epochs.

    The rate rises linearly to `lr` during `warmup_epochs`. Afterwards, depending on `schedule`, the rate falls to
    `lr_min` along a cosine or a straight line, is multiplied by `gamma` at each of the `milestones`, or stays constant.
    With `schedule_by="epoch"`, the rate changes only between epochs.
    """

    kind: Literal["sgd", "adam", "adamw"] = "sgd"
    lr: float = Field(default=0.025, gt=0, le=MAX_LR)
    momentum: Momentum = 0.9
    nesterov: bool = False
    betas: Annotated[tuple[Momentum, Momentum], ListAsTuple] = (0.9, 0.999)
    weight_decay: NonNegative = 0.0
    decay_norms: bool = False
    """Also apply weight decay to normalisation parameters, biases and other vectors."""
    clip: Positive | None = None
    """Maximum L2 norm of the gradient over all parameters together; larger gradients are scaled down."""
    schedule: Literal["cosine", "linear", "step", "constant"] = "cosine"
    schedule_by: Literal["step", "epoch"] = "step"
    lr_min: float = Field(default=0.0, ge=0, le=MAX_LR)
    warmup_epochs: NonNegative = 0.0
    milestones: Annotated[tuple[NonNegative, ...], ListAsTuple, AfterValidator(_ascending)] = ()
    gamma: Positive = 0.1

    @model_validator(mode="after")
    def _require_possible(self) -> Optimizer:
        """Reject settings that fit no optimizer together."""
        if self.kind == "sgd" and self.nesterov and not self.momentum:
            raise ValueError("`nesterov` needs `momentum`: set it above 0, or remove `nesterov`")
        if self.lr_min > self.lr:
            raise ValueError(f"`lr_min` is {self.lr_min:g}: it should be at most `lr`, which is {self.lr:g}")
        return self


class AlphasOptimizer(Optimizer):
    """The optimizer of architecture parameters: by default Adam with a constant rate, as in DARTS (Liu et al. 2019)."""

    kind: Literal["sgd", "adam", "adamw"] = "adam"
    lr: float = Field(default=3e-4, gt=0, le=MAX_LR)
    betas: Annotated[tuple[Momentum, Momentum], ListAsTuple] = (0.5, 0.999)
    weight_decay: NonNegative = 1e-3
    schedule: Literal["cosine", "linear", "step", "constant"] = "constant"


class Training(Settings):
    """Training length, precision, and execution."""

    epochs: Count = 20
    batch: Count = 64
    """Number of samples per step and process."""
    accumulate: Count = 1
    """Number of micro-batches into which each process divides its batch, accumulating gradients to save memory."""
    precision: Literal["auto", "float32", "bf16", "fp16"] = "auto"
    """Arithmetic precision. `auto` is bf16 on GPUs that support it, otherwise float32."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    drop_path: Literal["constant", "linear"] = "constant"
    """Schedule of drop-path rates. `linear` increases them per epoch from 0 to the rates given in the net."""
    ema: float | None = Field(default=None, gt=0, lt=1)
    """Decay per step of the exponential moving average of the weights. If set, the average is evaluated in place of
    the weights."""
    norms: Literal["batch", "frozen"] = "batch"
    """Batch norms in training: `batch` normalises by the statistics of the batch; `frozen` keeps the running
    statistics unchanged."""
    sync_norms: bool = True
    """Compute batch-norm statistics across the batches of all processes."""
    sharding: Literal["none", "full"] = "none"
    """With `full`, each process holds only its shard of weights, gradients and optimizer state (FSDP)."""
    cuda_graphs: bool = True
    """Capture the network's part of a training step as a CUDA graph and replay it, where possible."""
    compile: bool | Literal["auto"] = False
    """Use archir's own CPU kernels for norms, sums and depthwise convolutions; they are compiled once per machine.

    `auto`: only if they make a measured training step faster, and the time saved exceeds the compile time.
    """
    checkpoint_minutes: NonNegative | None = None
    """Interval in minutes between checkpoints within an epoch, in addition to the one after each epoch."""
    seed: Seed = 0
