"""Small searches that tests share."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from archir.language.elaboration.elaborate import elaborate
from archir.recipes.augmentation import Augment
from archir.recipes.recipe import DataSettings, Phase
from archir.recipes.training import Optimizer, Training
from archir.spaces.space import Space
from archir_torch.data import Data, Split
from archir_torch.data.split import Scale
from archir_torch.search.job import Job, Strategy, create_strategy
from tests.conftest import ROOT

TINY = """
net tiny() {
    input x: f32[1, 6, 6]
    x = x |> conv(6, kernel=3, bias=false) |> batch_norm |> relu
    x = x |> choose first {
        none: zero
        skip: identity
        near: conv(6, kernel=3, bias=false) |> batch_norm(affine=false)
        far: conv(6, kernel=3, dilation=2, bias=false) |> batch_norm
    }
    pair = choose pair 2 of [x, x |> max_pool(3, stride=1), x |> choose inner(relu, gelu)]
    output logits = pair[0] + pair[1] |> batch_norm |> global_avg_pool |> linear(3)
}
"""
"""Norms in and outside of mixtures, zeros, two of three, and a choice inside a choice."""


def tiny() -> Space:
    """Return the space `TINY`."""
    return Space(elaborate(TINY, "tiny.arch"))


def space(text: str) -> Space:
    """Return the space of a net in one line."""
    return Space(elaborate(text.replace("; ", "\n"), "reference.arch"))


def doubles(*shape: int, seed: int = 0) -> Tensor:
    """Return noise in double precision."""
    return torch.randn(*shape, dtype=torch.double, generator=torch.Generator().manual_seed(seed))


def images(count: int = 46, size: int = 6, classes: int = 3, seed: int = 0) -> Split:
    """Return noise images whose brightness depends on the class."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    return Split.labelled(
        torch.randn(count, 1, size, size, generator=generator) + labels[:, None, None, None] / 2, labels
    )


def data(count: int = 46, size: int = 6, classes: int = 3) -> Data:
    """Return the same number of training and held-out images."""
    names = tuple(map(str, range(classes)))
    return Data(
        images(count, size, classes),
        images(count, size, classes, 1),
        names,
        (0.0,),
        (1.0,),
        scales={"image": Scale((0.0,), (1.0,), "pixels")},
    )


def job(
    strategy: str = "darts", options: Mapping[str, Any] | None = None, *, space: Space | None = None, batch: int = 8,
    epochs: int = 2, precision: str = "float32", seed: int = 0, **more: Any,
) -> Job:  # fmt: skip
    """Return a search job on a space, by default `TINY`, with settings of its phase."""
    settings: dict[str, Any] = {
        "name": "search",
        "strategy": strategy,
        "data": DataSettings(augment=Augment(shift=1)),
        "training": Training(epochs=epochs, batch=batch, precision=precision),  # type: ignore[arg-type]
        "weights": Optimizer(lr=0.05, momentum=0.9, weight_decay=1e-3, clip=5.0),
        "options": dict(options or {}),
    }
    return Job(Phase(**(settings | more)), space or tiny(), data(), seed)


def strategy(*arguments: Any, **more: Any) -> Strategy:
    """Return the strategy of a job."""
    return create_strategy(job(*arguments, **more))


def npz(path: Path, train: Split, held_out: Split) -> None:
    """Write images as a file that recipes can name."""
    arrays = {"x_train": train.images, "y_train": train.labels, "x_test": held_out.images, "y_test": held_out.labels}
    np.savez(path, **{name: tensor.numpy() for name, tensor in arrays.items()})  # type: ignore[arg-type]


RECIPE = """
space = "tiny.arch"
threads = 1

[data]
source = "digits"
limit = 190

[[phase]]
name = "search"
strategy = "darts"
training = { epochs = 3, batch = 32, checkpoint_minutes = 0 }
alphas = { lr = 3e-3 }
options = { order = 2 }

[[phase]]
name = "again"
strategy = "gdas"
start = { alphas = "search", weights = "search" }
training = { epochs = 2, batch = 32, checkpoint_minutes = 0 }

[[phase]]
name = "any"
strategy = "random"

[[phase]]
name = "retrain"
strategy = "train"
start = { architecture = "again" }
training = { epochs = 3, batch = 32, ema = 0.9, checkpoint_minutes = 0 }
"""
"""Every kind of phase, in a second; checkpoints after every step."""


def recipe(folder: Path) -> Path:
    """Write `RECIPE` and its space as files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tiny.arch").write_text(TINY.replace("f32[1, 6, 6]", "f32[1, 8, 8]").replace("linear(3)", "linear(10)"))
    path = folder / "recipe.toml"
    path.write_text(RECIPE)
    return path


def command(*arguments: object, processes: int = 1, name: str = "search") -> list[str]:
    """Return `archir search`, or another command, as arguments of a process, or of `torchrun` for several processes."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    return [sys.executable, *(torchrun if processes > 1 else []), "-m", "archir", name, *map(str, arguments)]


def surroundings() -> dict[str, str]:
    """Return the environment of a command's process."""
    paths = [str(path) for path in (ROOT, ROOT / "backends", ROOT / "grammar")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
