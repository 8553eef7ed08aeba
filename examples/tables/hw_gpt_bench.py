"""HW-GPT-Bench's perplexities (Sukthanker et al. 2024): what the authors' surrogate predicts of a GPT.

    plugins = ["hw_gpt_bench"]
    scorer = { kind = "hw_gpt_bench", options = { weights = "hw_gpt_surrogates.npz", scale = "s" } }

The weights are arrays `SCALE/perplexity/fc1.weight` [128, features] to `fc5.bias` [1], made of what is published.
Features are ones and zeros: of the width, the depth, the ratio of each layer, the heads of each layer (none where there
is no such layer), and biases. The space is `zoo/hw_gpt.arch` of that scale.
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
WIDTH = {"s": 768, "m": 1024, "l": 1280}
HEADS = {"s": (4, 8, 12), "m": (8, 12, 16), "l": (8, 16, 20)}
RATIOS = (2, 3, 4)
LAYERS = 5
"""Linear maps of the surrogate, with rectifiers between them."""


class Surrogate(Settings):
    """Where the weights are, and which of the three spaces is meant."""

    weights: str
    scale: Literal["s", "m", "l"] = "s"


@scorer("hw_gpt_bench", Surrogate)
def hw_gpt_bench(work: Any, space: Any, options: Surrogate) -> Callable[[Architecture, float], dict[str, float]]:
    """The perplexity of an architecture, less is better."""
    weights = read(Path(options.weights), options.scale)
    return lambda architecture, budget: {"perplexity": perplexity(weights, options.scale, architecture)}


def read(file: Path, scale: str) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """The surrogate's matrices and biases. Raises ArchError (A2251) if they are not there."""
    names = [f"{scale}/perplexity/fc{i + 1}" for i in range(LAYERS)]
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return [(arrays[f"{name}.weight"], arrays[f"{name}.bias"]) for name in names]
    except (OSError, ValueError, KeyError) as error:
        raise fail("A2251", f"{file} has no surrogate of scale `{scale}`: {error}") from error


def features(scale: str, chosen: Mapping[str, Any]) -> NDArray[np.float32]:
    """What the surrogate reads [6 + 6 * most layers + 2]; `chosen` are labels by path."""
    most, depth = DEPTH[scale], chosen["depth"]

    def ones(value: Any, options: tuple[Any, ...]) -> list[bool]:
        return [value == one for one in options]

    def each(name: str, options: tuple[int, ...]) -> Iterator[bool]:
        for i in range(most):
            yield from ones(chosen[f"{name}[{i}]"] if i < depth else None, options)

    row = ones(chosen["width"], (WIDTH[scale] // 4, WIDTH[scale] // 2, WIDTH[scale]))
    row += ones(depth, (most - 2, most - 1, most))
    row += [*each("ratio", RATIOS), *each("heads", HEADS[scale]), *ones(chosen["bias"], ("true", "false"))]
    return np.array(row, np.float32)


def perplexity(
    weights: list[tuple[NDArray[np.float32], NDArray[np.float32]]], scale: str, architecture: Architecture
) -> float:
    """What the surrogate predicts."""
    x = features(scale, dict(architecture))
    for i, (matrix, bias) in enumerate(weights):
        x = matrix @ x + bias
        if i < len(weights) - 1:
            x = np.maximum(x, 0)
    return float(x[0])
