"""Augmentations against Pillow, torchvision and timm for the same drawn parameters."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from archir.data.readers.source import EncodedImages
from archir.data.resizing import CROP_DRAWS, Resizing, random_crop_boxes
from archir.recipes.augmentation import PRESETS, Augment, ColorJitter, RandAugment, RandomErasing, ResizedCrop
from archir_torch.augmentation.augmenter import Augmenter
from archir_torch.augmentation.crops import random_crops_of_targets, resize_boxes
from archir_torch.augmentation.erasing import ERASE_DRAWS, erase, erased_boxes
from archir_torch.augmentation.operations import FILL, OPERATIONS
from archir_torch.augmentation.policies import CIFAR10_POLICY, draws_of, policy_steps
from archir_torch.data import load
from archir_torch.training.feed import Feed, repeated_positions
from benchmarks.imports import importable

RNG = np.random.default_rng(0)
PICTURES = [RNG.integers(0, 256, (24, 31, 3), dtype=np.uint8) for _ in range(8)] + [
    RNG.normal(120, 20, (24, 31, 3)).clip(0, 255).astype(np.uint8) for _ in range(8)
]
IMAGES = torch.from_numpy(np.stack(PICTURES)).permute(0, 3, 1, 2).float()
FACTORS = torch.linspace(0.1, 1.9, 16)
AFFINE, BILINEAR = Image.Transform.AFFINE, Image.Resampling.BILINEAR
OUTSIDE: dict[str, Any] = {"resample": BILINEAR, "fillcolor": (int(FILL),) * 3}


def add_below_128(picture: Image.Image, level: float) -> Image.Image:
    return picture.point([min(255, i + int(level)) if i < 128 else i for i in range(256)] * 3)


PILLOW: dict[str, tuple[Callable[[Image.Image, float], Image.Image], Tensor]] = {
    "brightness": (lambda p, x: ImageEnhance.Brightness(p).enhance(x), FACTORS),
    "contrast": (lambda p, x: ImageEnhance.Contrast(p).enhance(x), FACTORS),
    "color": (lambda p, x: ImageEnhance.Color(p).enhance(x), FACTORS),
    "sharpness": (lambda p, x: ImageEnhance.Sharpness(p).enhance(x), FACTORS),
    "invert": (lambda p, x: ImageOps.invert(p), FACTORS),
    "autocontrast": (lambda p, x: ImageOps.autocontrast(p), FACTORS),
    "equalize": (lambda p, x: ImageOps.equalize(p), FACTORS),
    "posterize": (lambda p, x: ImageOps.posterize(p, int(x)), torch.arange(16) % 8 + 1.0),
    "solarize": (lambda p, x: ImageOps.solarize(p, int(x)), torch.arange(16) * 17.0),
    "solarize_add": (add_below_128, torch.arange(16) * 8.0),
    "shear_x": (lambda p, x: p.transform(p.size, AFFINE, (1, x, 0, 0, 1, 0), **OUTSIDE), torch.linspace(-0.3, 0.3, 16)),
    "shear_y": (lambda p, x: p.transform(p.size, AFFINE, (1, 0, 0, x, 1, 0), **OUTSIDE), torch.linspace(-0.3, 0.3, 16)),
    "translate_x": (
        lambda p, x: p.transform(p.size, AFFINE, (1, 0, x * p.width, 0, 1, 0), **OUTSIDE),
        torch.linspace(-0.45, 0.45, 16),
    ),
    "translate_y": (
        lambda p, x: p.transform(p.size, AFFINE, (1, 0, 0, 0, 1, x * p.height), **OUTSIDE),
        torch.linspace(-0.45, 0.45, 16),
    ),
    "rotate": (lambda p, x: p.rotate(x, **OUTSIDE), torch.linspace(-30, 30, 16)),
}


@pytest.mark.parametrize("name", sorted({*OPERATIONS} - {"hue"}))
def test_operation_equals_that_of_pillow(name: str) -> None:
    reference, levels = PILLOW[name]
    made = OPERATIONS[name](IMAGES, levels).permute(0, 2, 3, 1).numpy()
    wanted = [np.asarray(reference(Image.fromarray(p), float(x)), float) for p, x in zip(PICTURES, levels, strict=True)]
    assert np.abs(made - np.stack(wanted)).max() <= 1


def test_hue_equals_that_of_torchvision() -> None:
    functional = torchvision_functional()
    levels = torch.linspace(-0.5, 0.5, 16)
    made = OPERATIONS["hue"](IMAGES, levels)
    wanted = [functional.adjust_hue(x / 255, float(level)) * 255 for x, level in zip(IMAGES, levels, strict=True)]
    assert float((made - torch.stack(wanted)).abs().max()) <= 0.51


def test_operations_leave_gray_images_gray() -> None:
    gray = IMAGES[:, :1]
    for name, (_, levels) in PILLOW.items():
        assert OPERATIONS[name](gray, levels).shape == gray.shape
    assert torch.equal(OPERATIONS["color"](gray, FACTORS), gray)


def torchvision_functional() -> Any:
    """Return torchvision's operations on tensors; skip the test if torchvision or timm is not installed."""
    for library in ("torchvision", "timm"):
        if find_spec(library) is None:
            pytest.skip(f"{library} is not installed")
    importable()
    from torchvision.transforms import _functional_tensor

    return _functional_tensor


# crops


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_box_resized_by_matrices_equals_interpolated_box(interpolation: Any) -> None:
    boxes = random_crop_boxes([24] * 16, [31] * 16, RNG.random((16, CROP_DRAWS)), (0.02, 1), (0.3, 3))
    made = resize_boxes(IMAGES, torch.from_numpy(boxes), (13, 40), interpolation)
    for image, found, (top, left, rows, columns) in zip(IMAGES, made, boxes.tolist(), strict=True):
        part = image[None, :, top : top + rows, left : left + columns]
        wanted = F.interpolate(part, (13, 40), mode=interpolation, antialias=True, align_corners=False)[0]
        torch.testing.assert_close(found, wanted, rtol=0, atol=2e-3)


def torchvision_box(height: int, width: int, draws: Sequence[float], area: Any, ratio: Any) -> tuple[int, ...]:
    """`RandomResizedCrop.get_params` with the given random numbers."""
    position = draws[-2:]
    for attempt in range(10):
        target = height * width * (area[0] + (area[1] - area[0]) * draws[2 * attempt])
        low, high = np.log(ratio)
        aspect = np.exp(low + (high - low) * draws[2 * attempt + 1])
        w, h = round(np.sqrt(target * aspect)), round(np.sqrt(target / aspect))
        if 0 < w <= width and 0 < h <= height:
            return int(position[0] * (height - h + 1)), int(position[1] * (width - w + 1)), h, w
    if width / height < ratio[0]:
        w, h = width, round(width / ratio[0])
    elif width / height > ratio[1]:
        w, h = round(height * ratio[1]), height
    else:
        w, h = width, height
    return (height - h) // 2, (width - w) // 2, h, w


def test_crop_boxes_equal_those_of_torchvision() -> None:
    heights, widths = RNG.integers(3, 500, 400).tolist(), RNG.integers(3, 500, 400).tolist()
    draws = RNG.random((400, CROP_DRAWS))
    made = random_crop_boxes(heights, widths, draws, (0.08, 1), (3 / 4, 4 / 3)).tolist()
    wanted = [
        torchvision_box(h, w, row, (0.08, 1), (3 / 4, 4 / 3)) for h, w, row in zip(heights, widths, draws, strict=True)
    ]
    assert [tuple(box) for box in made] == wanted
    assert any(box[2] == h or box[3] == w for box, h, w in zip(made, heights, widths, strict=True))  # centres, too


def encoded(*pictures: NDArray[np.uint8], size: tuple[int, int, int], resizing: Resizing) -> EncodedImages:
    files = []
    for picture in pictures:
        buffer = io.BytesIO()
        Image.fromarray(picture).save(buffer, "PNG")
        files.append(buffer.getvalue())
    return EncodedImages(lambda row: (f"{row}.png", files[row]), len(files), size, resizing)


def test_evaluation_crops_the_centre_of_an_image_of_400_by_200() -> None:
    picture = np.zeros((200, 400, 3), np.uint8)
    picture[:, :100] = 255
    for share in (1.0, 0.875):
        (made,) = encoded(picture, size=(3, 224, 224), resizing=Resizing(share))[np.array([0])]
        assert (made < 127).all()


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("shape", [(200, 400), (333, 250), (224, 224), (61, 47)])
def test_centre_crop_equals_resize_and_crop_of_torchvision(shape: tuple[int, int], interpolation: Any) -> None:
    picture = RNG.integers(0, 256, (*shape, 3), dtype=np.uint8)
    (made,) = encoded(picture, size=(3, 224, 224), resizing=Resizing(0.875, interpolation))[np.array([0])]
    short, long = sorted(shape)
    longer = int(256 * long / short)
    height, width = (256, longer) if shape[0] <= shape[1] else (longer, 256)
    whole = Image.fromarray(picture).resize((width, height), Image.Resampling[interpolation.upper()])
    top, left = round((height - 224) / 2), round((width - 224) / 2)
    assert np.array_equal(made.transpose(1, 2, 0), np.asarray(whole)[top : top + 224, left : left + 224])


def test_random_crops_of_files_are_crops_of_the_original_images(tmp_path: Path) -> None:
    for label in (0, 1):
        for number in range(4):
            (tmp_path / f"c{label}").mkdir(exist_ok=True)
            Image.fromarray(RNG.integers(0, 256, (90, 120, 3), dtype=np.uint8)).save(
                tmp_path / f"c{label}" / f"{number}.png"
            )
    data = load(tmp_path, (3, 16, 16), keep_files=True)
    settings = Augment(crop=ResizedCrop(area=(0.1, 0.2)))
    feed = Feed(data.train, 4, seed=1, augment=settings)
    draws = Augmenter(settings, 1).draw(4, 0).crop.double().numpy()
    rows = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(0))
    assert rows.numel() == len(data.train)
    batch = feed.batch(0)
    boxes = random_crop_boxes([90] * 4, [120] * 4, draws, (0.1, 0.2), (3 / 4, 4 / 3)).tolist()
    files = sorted(tmp_path.rglob("*.png"))
    for image, (top, left, height, width) in zip(batch.images, boxes, strict=True):
        candidates = []
        for file in files:
            part = Image.open(file).crop((left, top, left + width, top + height)).resize((16, 16), BILINEAR)
            pixels = torch.from_numpy(np.asarray(part).copy()).permute(2, 0, 1) / 255
            mean, std = (torch.tensor(x)[:, None, None] for x in (data.mean, data.std))
            candidates.append(float((image - (pixels - mean) / std).abs().max()))
        assert min(candidates) < 1e-5


def test_targets_of_pixels_are_cropped_like_their_images() -> None:
    images = torch.arange(9 * 9.0).reshape(1, 1, 9, 9).expand(20, 1, 9, 9).contiguous()
    draws = torch.rand(20, CROP_DRAWS, generator=torch.Generator().manual_seed(0))
    made = random_crops_of_targets(images[:, 0].long(), draws, ResizedCrop(area=(0.2, 1)))
    boxes = random_crop_boxes([9] * 20, [9] * 20, draws.double().numpy(), (0.2, 1), (3 / 4, 4 / 3)).tolist()
    for target, image, (top, left, height, width) in zip(made, images, boxes, strict=True):
        part = image[None, :, top : top + height, left : left + width]
        assert torch.equal(target, F.interpolate(part, (9, 9), mode="nearest-exact")[0, 0].long())


# policies


def test_policy_for_cifar10_equals_that_of_torchvision() -> None:
    torchvision_functional()
    from torchvision.transforms import AutoAugment, AutoAugmentPolicy

    theirs = AutoAugment(AutoAugmentPolicy.CIFAR10)
    names = {
        "ShearX": "shear_x", "ShearY": "shear_y", "TranslateX": "translate_x", "TranslateY": "translate_y",
        **{name: name.lower() for name in
           ("Rotate", "Brightness", "Color", "Contrast", "Sharpness", "Posterize", "Solarize", "Equalize", "Invert")},
        "AutoContrast": "autocontrast",
    }  # fmt: skip
    wanted = tuple(tuple((names[n], p, m or 0) for n, p, m in pair) for pair in theirs.policies)
    assert wanted == CIFAR10_POLICY
    magnitudes = theirs._augmentation_space(10, (331, 331))
    settings = Augment(auto_augment="cifar10")
    draws = torch.zeros(len(CIFAR10_POLICY), draws_of(settings))
    draws[:, 0] = (torch.arange(len(CIFAR10_POLICY)) + 0.5) / len(CIFAR10_POLICY)
    for position, step in enumerate(policy_steps(draws, settings)):
        for name, level, pair in zip(step.names, step.levels, theirs.policies, strict=True):
            theirs_name, probability, magnitude = pair[position]
            assert name == (names[theirs_name] if probability else None)
            if magnitude is None or name is None:
                continue
            value = float(magnitudes[theirs_name][0][magnitude])
            value = 1 + value if name in ("brightness", "color", "contrast", "sharpness") else value
            value = value / 331 if name.startswith("translate") else value
            assert level == pytest.approx(value, rel=1e-6)


def test_rand_augment_has_operations_and_levels_of_timm() -> None:
    torchvision_functional()
    from timm.data import auto_augment as timm

    random.seed(0)
    hparams = {"translate_const": 100}
    settings = Augment(rand_augment=RandAugment(count=1, magnitude=9, noise=0))
    draws = torch.zeros(30, draws_of(settings))
    draws[:, 0] = (torch.arange(30) // 2 + 0.5) / 15
    draws[:, 2] = torch.arange(30) % 2 * 0.9
    (step,) = policy_steps(draws, settings)
    names = dict(zip(timm._RAND_INCREASING_TRANSFORMS, [name for name in step.names[::2] if name], strict=True))
    assert names["TranslateYRel"] == "translate_y"
    assert names["SolarizeAdd"] == "solarize_add"
    for theirs, name in names.items():
        ours = {abs(level) for level, used in zip(step.levels, step.names, strict=True) if used == name}
        convert = timm.LEVEL_TO_ARG[theirs]
        if convert is None:
            continue
        wanted = {abs(float(convert(9.0, hparams)[0])) for _ in range(40)}
        assert sorted(ours) == pytest.approx(sorted(wanted)), theirs


def test_half_of_the_operations_of_rand_augment_are_applied() -> None:
    settings = Augment(rand_augment=RandAugment())
    draws = torch.rand(2_000, draws_of(settings), generator=torch.Generator().manual_seed(0))
    steps = list(policy_steps(draws, settings))
    assert len(steps) == 2
    for step in steps:
        assert sum(name is not None for name in step.names) == pytest.approx(1_000, abs=80)
        assert len({*step.names}) == 16


def test_jitter_changes_each_property_once_in_random_order() -> None:
    settings = Augment(jitter=ColorJitter(hue=0.1, saturation=0))
    draws = torch.rand(500, draws_of(settings), generator=torch.Generator().manual_seed(0))
    steps = list(policy_steps(draws, settings))
    orders = list(zip(*(step.names for step in steps), strict=True))
    assert {tuple(sorted(map(str, order))) for order in orders} == {("None", "brightness", "contrast", "hue")}
    assert len({*orders}) == 24
    levels = {"brightness": (0.6, 1.4), "contrast": (0.6, 1.4), "hue": (-0.1, 0.1)}
    for name, (low, high) in levels.items():
        drawn = [x for step in steps for used, x in zip(step.names, step.levels, strict=True) if used == name]
        assert min(drawn) == pytest.approx(low, abs=0.02)
        assert max(drawn) == pytest.approx(high, abs=0.02)


# erasing


def test_erased_boxes_have_areas_and_ratios_in_their_ranges() -> None:
    settings = RandomErasing(probability=0.5)
    boxes = erased_boxes(torch.rand(4_000, ERASE_DRAWS, generator=torch.Generator().manual_seed(0)), 64, 48, settings)
    erased = boxes[boxes[:, 2] > 0].double()
    assert len(erased) == pytest.approx(2_000, abs=120)
    shares, ratios = erased[:, 2] * erased[:, 3] / (64 * 48), erased[:, 2] / erased[:, 3]
    assert 0.015 < float(shares.min()) < 0.03
    assert 0.28 < float(shares.max()) < 0.36
    assert float(ratios.min()) > 0.25
    assert float(ratios.max()) < 3.8
    assert (erased[:, 0] + erased[:, 2] <= 64).all()
    assert (erased[:, 1] + erased[:, 3] <= 48).all()


def test_erased_pixels_are_noise_or_the_mean() -> None:
    boxes = torch.tensor([[2, 3, 4, 5], [0, 0, 0, 0]])
    noise = torch.randn(3, 24, 31, generator=torch.Generator().manual_seed(0))
    made, blank = erase(IMAGES[:2], boxes, noise), erase(IMAGES[:2], boxes, None)
    assert torch.equal(made[0, :, 2:6, 3:8], noise[:, 2:6, 3:8])
    assert (blank[0, :, 2:6, 3:8] == 0).all()
    assert int((made[0] != IMAGES[0]).any(0).sum()) <= 20
    assert torch.equal(made[1], IMAGES[1])


# settings


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_preset_is_a_name_and_each_of_its_settings_can_be_replaced(name: str) -> None:
    preset = Augment.model_validate(name)
    assert preset == Augment.model_validate({"preset": name}) == Augment.model_validate(preset.model_dump())
    assert preset.flip
    assert Augment.model_validate({"preset": name, "flip": False}) == preset.model_copy(update={"flip": False})


def test_repeated_samples_fill_a_batch_with_different_neighbours() -> None:
    positions = repeated_positions(40, 12, 3)
    for begin in (0, 12, 24):
        batch = positions[begin : begin + 12].tolist()
        assert sorted(batch) == sorted([*range(begin // 3, begin // 3 + 4)] * 3)
        assert all(a != b for a, b in zip(batch[::2], batch[1::2], strict=True))
    assert int(positions.max()) < 40
    assert torch.equal(repeated_positions(40, 12, 1), torch.arange(40))
