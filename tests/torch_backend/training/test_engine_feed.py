"""Batches are functions of their index; augmentation does what the papers' code does."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from archir.diagnostics.errors import ArchError
from archir.recipes.augmentation import (
    AUGMENTATIONS,
    Augment,
    Augmentation,
    ColorJitter,
    RandAugment,
    RandomErasing,
    ResizedCrop,
)
from archir.utils.seeds import derive_seed
from archir.utils.settings import Settings
from archir_torch.augmentation.augmenter import Augmenter
from archir_torch.augmentation.mixing import sample_mix
from archir_torch.data import Split
from archir_torch.data.split import Scale
from archir_torch.lowering.generators import seeded_generator
from archir_torch.training.feed import Batch, Feed

EVERYTHING = Augment(
    crop=ResizedCrop(area=(0.5, 1)), shift=2, flip=True, jitter=ColorJitter(hue=0.1), rand_augment=RandAugment(),
    auto_augment="cifar10", erase=RandomErasing(), cutout=3, mixup=0.4, cutmix=1.0, repeat=2,
)  # fmt: skip
SCALES = {"image": Scale((0.5, 0.5, 0.5), (0.2, 0.2, 0.2), "pixels")}


def numbered(count: int, size: int = 6) -> Split:
    """Images that are full of their own number, from 1, and labels that are its last digit."""
    numbers = torch.arange(1, count + 1)
    return Split.labelled(numbers.float()[:, None, None, None].expand(-1, 1, size, size).contiguous(), numbers % 10)


def noise(count: int, size: int = 8) -> Split:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(count, 3, size, size, generator=generator)
    return Split.labelled(images, torch.randint(0, 5, (count,), generator=generator))


def same(one: Batch, other: Batch) -> bool:
    targets = [t if t is not None else torch.empty(0) for t in (one.mixed, other.mixed)]
    return torch.equal(one.images, other.images) and torch.equal(one.labels, other.labels) and torch.equal(*targets)


@pytest.mark.parametrize(("count", "batch", "steps"), [(20, 5, 4), (23, 5, 5), (21, 5, 4), (3, 5, 1), (1, 5, 1)])
def test_an_epoch_covers_each_image_once(count: int, batch: int, steps: int) -> None:
    feed = Feed(numbered(count), batch, seed=1)
    assert feed.steps == steps
    orders = []
    for epoch in range(3):
        batches = [feed.batch(epoch * steps + i) for i in range(steps)]
        assert all(torch.equal(one.images[:, 0, 0, 0].long() % 10, one.labels) for one in batches)
        seen = [int(number) for one in batches for number in one.images[:, 0, 0, 0]]
        assert len(set(seen)) == len(seen) == (20 if count == 21 else count)  # one alone waits for another epoch
        orders.append(seen)
    assert count < 5 or orders[0] != orders[1] != orders[2]


def test_a_batch_is_a_function_of_its_index() -> None:
    one, other = (Feed(noise(50), 8, seed=3, augment=EVERYTHING, scales=SCALES) for _ in range(2))
    forwards = [one.batch(i) for i in range(20)]
    torch.manual_seed(7)
    assert all(same(other.batch(i), forwards[i]) for i in reversed(range(20)))
    assert not same(Feed(noise(50), 8, seed=4, augment=EVERYTHING, scales=SCALES).batch(0), forwards[0])


@pytest.mark.parametrize("augment", [Augment(), Augment(shift=1, flip=True), EVERYTHING])
@pytest.mark.parametrize("world", [2, 3])
def test_process_batches_join_to_full_batch(augment: Augment, world: int) -> None:
    split = noise(53)
    whole = Feed(split, 4 * world, seed=2, augment=augment, scales=SCALES)
    shares = [Feed(split, 4, seed=2, augment=augment, scales=SCALES, rank=rank, world=world) for rank in range(world)]
    steps = shares[0].steps
    assert steps in (whole.steps, whole.steps - 1)  # a last batch of fewer pairs than processes is left out
    for index in range(steps):
        batch, parts = whole.batch(index), [share.batch(index) for share in shares]
        joined = Batch.labelled(
            torch.cat([part.images for part in parts]),
            torch.cat([part.labels for part in parts]),
            torch.cat([part.mixed for part in parts]) if batch.mixed is not None else None,
        )
        assert same(batch, joined)
        assert [part.weight for part in parts] == pytest.approx([len(part) * world / len(batch) for part in parts])


def test_weighted_batch_parts_sum_to_full_batch() -> None:
    batch = Feed(noise(7), 7, seed=0, augment=EVERYTHING, scales=SCALES).batch(0)
    parts = list(batch.parts(3))
    assert [len(part) for part in parts] == [3, 2, 2]
    assert sum(float(part.images.mean()) * part.weight for part in parts) == pytest.approx(float(batch.images.mean()))
    assert len(list(batch.parts(20))) == 7
    assert next(batch.parts(1)) is batch


def test_rejects_fewer_images_than_processes() -> None:
    with pytest.raises(ArchError, match=r"A1701.*2 samples cannot be shared by 3 processes"):
        Feed(numbered(2), 4, seed=0, world=3)


def crop(image: Tensor, down: int, right: int, shift: int) -> Tensor:
    height, width = image.shape[1:]
    return F.pad(image, (shift,) * 4)[:, down : down + height, right : right + width]


@pytest.mark.parametrize("flip", [False, True])
def test_shifts_are_crops_of_the_padded_image(flip: bool) -> None:
    images, shift = noise(40, size=7).images, 3
    augmenter = Augmenter(Augment(shift=shift, flip=flip), 0)
    drawn = augmenter.draw(40, 0)
    found = augmenter.augment(images, drawn, 0)
    for image, made, numbers in zip(images, found, drawn.shift.tolist(), strict=True):
        wanted = crop(image, int(7 * numbers[0]), int(7 * numbers[1]), shift)
        assert torch.equal(made, wanted.flip(2) if flip and numbers[2] < 0.5 else wanted)


def cutout(image: Tensor, y: int, x: int, side: int) -> Tensor:
    """As DeVries and Taylor do."""
    height, width = image.shape[1:]
    mask = np.ones((height, width), np.float32)
    top, bottom = np.clip(y - side // 2, 0, height), np.clip(y + side // 2, 0, height)
    left, right = np.clip(x - side // 2, 0, width), np.clip(x + side // 2, 0, width)
    mask[top:bottom, left:right] = 0
    return image * torch.from_numpy(mask)


def test_cutout_equals_reference_implementation() -> None:
    images = noise(60, size=9).images
    augmenter = Augmenter(Augment(cutout=4), 0)
    drawn = augmenter.draw(60, 1)
    found = augmenter.augment(images, drawn, 1)
    for image, made, numbers in zip(images, found, drawn.shift.tolist(), strict=True):
        assert torch.equal(made, cutout(image, int(9 * numbers[3]), int(9 * numbers[4]), 4))
    assert len(set((found == 0).sum((1, 2, 3)).tolist())) > 1  # some holes lie partly outside


def test_odd_cutouts_have_odd_sides() -> None:
    augmenter = Augmenter(Augment(cutout=3), 0)
    found = augmenter.augment(torch.ones(200, 1, 9, 9), augmenter.draw(200, 0), 0)
    assert int((found == 0).sum((1, 2, 3)).max()) == 9


def swapped(rows: Tensor) -> Tensor:
    """Exchange neighbours: rows 0 and 1, 2 and 3, and so on."""
    return rows.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)


def test_mixup_interpolates_images_and_labels() -> None:
    split = noise(16)
    plain, mixed_ = Feed(split, 16, seed=5), Feed(split, 16, seed=5, augment=Augment(mixup=0.5), classes=7)
    shares = []
    for index in range(12):
        one, made = plain.batch(index), mixed_.batch(index)
        assert made.mixed is not None
        assert made.mixed.shape == (16, 7)
        mix = sample_mix(Augment(mixup=0.5), 8, 8, 5, index)
        assert mix is not None
        a, hot = mix.share, F.one_hot(one.labels, 7).float()
        torch.testing.assert_close(made.images, a * one.images + (1 - a) * swapped(one.images))
        torch.testing.assert_close(made.mixed, a * hot + (1 - a) * swapped(hot))
        shares.append(a)
    assert len(set(shares)) == 12


def test_cutmix_pastes_a_box_and_counts_its_pixels() -> None:
    split = numbered(10, size=10)
    plain, pasted = Feed(split, 10, seed=1), Feed(split, 10, seed=1, augment=Augment(cutmix=1.0))
    areas = set()
    for index in range(30):
        one, made = plain.batch(index), pasted.batch(index)
        other = (made.images != one.images)[:, 0]
        assert torch.equal(made.images[:, 0][other], swapped(one.images)[:, 0][other])
        rows, columns = other[0].any(1).sum(), other[0].any(0).sum()
        assert int(other[0].sum()) == int(rows * columns)
        assert (other == other[0]).all()
        assert made.mixed is not None
        share = 1 - float(other[0].float().mean())
        hot = F.one_hot(one.labels, 10).float()
        torch.testing.assert_close(made.mixed, share * hot + (1 - share) * swapped(hot))
        areas.add(int(other[0].sum()))
    assert len(areas) > 10
    assert np.mean(sorted(areas)) < 70


def box(rng: np.random.Generator, width: int, height: int) -> tuple[int, int, int, int, float]:
    """As Yun et al. do: the box, and the share of the first image, by its pixels."""
    share = rng.beta(1.0, 1.0)
    y, x = rng.integers(height), rng.integers(width)
    cut = np.sqrt(1.0 - share)
    wide, high = int(width * cut), int(height * cut)
    x1, x2 = np.clip(x - wide // 2, 0, width), np.clip(x + wide // 2, 0, width)
    y1, y2 = np.clip(y - high // 2, 0, height), np.clip(y + high // 2, 0, height)
    return y1, y2, x1, x2, 1 - ((x2 - x1) * (y2 - y1) / (width * height))


def test_cutmix_boxes_equal_reference_implementation() -> None:
    images, partners = torch.zeros(1, 1, 24, 32), torch.ones(1, 1, 24, 32)
    for index in range(100):
        mix = sample_mix(Augment(cutmix=1.0), 24, 32, 0, index)
        assert mix is not None
        top, bottom, left, right, share = box(np.random.default_rng(derive_seed(0, "mix", index)), 32, 24)
        wanted = torch.zeros(1, 1, 24, 32)
        wanted[:, :, top:bottom, left:right] = 1
        assert torch.equal(mix.images(images, partners), wanted)
        assert mix.share == pytest.approx(share)


def test_batch_uses_either_mixup_or_cutmix() -> None:
    both = Augment(mixup=1.0, cutmix=1.0)
    images, partners = torch.zeros(1, 1, 16, 16), torch.ones(1, 1, 16, 16)
    boxed = 0
    for index in range(200):
        mix = sample_mix(both, 16, 16, 0, index)
        assert mix is not None
        made = mix.images(images, partners)
        boxed += int(((made == 0) | (made == 1)).all())
        assert float(made.mean()) == pytest.approx(1 - mix.share, abs=1e-6)
    assert 70 < boxed < 130


@pytest.mark.parametrize("processes", [1, 2])
def test_plugin_augmentation_is_equal_for_any_process_count(processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever process an image is, and beside whatever else is done to it."""
    monkeypatch.setitem(AUGMENTATIONS, "dim", Augmentation(Settings, lambda x, drawn, _: x * drawn[..., None, None], 1))
    monkeypatch.setitem(AUGMENTATIONS, "more", Augmentation(Settings, lambda x, drawn, _: x + drawn.sum(), 0))
    plain, both = Augment(shift=1), Augment(shift=1, also=({"kind": "dim"}, {"kind": "more"}))
    whole = Feed(noise(8), 8, seed=3, augment=both).batch(1).images
    factors = torch.rand(8, 1, generator=seeded_generator(3, "augment", 0, 1))
    assert torch.equal(whole, Feed(noise(8), 8, seed=3, augment=plain).batch(1).images * factors[..., None, None])
    parts = [
        Feed(noise(8), 8 // processes, seed=3, augment=both, rank=rank, world=processes).batch(1).images
        for rank in range(processes)
    ]
    assert torch.equal(torch.cat(parts), whole)
