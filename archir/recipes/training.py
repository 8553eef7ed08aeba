"""Training settings of recipes and commands: optimizer, augmentation and schedule."""

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
    """An optimizer and its learning-rate schedule; times are in epochs.

    The rate rises linearly to `lr` during `warmup_epochs`. After that, depending on `schedule`, it falls to `lr_min`
    along a cosine or a line, is multiplied by `gamma` at each of the `milestones`, or stays constant. With
    `schedule_by="epoch"`, it changes only between epochs.
    """

    kind: Literal["sgd", "adam", "adamw"] = "sgd"
    lr: float = Field(default=0.025, gt=0, le=MAX_LR)
    momentum: Momentum = 0.9
    nesterov: bool = False
    betas: Annotated[tuple[Momentum, Momentum], ListAsTuple] = (0.9, 0.999)
    weight_decay: NonNegative = 0.0
    decay_norms: bool = False
    """Apply weight decay to normalisation parameters, biases and other vectors, too."""
    clip: Positive | None = None
    """Maximum norm of the gradient of all parameters together."""
    schedule: Literal["cosine", "linear", "step", "constant"] = "cosine"
    schedule_by: Literal["step", "epoch"] = "step"
    lr_min: float = Field(default=0.0, ge=0, le=MAX_LR)
    warmup_epochs: NonNegative = 0.0
    milestones: Annotated[tuple[NonNegative, ...], ListAsTuple] = ()
    gamma: Positive = 0.1


@dataclass(frozen=True)
class Augmentation:
    """A registered augmentation: the type of its options, and the function `apply(images, drawn, options)`.

    `drawn` is [n, draws]: `draws` random numbers from 0 to 1 for each image.
    """

    options: type[Settings]
    apply: Callable[[Any, Any, Any], Any]
    draws: int


AUGMENTATIONS: Registry[str, Augmentation] = Registry("augmentation", "augmentations")
"""Augmentations of plugins, by name; archir's own are the settings of `Augment`."""

Apply = TypeVar("Apply", bound=Callable[[Any, Any, Any], Any])


def augmentation(name: str, options: type[Settings] = Settings, *, draws: int = 0) -> Callable[[Apply], Apply]:
    """Return a decorator that registers a function `apply(images, drawn, options)` as an augmentation.

    `images` are the normalised images of a batch, [n, C, H, W]; `drawn` are random numbers from 0 to 1, [n, draws], the
    only source of randomness. The function returns images of the same shape.
    """

    def register(apply: Apply) -> Apply:
        """Register `apply` under the name."""
        AUGMENTATIONS.register(name, Augmentation(options, apply, draws), apply)
        return apply

    return register


def find_augmentation(settings: Mapping[str, Any], span_of: SpanOf = no_span) -> tuple[Augmentation, Settings]:
    """Return the augmentation named by the `kind` of its settings, and its parsed options. Raises ArchError (A2219,
    A1109)."""
    name = str(settings.get("kind", ""))
    kind = AUGMENTATIONS.find(name)
    if kind is None:
        raise fail("A2219", f"there is no augmentation `{name}`", span_of(("kind",)), AUGMENTATIONS.hint(name))
    options = {key: value for key, value in settings.items() if key != "kind"}
    return kind, parse_settings(kind.options, options, f"augmentation `{name}`: ", span_of)


class Augment(Settings):
    """Augmentation of the images of a batch; 0 and false turn a setting off. Pixels from outside are zero, the mean
    colour."""

    shift: Amount = 0
    """Maximum shift of an image in pixels, vertically and horizontally: a random crop of the padded image."""
    flip: bool = False
    """Mirror half of the images horizontally."""
    cutout: Amount = 0
    """Side in pixels of the square that is set to zero (DeVries and Taylor 2017)."""
    mixup: NonNegative = 0.0
    """Parameter alpha of mixup (Zhang et al. 2018)."""
    cutmix: NonNegative = 0.0
    """Parameter alpha of CutMix (Yun et al. 2019). With mixup as well, each batch uses one of the two, with equal
    probability."""
    also: Annotated[tuple[dict[str, Any], ...], ListAsTuple] = ()
    """Augmentations of plugins, each with its `kind` and options; they are applied before mixup and CutMix."""


class Training(Settings):
    """Length of training, precision, and execution."""

    epochs: Count = 20
    batch: Count = 64
    """Number of samples in a step of one process."""
    accumulate: Count = 1
    """Number of chunks into which a process divides its batch; gradients are accumulated, to save memory."""
    precision: Literal["auto", "float32", "bf16", "fp16"] = "auto"
    """Precision of the arithmetic; `auto` is bf16 on GPUs that support it, and float32 elsewhere."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    drop_path: Literal["constant", "linear"] = "constant"
    """Schedule of drop-path rates; `linear` increases them, epoch by epoch, from 0 to the rates in the net."""
    ema: float | None = Field(default=None, gt=0, lt=1)
    """Decay per step of the exponential moving average of the weights, which is then evaluated instead of the
    weights."""
    norms: Literal["batch", "frozen"] = "batch"
    """Behaviour of batch norms in training; `frozen` keeps their running statistics unchanged."""
    sync_norms: bool = True
    """Compute the statistics of batch norms over the batches of all processes together."""
    sharding: Literal["none", "full"] = "none"
    """`full`: each process holds only its shard of weights, gradients and optimizer state (FSDP)."""
    cuda_graphs: bool = True
    """Record the network's part of a step as a CUDA graph and replay it, where possible."""
    compile: bool | Literal["auto"] = False
    """Run archir's own CPU kernels, which are compiled once per machine: norms, sums, depthwise convolutions.

    `auto`: only if a measured step is faster with them, and the time saved exceeds the time to compile them.
    """
    checkpoint_minutes: NonNegative | None = None
    """Interval in minutes of checkpoints within an epoch, in addition to one after each epoch."""
    seed: Seed = 0
