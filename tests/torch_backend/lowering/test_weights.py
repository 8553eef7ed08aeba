"""Weights on disk: what is read back, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import archir.ops  # noqa: F401  (declares the operations)
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph, Node
from archir.ir.structure import Input
from archir.ops.conv import Linear
from archir.ops.norm import BatchNorm
from archir_torch.lowering.module import Network, lower
from archir_torch.lowering.weights import load_weights, read_weights, save_weights


def network(seed: int) -> Network:
    graph = Graph("net")
    x = graph.add(Node(Linear(4), scope="half"), graph.add(Node(Input("x", (3,)))))
    graph.outputs["y"] = graph.add(Node(BatchNorm(), scope="layer[0].norm"), x)
    return lower(graph, generator=torch.Generator().manual_seed(seed))


def state(seed: int) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in network(seed).state_dict().items()}


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return list(one) == list(other) and all(torch.equal(one[name], other[name]) for name in one)


def refused(path: Path) -> list[str]:
    """The messages for a file; the module is as it was before."""
    module, before = network(1), state(1)
    with pytest.raises(ArchError) as refusal:
        load_weights(module, path)
    assert equal(dict(module.state_dict()), before)
    assert {diagnostic.code for diagnostic in refusal.value.diagnostics} <= {"A0902", "A0905"}
    return [diagnostic.message for diagnostic in refusal.value.diagnostics]


def test_saved_weights_and_metadata_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "net.safetensors"
    save_weights(network(0), path, {"hash": "abc", "π": "3\n"})
    module = network(1)
    assert not equal(dict(module.state_dict()), state(0))
    assert load_weights(module, path) == {"hash": "abc", "π": "3\n"}
    assert equal(dict(module.state_dict()), state(0))
    tensors, metadata = read_weights(path)
    assert set(tensors) == set(state(0))
    assert metadata["hash"] == "abc"
    assert [file.name for file in path.parent.iterdir()] == ["net.safetensors"]


def test_metadata_bytes_do_not_depend_on_insertion_order(tmp_path: Path) -> None:
    names = [f"key{i}" for i in range(8)]
    for order in (names, names[::-1]):
        save_weights(network(0), tmp_path / order[0], dict.fromkeys(order, "é"))
    data = (tmp_path / "key0").read_bytes()
    assert data == (tmp_path / "key7").read_bytes()
    size = int.from_bytes(data[:8], "little")
    assert size % 8 == 0
    assert list(json.loads(data[8 : 8 + size])["__metadata__"]) == names
    assert equal({name: read_weights(tmp_path / "key0")[0][name] for name in state(0)}, state(0))


def test_failed_save_keeps_previous_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.safetensors"
    save_weights(network(0), path)

    def broken(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", broken)
        with pytest.raises(ArchError, match=r"A0809.*disk full"):
            save_weights(network(1), path)
    assert equal({name: read_weights(path)[0][name] for name in state(0)}, state(0))
    assert len(list(tmp_path.iterdir())) == 1
    save_weights(network(1), path)
    assert equal({name: read_weights(path)[0][name] for name in state(1)}, state(1))


def test_load_reports_all_missing_extra_and_misshapen_weights(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    tensors = state(0)
    del tensors["layer.0.norm.bias"]
    tensors |= {"extra": torch.zeros(1), "half.bias": torch.zeros(5)}
    save_file(tensors, path)
    assert refused(path) == [
        f"{path} lacks 1 weights: `layer.0.norm.bias`",
        f"{path} has 1 weights too many: `extra`",
        f"`half.bias` in {path} has shape [5], not [4]",
    ]


@pytest.mark.parametrize("content", [b"", b"no safetensors", b"\xff" * 64], ids=["empty", "text", "bytes"])
def test_rejects_damaged_or_foreign_weight_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "net.safetensors"
    path.write_bytes(content)
    (message,) = refused(path)
    assert message.startswith(f"{path} is not a file of weights (.safetensors), or it is damaged: ")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    (message,) = refused(tmp_path / "none.safetensors")
    assert message == f"cannot read the weights in {tmp_path / 'none.safetensors'}: No such file or directory"


def test_loading_keeps_the_modules_precision(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    save_weights(network(0), path)
    module = network(1).double()
    load_weights(module, path)
    assert {tensor.dtype for tensor in module.state_dict().values()} == {torch.float64}
    torch.testing.assert_close(module.state_dict()["half.weight"].float(), state(0)["half.weight"])
