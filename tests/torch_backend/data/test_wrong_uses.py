"""Wrong data or tasks are rejected before training and leave no files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import archir
from archir.diagnostics.errors import ArchError
from tests.cli.test_cli import run

RNG = np.random.default_rng(0)
X, IMAGES = RNG.normal(size=(20, 4)).astype(np.float32), RNG.integers(0, 256, (20, 8, 8), np.uint8)
LABELS, MASKS, TOKENS = np.arange(20) % 2, RNG.integers(0, 3, (20, 8, 8)), RNG.integers(0, 9, (20, 6))

ROW = "net row { \n input x: f32[4]\n output y = x |> linear(OUT) \n }"
IMAGE = "net image { \n input x: f32[1, 8, 8]\n output y = x |> conv(4) |> relu |> global_avg_pool |> linear(2) \n }"
MAP = "net map { \n input x: f32[1, 8, 8]\n output y = x |> conv(3) \n }"
TEXT = "net text { \n input x: i64[6]\n output y = x |> embedding(9, 4) |> linear(9) \n }"
TWO = "net two { \n input a: f32[4]\n input b: f32[2]\n output y = concat([a, b]) |> linear(1) \n }"


class Samples:
    """A dataset that does what it is told."""

    def __init__(self, count: Any, sample: Callable[[int], Any]) -> None:
        self.count, self.sample = count, sample

    def __len__(self) -> int:
        if isinstance(self.count, Exception):
            raise self.count
        found: int = self.count
        return found

    def __getitem__(self, number: int) -> Any:
        return self.sample(number)


class Short:
    """An iterable that has fewer samples than it says."""

    def __len__(self) -> int:
        return 9

    def __iter__(self) -> Iterator[Any]:
        return iter([(X[0], 0)] * 7)


def broken(number: int) -> Any:
    if number == 13:
        raise ZeroDivisionError("by hand")
    return X[number], LABELS[number]


def spoilt(array: np.ndarray, value: float) -> np.ndarray:
    """An array with one number that is another."""
    found = array.astype(np.float32)
    found.reshape(len(found), -1)[5, 0] = value
    return found


def row(outputs: int) -> str:
    return ROW.replace("OUT", str(outputs))


NONE = {"train": (X, LABELS), "test": (X[:0], LABELS[:0])}
WRONG: dict[str, tuple[str, Any, dict[str, Any], str]] = {
    # targets that are not what the task takes
    "float labels": (row(2), (X, LABELS / 2), {}, r"A1116.*classes are integers.*float32 \[\].*regression"),
    "labels below 0": (row(2), (X, LABELS - 1), {}, "A1116.*targets hold -1.*without a label"),
    "several labels for one": (row(2), (X, np.stack([LABELS] * 2, 1)), {}, "A1116.*multilabel"),
    "masks for labels": (IMAGE, (IMAGES, MASKS), {}, "A1116.*segmentation"),
    "tags for labels": (TEXT, (TOKENS, TOKENS % 2), {}, "A1116.*`--objective tagging`"),
    "tokens to come for labels": (TEXT, (TOKENS, np.roll(TOKENS, -1, 1)), {}, "A1116.*`--objective next_token`"),
    "no targets": (row(2), X, {}, "A1116.*no targets"),
    "more classes than outputs": (row(2), (X, np.arange(20) % 5), {}, "A1108.*5 classes.*`y` of `row` has 2"),
    "one label for several": (row(2), (X, LABELS), {"kind": "multilabel"}, "A1116.*zeros and ones.*classification"),
    "labels beyond one": (
        row(2), (X, np.stack([LABELS, 2 * LABELS], 1)), {"kind": "multilabel"}, "A1116.*hold 2",
    ),
    "more labels than outputs": (row(2), (X, X > 0), {"kind": "multilabel"}, "A1116.*4 labels.*linear"),
    "more numbers than outputs": (row(3), (X, X), {"kind": "regression"}, r"A1116.*float32 \[4\].*f32\[3\]"),
    "a map for numbers": (MAP, (IMAGES, X[:, 0]), {"kind": "regression"}, r"A1116.*f32\[3, 8, 8\]"),
    "NaN in targets": (row(1), (X, spoilt(X[:, 0], np.nan)), {"kind": "regression"}, "A1116.*`target`.*not finite"),
    "infinite targets": (row(1), (X, spoilt(X[:, 0], np.inf)), {"kind": "regression"}, "A1116.*not finite"),
    "masks of another size": (MAP, (IMAGES, MASKS[:, :4]), {"kind": "segmentation"}, r"A1116.*\[4, 8\].*\[8, 8\]"),
    "masks of numbers": (MAP, (IMAGES, MASKS / 2), {"kind": "segmentation"}, "A1116.*integers, one for each place"),
    "more classes in masks": (MAP, (IMAGES, MASKS + 1), {"kind": "segmentation"}, "A1108.*up to 3.*has 3 classes"),
    "a vector for masks": (IMAGE, (IMAGES, MASKS), {"kind": "segmentation"}, r"A1903.*f32\[2\], not a map"),
    "tags of another length": (TEXT, (TOKENS, TOKENS[:, 1:]), {"kind": "tagging"}, r"A1116.*\[5\].*\[6\]"),
    "tokens to come beyond the outputs": (TEXT, (TOKENS, TOKENS + 5), {"kind": "next_token"}, "A1108"),
    "parts with other targets": (
        row(1), {"train": (X, X[:, 0]), "test": (X, X)}, {"kind": "regression"},
        "A1116.*in training samples, but.*held-out",
    ),
    # inputs that the net does not take
    "another length": (row(2), (X[:, :3], LABELS), {}, r"A1103.*f32\[4\].*\[3\]"),
    "NaN in inputs": (row(2), (spoilt(X, np.nan), LABELS), {}, "A1102.*not finite, first in sample 5"),
    "words": (row(2), (np.array([["a"] * 4] * 20), LABELS), {}, "A1115.*not an array of numbers"),
    "channels": (IMAGE, (RNG.normal(size=(20, 5, 8, 8)), LABELS), {}, r"A1103.*shape \[20, 5, 8, 8\]"),
    "tokens beyond the vocabulary": (TEXT, (TOKENS + 1, TOKENS), {"kind": "next_token"}, "A1103.*holds 9.*below 9"),
    "tokens below 0": (TEXT, (TOKENS - 1, TOKENS), {"kind": "next_token"}, "A1103.*holds -1"),
    "tokens with a point": (TEXT, (TOKENS / 2, TOKENS), {"kind": "next_token"}, "A1103.*integers from 0"),
    "one input of two": (TWO, (X, X[:, 0]), {"kind": "regression"},
    "A1103.*input `a`.*must have the names of the inputs"),
    "inputs of other names": (
        TWO, ({"a": X, "c": X[:, :2]}, X[:, 0]), {"kind": "regression"}, "A1103.*input `b`.*`a`, `c`",
    ),
    # what there is of it
    "no samples": (row(2), (X[:0], LABELS[:0]), {}, "A1102.*no samples"),
    "nothing held out": (row(2), (X[:1], LABELS[:1]), {}, "A1113.*to hold out"),
    "an empty test part": (row(2), NONE, {}, "A1102.*no samples"),
    "fewer labels than inputs": (row(2), (X, LABELS[:7]), {}, "A1102.*7, 20 samples"),
    # datasets
    "a dataset that raises": (row(2), Samples(20, broken), {}, "A1115.*sample 13.*ZeroDivisionError: by hand"),
    "a length that raises": (row(2), Samples(OSError("gone"), broken), {}, "A1115.*raised OSError: gone"),
    "an iterable that ends early": (row(2), Short(), {}, "A1115.*length of 9, but returned 7"),
    "samples of several shapes": (
        row(2), Samples(9, lambda i: (X[0, : 4 - (i > 3)], 0)), {}, r"A1115.*sample 4.*\[3\].*\[4\]",
    ),
    "samples that are not pairs": (row(2), Samples(9, lambda i: (X[0], 0, 1)), {}, "A1115.*not a pair"),
    "samples of other names": (
        row(2), Samples(9, lambda i: ({"ab"[i > 2]: X[0]}, 0)), {}, "A1115.*sample 3 .* has b, and others a",
    ),
    "no data at all": (row(2), 3, {}, "A1115.*is a int"),
    "nothing in a dataset": (row(2), [], {}, "A1102.*no samples"),
    "None for a target": (row(2), Samples(9, lambda i: (X[0], None)), {}, "A1115.*not an array of numbers"),
    # tasks that there are not
    "an objective that is not there": (row(2), (X, LABELS), {"kind": "regresion"}, "A1901.*did you mean `regression`"),
    "a setting that is not there": (row(2), (X, LABELS), {"kind": "regression", "los": "mae"}, "A1109.*`los`"),
    "a measure that is not there": (row(2), (X, LABELS), {"criterion": "f1"}, "A1109.*accuracy"),
    "a measure of several labels for classes": (row(2), (X, LABELS), {"measures": ["f1"]}, "A1904.*`f1`.*classes"),
    "a measure of classes for numbers": (
        row(1), (X, X[:, 0]), {"kind": "regression", "measures": ["miou"]}, "A1904.*`miou` compares classes.*numbers",
    ),
    "a measure of numbers for several labels": (
        row(4), (X, X > 0), {"kind": "multilabel", "measures": ["mae"]}, "A1904.*`mae`.*labels.*`exact`",
    ),
    "an output that is not there": (row(2), (X, LABELS), {"output": "z"}, "A1902.*no output `z`"),
    "a target that is not there": (row(2), (X, LABELS), {"target": "z"}, "A1116.*no target `z`"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_data_or_objective_is_rejected_without_run_folder(name: str, tmp_path: Path) -> None:
    net, data, objective, message = WRONG[name]
    graph = archir.loads(net).graph
    settings = {"epochs": 1, "objective": {"kind": "classification", **objective}}
    with pytest.raises(ArchError) as caught:
        archir.train(graph, data=data, settings=settings, folder=tmp_path / "run")
    said = str(caught.value)
    assert re.search(message, said, re.DOTALL), said
    assert not (tmp_path / "run").exists()


def test_most_errors_point_into_the_net() -> None:
    shown = 0
    for net, data, objective, _ in WRONG.values():
        settings = {"epochs": 1, "objective": {"kind": "classification", **objective}}
        with pytest.raises(ArchError) as caught:
            archir.train(archir.loads(net).graph, data=data, settings=settings)
        shown += caught.value.diagnostics[0].span is not None
    assert shown >= 18


RECIPE = """
space = "net.arch"

[data]
source = "npz:{folder}/data.npz"
{data}

[objective]
kind = "regression"
{objective}

[[phase]]
name = "search"
strategy = "evolution"
options = {{ population = 4, trials = 4, scorer = {{ kind = "training" }}{options} }}

[[phase]]
name = "retrain"
strategy = "train"
start = {{ architecture = "search" }}
{phase}
"""

SEARCHES = {
    "a score that the objective does not give": (
        {"options": ', objective = "accuracy:max"'},
        r"recipe\.toml:15:73: error\[A2502\]: the objective `accuracy` is not scored.*scores are `loss`, `mse`",
    ),
    "another objective": ({"phase": 'objective = { kind = "classification" }'}, "A1116.*classes are integers"),
    "mixed images of a table": ({"data": "augment = { mixup = 0.3 }"}, r"recipe\.toml.*A1116.*`mixup`.*have none"),
    "classes of numbers": ({"data": "classes = 2"}, "A1113.*`classes` chooses among labels"),
    "another output": ({"objective": 'output = "nothing"'}, "A1902.*no output `nothing`"),
    "masked parts of a table": (
        {"phase": 'objective = { kind = "context_autoregression" }'}, "A190[23]|A1116.*only input is an image"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SEARCHES)
def test_recipes_are_refused_before_anything_is_trained(name: str, tmp_path: Path) -> None:
    parts, message = SEARCHES[name]
    np.savez(tmp_path / "data.npz", x=X, y=X[:, 0])
    (tmp_path / "net.arch").write_text(row(1).replace("x |> linear", "x |> choose op(relu, gelu) |> linear"))
    usual = dict.fromkeys(("data", "objective", "options", "phase"), "")
    (tmp_path / "recipe.toml").write_text(RECIPE.format(folder=tmp_path, **usual | parts))
    found = run("search", str(tmp_path / "recipe.toml"), "-o", str(tmp_path / "run"), code=1).stderr
    assert re.search(message, found, re.DOTALL), found
    assert "Traceback" not in found
    assert not (tmp_path / "run").exists()
