"""Settings of image augmentation: those that are built in, presets, and augmentations of plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from archir.diagnostics.errors import fail
from archir.plugins.registry import Registry
from archir.utils.settings import (
    Amount,
    ListAsTuple,
    NonNegative,
    Positive,
    Settings,
    SpanOf,
    no_span,
    parse_settings,
)

Share = Annotated[float, Field(gt=0, le=1)]
"""A share of an image's area."""


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


def _ordered(pair: tuple[float, float]) -> tuple[float, float]:
    if pair[0] > pair[1]:
        raise ValueError("it should be a range, from the smaller to the larger number")
    return pair


Shares = Annotated[tuple[Share, Share], ListAsTuple, AfterValidator(_ordered)]
Ratios = Annotated[tuple[Positive, Positive], ListAsTuple, AfterValidator(_ordered)]


class ResizedCrop(Settings):
    """Random crop of the original image, resized to the net's input (Szegedy et al. 2015; `RandomResizedCrop`).

    Ten crops are drawn at most; if none fits into the image, its centre is taken.
    """

    area: Shares = (0.08, 1.0)
    """Range of the crop's area, as a share of the image's area."""
    ratio: Ratios = (3 / 4, 4 / 3)
    """Range of width divided by height, on a logarithmic scale."""


class ColorJitter(Settings):
    """Random changes of colour, in random order. Factors are drawn from [max(0, 1 - x), 1 + x]."""

    brightness: NonNegative = 0.4
    contrast: NonNegative = 0.4
    saturation: NonNegative = 0.4
    hue: float = Field(default=0.0, ge=0, le=0.5)
    """Maximum rotation of the hue, as a share of the colour circle."""


class RandAugment(Settings):
    """RandAugment (Cubuk et al. 2020) with the 15 operations of timm's `rand-mM-mstdS-inc1`.

    Each of the operations is applied with probability 0.5.
    """

    count: Annotated[int, Field(ge=1, le=16)] = 2
    """Number of operations for each image."""
    magnitude: float = Field(default=9.0, ge=0, le=10)
    noise: NonNegative = 0.5
    """Standard deviation of the magnitude of an operation."""


class RandomErasing(Settings):
    """Random erasing of a rectangle (Zhong et al. 2020). Ten rectangles are drawn at most, until one fits."""

    probability: float = Field(default=0.25, ge=0, le=1)
    area: Shares = (0.02, 1 / 3)
    """Range of the rectangle's area, as a share of the image's area."""
    ratio: Ratios = (0.3, 10 / 3)
    """Range of height divided by width, on a logarithmic scale."""
    fill: Literal["noise", "mean"] = "noise"
    """Erased pixels: normal noise in units of the standard deviation of the data, or the mean colour."""


@dataclass(frozen=True)
class ShortForm:
    """Annotation of settings that a single value may stand for: adds these values to the settings' JSON Schema."""

    values: tuple[str | bool, ...]

    def __get_pydantic_json_schema__(self, core: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Return a JSON Schema that accepts the values and the settings."""
        return {"anyOf": [{"enum": list(self.values)}, handler(core)]}


def _switch(value: object) -> object:
    """Convert `true` to settings with default values, and `false` to None."""
    return {} if value is True else None if value is False else value


_S = TypeVar("_S")
Optional = Annotated[_S | None, BeforeValidator(_switch), ShortForm((True, False))]
"""Settings that `true` turns on with default values; None turns them off."""

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "cifar": {"shift": 4, "flip": True},
    "imagenet": {"crop": True, "flip": True},
    "deit": {
        "crop": True, "flip": True, "rand_augment": True, "erase": True, "mixup": 0.8, "cutmix": 1.0, "repeat": 3,
    },
}  # fmt: skip
"""Settings by the name of a preset."""


class Augment(Settings):
    """Image augmentation; 0, false or none turns a setting off. Pixels from outside an image are 0, the mean colour.

    The settings are applied in the order in which they are listed. A name in place of the settings is a preset:
    `augment = "deit"`. The same augmentations are drawn with any number of processes.
    """

    preset: Literal["cifar", "imagenet", "deit"] | None = None
    """Values of the settings that are not given.

    `cifar`: shift by 4, flip. `imagenet`: crop, flip. `deit`: crop, flip, RandAugment, random erasing, mixup 0.8,
    CutMix 1, three repetitions (Touvron et al. 2021, table 9).
    """
    repeat: Annotated[int, Field(ge=1, le=16)] = 1
    """Number of times that an image occurs in a batch, with different augmentation (Hoffer et al. 2020).

    An epoch has as many steps as without, and sees a part of the images.
    """
    crop: Optional[ResizedCrop] = None
    shift: Amount = 0
    """Maximum random translation in pixels, vertical and horizontal (equals a random crop of the padded image)."""
    flip: bool = False
    """Flip each image horizontally with probability 0.5."""
    jitter: Optional[ColorJitter] = None
    auto_augment: Literal["cifar10"] | None = None
    """AutoAugment's policy for CIFAR-10 (Cubuk et al. 2019, table 7)."""
    rand_augment: Optional[RandAugment] = None
    erase: Optional[RandomErasing] = None
    cutout: Amount = 0
    """Side length in pixels of the square that Cutout sets to 0 (DeVries and Taylor 2017)."""
    also: Annotated[tuple[dict[str, Any], ...], ListAsTuple] = ()
    """Augmentations of plugins, each with its `kind` and options."""
    mixup: NonNegative = 0.0
    """Parameter alpha of mixup (Zhang et al. 2018)."""
    cutmix: NonNegative = 0.0
    """Parameter alpha of CutMix (Yun et al. 2019). If mixup is set as well, each batch uses one of the two, with
    equal probability."""

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, value: Any) -> Any:
        """Add the values of the preset to the settings that are given."""
        settings = {"preset": value} if isinstance(value, str) else value
        preset = settings.get("preset") if isinstance(settings, Mapping) else None
        return {**PRESETS.get(preset, {}), **settings} if isinstance(preset, str) else settings

    @property
    def needs_pixels(self) -> bool:
        """True if colours are changed, which is defined for pixels only."""
        return bool(self.jitter or self.auto_augment or self.rand_augment)


AugmentSettings = Annotated[Augment, ShortForm(tuple(PRESETS))]
"""Settings of image augmentation, or the name of a preset."""
