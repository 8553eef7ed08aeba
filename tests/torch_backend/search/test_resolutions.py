"""The size of the input as a choice: networks see the images of their batch at their own resolution."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import archir
from archir.data.inputs import inputs_of, sample_shapes
from archir.diagnostics.errors import ArchError
from archir.ir.printer import print_graph
from archir.ir.reader import parse_graph
from archir.ir.serial import from_json, to_json
from archir.ir.verify import verify
from archir.language.decompiler.flat_program import to_source
from archir.passes.relax import relax
from archir.passes.resize import with_input_sizes
from archir.spaces.space import Space
from archir_torch import BACKEND as TORCH
from archir_torch.data import minibatch
from archir_torch.supernet import SuperNetwork
from tests.sequences.laws import assert_deploys, assert_shared

NET = """
net any_size(classes = 10) {
    size = choose size(6, 8, 12)
    input image: f32[1, size, size]
    x = image |> conv(choose width(4, 8), kernel=3) |> batch_norm |> relu
    output logits = x |> global_avg_pool |> linear(classes)
}
"""
RECIPE = """
space = "net.arch"
threads = 1

[data]
source = "digits"
limit = 60

[[phase]]
name = "supernet"
strategy = "sandwich"
training = { epochs = 1, batch = 20 }

[[phase]]
name = "search"
strategy = "evolution"
start = { weights = "supernet" }
options = { population = 2, trials = 4, tournament = 2, scorer = { kind = "inherited", recalibrate = 1 } }

[[phase]]
name = "retrain"
strategy = "train"
start = { architecture = "search", weights = "supernet" }
training = { epochs = 1, batch = 20 }
"""


def test_costs_and_deployed_networks_use_chosen_size(tmp_path: Path) -> None:
    space = archir.loads(NET)
    assert space.size == 6
    cost = archir.cost(space.specialize(space.architecture({"size": 12, "width": 8})))
    assert cost.macs == 12 * 12 * 9 * 8 + 80
    one = space.architecture({"size": 6, "width": 4})
    assert_deploys(space.specialize(one), tmp_path)
    assert "f32[1, 6, 6]" in to_source(space.specialize(one))


def test_chosen_size_survives_text_and_json_round_trip() -> None:
    graph = archir.loads(NET).graph
    for same in (from_json(to_json(graph)), parse_graph(print_graph(graph))):
        verify(same)
        assert to_json(same) == to_json(graph)


def test_supernet_takes_largest_input_size() -> None:
    space = archir.loads(NET)
    assert sample_shapes(space.graph) == {"image": (1, 12, 12)}
    assert_shared(space)
    assert_shared(Space(with_input_sizes(space.graph, sample_shapes(space.graph))))


def test_architectures_see_images_at_their_size() -> None:
    space = archir.loads(NET)
    whole = SuperNetwork(with_input_sizes(space.graph, sample_shapes(space.graph))).eval()
    plain = SuperNetwork(space.graph).eval()
    plain.load_state_dict(whole.state_dict())
    (images,) = (one[torch.arange(4)] for one in minibatch("digits", inputs_of(space.graph), 4).inputs.values())
    for size in (6, 8, 12):
        seen = F.interpolate(images, (size, size), mode="bilinear", antialias=True)
        path = space.architecture({"size": size, "width": 4})
        torch.testing.assert_close(whole(images, path), plain(seen, path))


def test_input_size_choice_cannot_be_relaxed() -> None:
    graph = archir.loads(NET).graph
    with pytest.raises(ArchError, match=r"`size` cannot be relaxed: the input `image` has one size"):
        relax(graph)
    assert relax(graph, {"width"}).decisions.keys() == {"size", "width"}


def test_rejects_choice_of_input_channels() -> None:
    graph = archir.loads(NET.replace("[1, size, size]", "[choose channels(1, 3), size, size]")).graph
    with pytest.raises(ArchError, match=r"(?s)A1103.*only the height and width"):
        inputs_of(graph)


def test_search_over_input_size_completes(tmp_path: Path) -> None:
    (tmp_path / "net.arch").write_text(NET)
    (tmp_path / "search.toml").write_text(RECIPE)
    TORCH.search(tmp_path / "search.toml", tmp_path / "run", device="cpu")
    found = json.loads((tmp_path / "run" / "best.json").read_text())["choices"]
    assert f"f32[1, {found['size']}, {found['size']}]" in (tmp_path / "run" / "best.arch").read_text()
    assert found["size"] in (6, 8, 12)
