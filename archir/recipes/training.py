"""Training settings of recipes and commands: optimizer, augmentation, and schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from archir.diagnostics.errors import fail
from archir.plugins.registry import Registry
from archir.utils.settings import (
    Amount,
    Count,
    ListAsTuple,
    NonNegative,
    Positive,
    Seed,
    Settings,
    SpanOf,
    no_span,
    parse_settings,
)

MAX_LR = 1000.0
"""Maximum learning rate."""
Momentum = Annotated[float, Field(ge=0, lt=1)]


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
    milestones: Annotated[tuple[NonNegative, ...], ListAsTuple] = ()
    gamma: Positive = 0.1


@dataclass(frozen=True)
class Augmentation:
    """Registered augmentation: its options class, and the function `apply(images, drawn, options)`.

    `drawn` are random numbers in [0, 1], `draws` per image: [n, draws].
    """

    options: type[Settings]
    apply: Callable[[Any, Any, Any], Any]
    draws: int


AUGMENTATIONS: Registry[str, Augmentation] = Registry("augmentation", "augmentations")
"""Augmentations of plugins by name; the built-in ones are the settings in `Augment`."""

Apply = TypeVar("Apply", bound=Callable[[Any, Any, Any], Any])


def augmentation(name: str, options: type[Settings] = Settings, *, draws: int = 0) -> Callable[[Apply], Apply]:
    """Return a decorator that registers a function `apply(images, drawn, options)` as an augmentation.

    `images` are the normalised images of a batch [n, C, H, W]; `drawn` are random numbers in [0, 1], [n, draws],
    and must be the only source of randomness. The function returns images of the same shape.
    """

    def register(apply: Apply) -> Apply:
        """Register `apply` under the name."""
        AUGMENTATIONS.register(name, Augmentation(options, apply, draws), apply)
        return apply

    return register


def find_augmentation(settings: Mapping[str, Any], span_of: SpanOf = no_span) -> tuple[Augmentation, Settings]:
    """Look up the augmentation that the setting `kind` names; return it and its parsed options. Raises ArchError
    (A2219, A1109)."""
    name = str(settings.get("kind", ""))
    kind = AUGMENTATIONS.find(name)
    if kind is None:
        raise fail("A2219", f"there is no augmentation `{name}`", span_of(("kind",)), AUGMENTATIONS.hint(name))
    options = {key: value for key, value in settings.items() if key != "kind"}
    return kind, parse_settings(kind.options, options, f"augmentation `{name}`: ", span_of)


class Augment(Settings):
    """Image augmentation of batches; 0 or false turns a setting off. Pixels from outside an image are 0, the mean
    colour."""

    shift: Amount = 0
    """Maximum random translation in pixels, vertical and horizontal (equals a random crop of the padded image)."""
    flip: bool = False
    """Flip each image horizontally with probability 0.5."""
    cutout: Amount = 0
    """Side length in pixels of the square that Cutout sets to 0 (DeVries and Taylor 2017)."""
    mixup: NonNegative = 0.0
    """Parameter alpha of mixup (Zhang et al. 2018)."""
    cutmix: NonNegative = 0.0
    """Parameter alpha of CutMix (Yun et al. 2019). If mixup is set as well, each batch uses one of the two, with
    equal probability."""
    also: Annotated[tuple[dict[str, Any], ...], ListAsTuple] = ()
    """Augmentations of plugins, each with its `kind` and options; they are applied before mixup and CutMix."""


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
