"""How something is trained: settings of recipes and commands, checked when they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from archir.diagnostics.errors import fail
from archir.plugins.registry import Registry
from archir.utils.settings import Amount, Count, Many, NonNegative, Positive, Seed, Settings, Where, nowhere, parsed

MOST_LR = 1000.0
Momentum = Annotated[float, Field(ge=0, lt=1)]


class Optimizer(Settings):
    """An optimizer and how its learning rate changes; times are in epochs.

    The rate rises to `lr` in `warmup_epochs`, and from there it falls to `lr_min` along a cosine or a line, is
    multiplied by `gamma` at each of the `milestones`, or stays. `schedule_by="epoch"` keeps it for a whole epoch.
    """

    kind: Literal["sgd", "adam", "adamw"] = "sgd"
    lr: float = Field(default=0.025, gt=0, le=MOST_LR)
    momentum: Momentum = 0.9
    nesterov: bool = False
    betas: Annotated[tuple[Momentum, Momentum], Many] = (0.9, 0.999)
    weight_decay: NonNegative = 0.0
    decay_norms: bool = False
    """Whether norms, biases and other vectors decay as well."""
    clip: Positive | None = None
    """The largest norm of all gradients together."""
    schedule: Literal["cosine", "linear", "step", "constant"] = "cosine"
    schedule_by: Literal["step", "epoch"] = "step"
    lr_min: float = Field(default=0.0, ge=0, le=MOST_LR)
    warmup_epochs: NonNegative = 0.0
    milestones: Annotated[tuple[NonNegative, ...], Many] = ()
    gamma: Positive = 0.1


@dataclass(frozen=True)
class Augmentation:
    """What the options of an augmentation are, and what it does to images: `apply(images, drawn, options)`, with as
    many numbers from 0 to 1 drawn for each image as it says."""

    options: type[Settings]
    apply: Callable[[Any, Any, Any], Any]
    draws: int


AUGMENTATIONS: Registry[str, Augmentation] = Registry("augmentation", "augmentations")
"""Those that somebody registered, by name; `Augment` has archir's own."""

Apply = TypeVar("Apply", bound=Callable[[Any, Any, Any], Any])


def augmentation(name: str, options: type[Settings] = Settings, *, draws: int = 0) -> Callable[[Apply], Apply]:
    """Register a function of normalised images [n, C, H, W] of a batch, of numbers [n, draws] from 0 to 1, on which all
    that is random depends, and of options; it gives other images of the same shape."""

    def register(apply: Apply) -> Apply:
        AUGMENTATIONS.register(name, Augmentation(options, apply, draws), apply)
        return apply

    return register


def registered(one: Mapping[str, Any], where: Where = nowhere) -> tuple[Augmentation, Settings]:
    """An augmentation by its `kind`, and its options. Raises ArchError (A2219, A1109)."""
    name = str(one.get("kind", ""))
    if name not in AUGMENTATIONS:
        raise fail("A2219", f"there is no augmentation `{name}`", where(("kind",)), AUGMENTATIONS.hint(name))
    kind = AUGMENTATIONS[name]
    given = {key: value for key, value in one.items() if key != "kind"}
    return kind, parsed(kind.options, given, f"augmentation `{name}`: ", where)


class Augment(Settings):
    """What is done to the images of a batch; 0 and false leave it out. Zeros, the mean colour, come in from outside."""

    shift: Amount = 0
    """Pixels by which an image is shifted at most, up or down and left or right: a crop of the padded image."""
    flip: bool = False
    """Half of the images are mirrored, left to right."""
    cutout: Amount = 0
    """Side in pixels of a square of zeros (DeVries and Taylor 2017)."""
    mixup: NonNegative = 0.0
    """The alpha of mixup (Zhang et al. 2018)."""
    cutmix: NonNegative = 0.0
    """The alpha of CutMix (Yun et al. 2019). With both, each batch has one of the two, drawn evenly."""
    also: Annotated[tuple[dict[str, Any], ...], Many] = ()
    """Augmentations that somebody registered, each with its `kind` and its options, before images are mixed."""


class Training(Settings):
    """How long and how something is trained."""

    epochs: Count = 20
    batch: Count = 64
    """Images in a step of one process."""
    accumulate: Count = 1
    """Parts in which a process takes its batch, one after the other, to save memory."""
    precision: Literal["auto", "float32", "bf16", "fp16"] = "auto"
    """`auto` is bf16 on a GPU that has it, and float32 elsewhere."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    drop_path: Literal["constant", "linear"] = "constant"
    """`linear`: the rates of `drop_path` grow from 0 to those of the net, epoch by epoch."""
    ema: float | None = Field(default=None, gt=0, lt=1)
    """How much of the moving average of the weights, which is what is evaluated, stays in a step."""
    norms: Literal["batch", "frozen"] = "batch"
    """What batch norms do in training: with `frozen`, they keep the statistics that they have."""
    sync_norms: bool = True
    """Whether the statistics of batch norms are those of the batches of all processes together."""
    sharding: Literal["none", "full"] = "none"
    """`full`: each process keeps its part of weights, gradients and optimizer (FSDP)."""
    cuda_graphs: bool = True
    """Whether a GPU records the network's part of a step once and replays it, where that is possible."""
    compile: bool | Literal["auto"] = False
    """Whether CPUs run kernels of archir's own, compiled once for a machine: norms, sums, depthwise convolutions.
    `auto`: where a measured step is faster with them, and what they save is worth compiling them."""
    checkpoint_minutes: NonNegative | None = None
    """Checkpoints are written after each epoch, and after so many minutes inside one."""
    seed: Seed = 0
