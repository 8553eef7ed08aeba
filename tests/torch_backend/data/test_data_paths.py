"""A `pathlib.Path` given as data equals the source with the same name."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import archir


def test_path_object_equals_string_source(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    file = tmp_path / "some.npz"
    np.savez(file, images=rng.normal(size=(20, 1, 8, 8)).astype(np.float32), labels=rng.integers(0, 2, 20))
    graph = archir.loads("net n { input image: f32[1, 8, 8]\n output y = image |> global_avg_pool |> linear(2) }").graph
    results = [archir.train(graph, data=data, settings={"epochs": 1, "batch": 10})[1] for data in (file, str(file))]
    assert results[0].measures == results[1].measures
