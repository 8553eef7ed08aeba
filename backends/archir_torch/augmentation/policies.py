"""Policies: which operations change an image, and how much, as drawn for each image of a batch.

A step of a policy applies at most one operation to each image: (name or None, level) by image.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from archir.recipes.augmentation import Augment, ColorJitter, RandAugment
from archir_torch.augmentation.operations import OPERATIONS


class Step(NamedTuple):
    """An operation for each image of a batch (None: the image stays), and its level."""

    names: Sequence[str | None]
    levels: Sequence[float]


class Entry(NamedTuple):
    """An operation of a policy: its level at the largest magnitude, and at magnitude 0; `signed` levels are negative
    for half of the images."""

    name: str
    start: float = 0.0
    end: float = 0.0
    signed: bool = False

    def level(self, share: float, sign: float) -> float:
        """Return the level at a share of the largest magnitude; `sign` is 1 or -1."""
        change = (self.end - self.start) * share
        return self.start + (change * sign if self.signed else change)


_TIMM = (
    Entry("autocontrast"),
    Entry("equalize"),
    Entry("invert"),
    Entry("rotate", 0, 30, True),
    Entry("posterize", 4, 0),
    Entry("solarize", 256, 0),
    Entry("solarize_add", 0, 110),
    Entry("color", 1, 1.9, True),
    Entry("contrast", 1, 1.9, True),
    Entry("brightness", 1, 1.9, True),
    Entry("sharpness", 1, 1.9, True),
    Entry("shear_x", 0, 0.3, True),
    Entry("shear_y", 0, 0.3, True),
    Entry("translate_x", 0, 0.45, True),
    Entry("translate_y", 0, 0.45, True),
)
"""Operations of timm's RandAugment with increasing severity (`inc1`)."""

_CIFAR_ENTRIES = {
    entry.name: entry
    for entry in (
        Entry("shear_x", 0, 0.3, True), Entry("shear_y", 0, 0.3, True), Entry("translate_x", 0, 150 / 331, True),
        Entry("translate_y", 0, 150 / 331, True), Entry("rotate", 0, 30, True), Entry("brightness", 1, 1.9, True),
        Entry("color", 1, 1.9, True), Entry("contrast", 1, 1.9, True), Entry("sharpness", 1, 1.9, True),
        Entry("posterize", 8, 4), Entry("solarize", 255, 0), Entry("autocontrast"), Entry("equalize"), Entry("invert"),
    )
}  # fmt: skip
_CIFAR_MAGNITUDES = 9
"""Largest magnitude of AutoAugment's policies."""

CIFAR10_POLICY: tuple[tuple[tuple[str, float, int], tuple[str, float, int]], ...] = (
    (("invert", 0.1, 0), ("contrast", 0.2, 6)),
    (("rotate", 0.7, 2), ("translate_x", 0.3, 9)),
    (("sharpness", 0.8, 1), ("sharpness", 0.9, 3)),
    (("shear_y", 0.5, 8), ("translate_y", 0.7, 9)),
    (("autocontrast", 0.5, 0), ("equalize", 0.9, 0)),
    (("shear_y", 0.2, 7), ("posterize", 0.3, 7)),
    (("color", 0.4, 3), ("brightness", 0.6, 7)),
    (("sharpness", 0.3, 9), ("brightness", 0.7, 9)),
    (("equalize", 0.6, 0), ("equalize", 0.5, 0)),
    (("contrast", 0.6, 7), ("sharpness", 0.6, 5)),
    (("color", 0.7, 7), ("translate_x", 0.5, 8)),
    (("equalize", 0.3, 0), ("autocontrast", 0.4, 0)),
    (("translate_y", 0.4, 3), ("sharpness", 0.2, 6)),
    (("brightness", 0.9, 6), ("color", 0.2, 8)),
    (("solarize", 0.5, 2), ("invert", 0.0, 0)),
    (("equalize", 0.2, 0), ("autocontrast", 0.6, 0)),
    (("equalize", 0.2, 0), ("equalize", 0.6, 0)),
    (("color", 0.9, 9), ("equalize", 0.6, 0)),
    (("autocontrast", 0.8, 0), ("solarize", 0.2, 8)),
    (("brightness", 0.1, 3), ("color", 0.7, 0)),
    (("solarize", 0.4, 5), ("autocontrast", 0.9, 0)),
    (("translate_y", 0.9, 9), ("translate_y", 0.7, 9)),
    (("autocontrast", 0.9, 0), ("solarize", 0.8, 3)),
    (("equalize", 0.8, 0), ("invert", 0.1, 0)),
    (("translate_y", 0.7, 9), ("autocontrast", 0.9, 0)),
)
"""Pairs of (operation, probability, magnitude from 0 to 9). Source: Cubuk et al. 2019, table 7."""


def draws_of(settings: Augment) -> int:
    """Return how many random numbers the policies need for an image."""
    jitter = 8 if settings.jitter else 0
    auto_augment = 5 if settings.auto_augment else 0
    return jitter + auto_augment + (4 * settings.rand_augment.count if settings.rand_augment else 0)


def apply_policies(images: Tensor, draws: Tensor, settings: Augment) -> Tensor:
    """Change images [n, C, H, W], whole numbers from 0 to 255, by the policies that are set.

    `draws` are random numbers in [0, 1), [n, draws_of(settings)], on the CPU.
    """
    for step in policy_steps(draws, settings):
        images = _apply(images, step)
    return images


def policy_steps(draws: Tensor, settings: Augment) -> Iterator[Step]:
    """Yield the steps of the policies that are set, as drawn."""
    if settings.jitter:
        yield from _jitter_steps(draws[:, :8], settings.jitter)
        draws = draws[:, 8:]
    if settings.auto_augment:
        yield from _auto_augment_steps(draws[:, :5])
        draws = draws[:, 5:]
    if settings.rand_augment:
        yield from _rand_augment_steps(draws, settings.rand_augment)


def _apply(images: Tensor, step: Step) -> Tensor:
    out = images.clone()
    for name in sorted({name for name in step.names if name is not None}):
        rows = [row for row, chosen in enumerate(step.names) if chosen == name]
        where = torch.tensor(rows).to(images.device, non_blocking=True)
        levels = torch.tensor([step.levels[row] for row in rows]).to(images.device, non_blocking=True)
        out[where] = OPERATIONS[name](images[where], levels)
    return out


def _jitter_steps(draws: Tensor, settings: ColorJitter) -> Iterator[Step]:
    """Yield four steps: the four changes, in an order that is drawn for each image."""
    names = ("brightness", "contrast", "color", "hue")
    spans = torch.tensor([settings.brightness, settings.contrast, settings.saturation])
    low = (1 - spans).clamp(min=0)
    factors = low + (1 + spans - low) * draws[:, :3]
    levels = torch.cat((factors, (2 * draws[:, 3:4] - 1) * settings.hue), 1)
    is_used = [*(spans > 0).tolist(), settings.hue > 0]
    for order in draws[:, 4:].argsort(1).T.tolist():
        yield Step(
            [names[which] if is_used[which] else None for which in order],
            [float(levels[row, which]) for row, which in enumerate(order)],
        )


def _auto_augment_steps(draws: Tensor) -> Iterator[Step]:
    """Yield two steps: those of one of the policy's pairs, drawn for each image."""
    rows = draws.tolist()
    pairs = [CIFAR10_POLICY[int(row[0] * len(CIFAR10_POLICY))] for row in rows]
    for position in (0, 1):
        names: list[str | None] = []
        levels: list[float] = []
        for row, pair in zip(rows, pairs, strict=True):
            name, probability, magnitude = pair[position]
            names.append(name if row[1 + 2 * position] < probability else None)
            level = _CIFAR_ENTRIES[name].level(magnitude / _CIFAR_MAGNITUDES, 1 if row[2 + 2 * position] < 0.5 else -1)
            levels.append(float(round(level)) if name == "posterize" else level)
        yield Step(names, levels)


def _rand_augment_steps(draws: Tensor, settings: RandAugment) -> Iterator[Step]:
    """Yield one step for each of the operations of an image."""
    for begin in range(0, 4 * settings.count, 4):
        which, applied, signs, noise = draws[:, begin : begin + 4].unbind(1)
        gaussian = torch.special.ndtri(noise.double().clamp(1e-9, 1 - 1e-9))
        shares = ((settings.magnitude + settings.noise * gaussian) / 10).clamp(0, 1).tolist()
        entries = [_TIMM[int(number * len(_TIMM))] for number in which.tolist()]
        names = [entry.name if used < 0.5 else None for entry, used in zip(entries, applied.tolist(), strict=True)]
        levels = [
            _rounded(entry, entry.level(share, 1 if sign < 0.5 else -1))
            for entry, share, sign in zip(entries, shares, signs.tolist(), strict=True)
        ]
        yield Step(names, levels)


def _rounded(entry: Entry, level: float) -> float:
    """Return the level as timm uses it: whole numbers of bits and of colours, and factors of at least 0.1."""
    if entry.name == "posterize":
        return 4.0 - int(4 - level)
    if entry.name == "solarize":
        return 256.0 - int(256 - level)
    if entry.name == "solarize_add":
        return float(int(level))
    return max(0.1, level) if entry.start == 1 else level
