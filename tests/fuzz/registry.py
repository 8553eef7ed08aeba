"""The registry of kinds, and the space and the recipe that they change."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from pathlib import Path

from archir_torch.search import preparation as searches
from tests.fuzz.harness import Kind

SPACE = """
net tiny(width = 4, ratio = 1/2, acts = [relu, gelu], name = "x") {
    input image: f32[1, 8, 8]
    wide = choose wide(1, 2, 3)
    kernel = choose kernel(1, 3, 5)
    x = image |> conv(width * wide, kernel=kernel, padding="same") |> batch_norm
    if wide == 2 {
        x = x |> choose op @ops {
            none: zero
            act: choose act(relu, gelu)
        }
    }
    require wide > 1 or kernel > 1
    output logits = x |> global_avg_pool |> linear(10, bias=ratio < 1)
}
"""
RECIPE = """space = "tiny.arch"
title = "a title"
seed = 3
threads = 1
[parameters]
width = 8
[data]
limit = 40
classes = 5
weights = 0.5
augment = { shift = 1, flip = true, mixup = 0.2 }
[[phase]]
name = "search"
strategy = "darts"
training = { epochs = 1, batch = 16, label_smoothing = 0.1, ema = 0.9, checkpoint_minutes = 5 }
weights = { kind = "sgd", lr = 0.1, betas = [0.9, 0.99], milestones = [1, 2.5], schedule = "step", clip = 1.0 }
alphas.lr = 1e-3
fixed = { "wid*" = 2 }
open = ["op", "act", "kern*"]
derive = { exclude = ["none"], limit = { labels = ["act"], most = 1 } }
[phase.options]
order = 2
alpha_warmup_epochs = 1
temperature = [1.0, 0.5]
penalty = { cost = "macs", weight = 0.1, target = 1e5 }
curvature = { window = 3, drop = 0.5 }
entropy = { last = 0.1 }
[[phase]]
name = "tries"
strategy = "evolution"
start = { weights = "search" }
options = { preset = "spos", population = 4, where = "macs <= 3M", limit = 5, executor = "processes:2", scorer = { kind = "proxies" } }
"""
KINDS: dict[str, Kind] = {}


def kind(make: Kind) -> Kind:
    """Register a kind under the name of its function."""
    KINDS[make.__name__] = make
    return make


def words(rng: random.Random, choices: list[str], count: int) -> str:
    return rng.choice(["", " "]).join(rng.choice(choices) for _ in range(rng.randint(1, count)))


def begin(folder: Path, recipe: str, overrides: Mapping[str, str]) -> None:
    """Start a search in a folder, and assert that a refused search leaves no folder."""
    where = folder / "recipe"
    where.mkdir(exist_ok=True)
    (where / "tiny.arch").write_text(SPACE)
    (where / "r.toml").write_bytes(recipe.encode("utf-8", "surrogatepass"))
    try:
        searches.begin_search(where / "r.toml", folder / "run", overrides, "cpu").run.close()
    except BaseException:
        assert not (folder / "run").exists(), "a refused search left its folder"
        raise
    shutil.rmtree(folder / "run")
