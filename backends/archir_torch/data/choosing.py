"""Which images of a source are used, and for what: functions of labels and seeds, the same on every machine."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor

from archir.base.errors import fail
from archir_torch.training.seeds import generator

HELD_OUT = 0.2
"""Part of the images that is held out where a source does not say which."""


def held_out(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Rows to train on and rows that are held out, of every class the same part, ascending.

    No seed has a say: what one run trains on or chooses by would be what another one is tested on.
    """
    drawn = torch.Generator().manual_seed(0)
    train, held = [], []
    for label in labels.unique():
        found = (labels == label).nonzero().flatten()
        found = found[torch.randperm(len(found), generator=drawn)]
        count = max(1, round(HELD_OUT * len(found))) if len(found) > 1 else 0
        held.append(found[:count])
        train.append(found[count:])
    return torch.cat(train).sort().values, torch.cat(held).sort().values


def stratified(labels: Tensor, count: int, seed: int, what: str) -> Tensor:
    """`count` rows, ascending: of every class the same part, up to one image. `what` for is part of the seed."""
    drawn = generator(seed, what)
    share, seen, taken, rows = Fraction(count, len(labels)), 0, 0, []
    for label in labels.unique():
        found = (labels == label).nonzero().flatten()
        seen += len(found)
        quota = int(share * seen + Fraction(1, 2)) - taken
        taken += quota
        rows.append(found[torch.randperm(len(found), generator=drawn)[:quota]])
    return torch.cat(rows).sort().values


def some_classes(names: tuple[str, ...], count: int, seed: int) -> Tensor:
    """The numbers of `count` of the classes, drawn by a seed, ascending. Raises ArchError (A1113)."""
    if not 2 <= count <= len(names):
        raise fail("A1113", f"{count} classes cannot be chosen of {len(names)}", None, "choose at least two")
    return torch.randperm(len(names), generator=generator(seed, "classes"))[:count].sort().values


def limited(labels: Tensor, limit: int | None, seed: int) -> Tensor:
    """All rows, or as many as the limit says, of every class the same part. Raises ArchError (A1113)."""
    if limit is not None and limit < 1:
        raise fail("A1113", f"at least one image is needed, not {limit}")
    if limit is None or limit >= len(labels):
        return torch.arange(len(labels))
    return stratified(labels, limit, seed, "limit")
