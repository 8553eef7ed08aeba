"""HW-GPT-Bench's perplexities (Sukthanker et al. 2024), predicted by the authors' surrogate of GPTs.

    plugins = ["hw_gpt_bench"]
    scorer = { kind = "hw_gpt_bench", options = { weights = "hw_gpt_surrogates.npz", scale = "s" } }

The weights are arrays `SCALE/perplexity/fc1.weight` [128, features] to `fc5.bias` [1], converted from the published
files. Features are one-hot encodings of the width, the depth, the ratio of each layer, the heads of each layer (zeros
for missing layers), and the bias. The space is `zoo/hw_gpt.arch` of the same scale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from archir.diagnostics.errors import fail
from archir.recipes.trials import scorer
from archir.spaces.architecture import Architecture
from archir.utils.settings import Settings

DEPTH = {"s": 12, "m": 24, "l": 36}
"""Maximum number of layers, by scale."""
WIDTH = {"s": 768, "m": 1024, "l": 1280}
"""Maximum width, by scale."""
HEADS = {"s": (4, 8, 12), "m": (8, 12, 16), "l": (8, 16, 20)}
"""Numbers of attention heads, by scale."""
RATIOS = (2, 3, 4)
LAYERS = 5
"""Number of linear layers of the surrogate, with ReLUs between them."""


class Surrogate(Settings):
    """Options: the file of the weights, and the scale of the space."""

    weights: str
    scale: Literal["s", "m", "l"] = "s"


@scorer("hw_gpt_bench", Surrogate)
def hw_gpt_bench(work: Any, space: Any, options: Surrogate) -> Callable[[Architecture, float], dict[str, float]]:
    """Return a scorer of architectures by perplexity; lower is better."""
    weights = read(Path(options.weights), options.scale)
    return lambda architecture, budget: {"perplexity": perplexity(weights, options.scale, architecture)}


def read(file: Path, scale: str) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Return the surrogate's matrices and biases. Raises ArchError (A2251) if the file does not have them."""
    names = [f"{scale}/perplexity/fc{i + 1}" for i in range(LAYERS)]
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return [(arrays[f"{name}.weight"], arrays[f"{name}.bias"]) for name in names]
    except (OSError, ValueError, KeyError) as error:
        raise fail("A2251", f"{file} has no surrogate of scale `{scale}`: {error}") from error


def features(scale: str, chosen: Mapping[str, Any]) -> NDArray[np.float32]:
    """Return the surrogate's input [6 + 6 * maximum layers + 2]; `chosen` are labels by path."""
    max_layers, depth = DEPTH[scale], chosen["depth"]

    def one_hot(value: Any, options: tuple[Any, ...]) -> list[bool]:
        return [value == option for option in options]

    def per_layer(name: str, options: tuple[int, ...]) -> Iterator[bool]:
        for i in range(max_layers):
            yield from one_hot(chosen[f"{name}[{i}]"] if i < depth else None, options)

    row = one_hot(chosen["width"], (WIDTH[scale] // 4, WIDTH[scale] // 2, WIDTH[scale]))
    row += one_hot(depth, (max_layers - 2, max_layers - 1, max_layers))
    row += [*per_layer("ratio", RATIOS), *per_layer("heads", HEADS[scale]), *one_hot(chosen["bias"], ("true", "false"))]
    return np.array(row, np.float32)


def perplexity(
    weights: list[tuple[NDArray[np.float32], NDArray[np.float32]]], scale: str, architecture: Architecture
) -> float:
    """Return the predicted perplexity of an architecture."""
    x = features(scale, dict(architecture))
    for i, (matrix, bias) in enumerate(weights):
        x = matrix @ x + bias
        if i < len(weights) - 1:
            x = np.maximum(x, 0)
    return float(x[0])
