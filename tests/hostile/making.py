"""Valid artefacts, and functions that forge them."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper

import archir
from archir.backends import certificates
from archir.cli import train_folder
from archir.ir.serial import to_json
from archir.runs import Run, hashes, manifest
from archir_onnx import BACKEND as ONNX
from archir_torch import BACKEND as TORCH

NET = """net small(width = 4) {
    input image: f32[1, 8, 8]
    x = image |> conv(width) |> relu
    output logits = x |> global_avg_pool |> linear(10)
}
"""
COMMAND = list[str]


class Runs:
    """An object that creates a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


@dataclass
class Place:
    """A folder of valid artefacts, and the mark that only executed code can create."""

    folder: Path
    mark: Path = field(init=False)

    def __post_init__(self) -> None:
        self.mark = self.folder / "it-ran"
        shutil.copytree(_valid_artefacts(), self.folder, dirs_exist_ok=True)

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def pickled(self) -> bytes:
        """Return bytes that create the mark when torch unpickles them."""
        stream = io.BytesIO()
        torch.save(Runs(self.mark), stream)
        return stream.getvalue()


@cache
def _valid_artefacts() -> Path:
    """Create a model, a package, a training's folder and a search's folder, once."""
    folder = Path(mkdtemp(prefix="archir-hostile-"))
    (folder / "net.arch").write_text(NET)
    graph = archir.loads(NET).graph
    module = TORCH.lower(graph).eval()
    reference = TORCH.runner(module)
    ONNX.write(graph, folder / "net.onnx", TORCH.arrays(module), reference=reference, certified=True)
    TORCH.package(graph, folder / "net.pt2", module, "exported")
    (folder / "run").mkdir()
    train_folder.begin(folder / "run", graph, "{}", resume=False)
    TORCH.save(module, folder / "run" / train_folder.WEIGHTS)
    train_folder.finish(folder / "run", {"accuracy": 0.5})
    with Run.create(folder / "search", "small", {"recipe.toml": "", "network.json": json.dumps(to_json(graph))}, {}):
        pass
    return folder


def pipe(path: Path) -> None:
    """Replace a file by a pipe, which blocks its reader."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def device(path: Path) -> None:
    """Replace a file by a link to an endless device."""
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    """Create a folder."""
    path.unlink(missing_ok=True)
    path.mkdir()


def listener(path: Path) -> None:
    """Create a socket."""
    path.unlink(missing_ok=True)
    here = Path.cwd()
    os.chdir(path.parent)  # such names are short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def large(path: Path, size: int = 180 << 20) -> None:
    """Write a large file of zeros."""
    path.unlink(missing_ok=True)
    with path.open("wb") as stream:
        stream.truncate(size)


def sealed(model: Path, change: Callable[[dict[str, Any]], Any] = lambda _: None) -> None:
    """Change a certificate, with a matching hash, so that it still fits the model."""
    content = json.loads(certificates.certificate_path(model).read_text())
    content.pop("sha256")
    content["files"] = {model.name: certificates.file_facts(model)}
    change(content)
    certificates.write(model, content)


def rezipped(path: Path, change: Callable[[dict[str, bytes]], Any], method: int = zipfile.ZIP_STORED) -> None:
    """Change parts of a package, with a matching certificate."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    sealed(path)


def model(
    path: Path, nodes: Sequence[onnx.NodeProto], *, shape: Sequence[int | str] = (1,),
    functions: Sequence[onnx.FunctionProto] = (), initializers: Sequence[onnx.TensorProto] = (), kind: int = 1,
) -> None:  # fmt: skip
    """Write a model with an input x and an output y, and a matching certificate."""
    x = helper.make_tensor_value_info("x", kind, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], initializer=list(initializers))
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("q", 1)]
    proto = helper.make_model(graph, ir_version=10, opset_imports=opsets, functions=list(functions))
    path.write_bytes(proto.SerializeToString())
    sealed(path, lambda content: content["computed"].update(outputs={"y": [0.0]}, sizes={}))


def constant(name: str, value: Any, kind: int = TensorProto.INT64) -> onnx.TensorProto:
    """Return a small weight."""
    array = np.asarray(value)
    return helper.make_tensor(name, kind, array.shape, array.reshape(-1).tolist())


def filled(output: str, shape: str) -> onnx.NodeProto:
    """Return a node whose output is as large as another tensor says."""
    return helper.make_node("ConstantOfShape", [shape], [output])


def doubling(count: int) -> list[onnx.FunctionProto]:
    """Return functions that expand to 2^count nodes."""
    opset = [helper.make_opsetid("", 20), helper.make_opsetid("q", 1)]
    functions = [helper.make_function("q", "f0", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], opset)]
    for number in range(1, count + 1):
        inner = f"f{number - 1}"
        nodes = [
            helper.make_node(inner, ["a"], ["m"], domain="q"), helper.make_node(inner, ["m"], ["b"], domain="q"),
        ]  # fmt: skip
        functions.append(helper.make_function("q", f"f{number}", ["a"], ["b"], nodes, opset))
    return functions


def loop(rounds: int) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Return a loop with a number of rounds."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Neg", ["v"], ["w"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, None),
        ],
    )
    weights = [constant("rounds", rounds), helper.make_tensor("yes", TensorProto.BOOL, [], [True])]
    return [helper.make_node("Loop", ["rounds", "yes", "x"], ["y"], body=body)], weights


def external(path: Path, location: str) -> None:
    """Write a model whose weight is stored at some location."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=location)
    model(path, [helper.make_node("Add", ["x", "w"], ["y"])], initializers=[weight])


def rehashed(run: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Change a file of a training, with matching hashes."""
    data = json.loads((run / name).read_text())
    changed = change(data)
    (run / name).write_text(json.dumps(data if changed is None else changed))
    hashes.write(run, list(hashes.read(run)))


def remade(search: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a manifest, with a matching hash."""
    data = json.loads((search / manifest.NAME).read_text())
    data.pop("~sha256")
    change(data)
    (search / manifest.NAME).write_text(manifest.sealed(data))


def npz(path: Path, **arrays: Any) -> None:
    """Write arrays as a compressed file."""
    np.savez_compressed(path, **arrays)


def zeros(path: Path, size: int) -> None:
    """Write a compressed array of `size` zero bytes without creating it in memory."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (size // 64, 8, 8)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("images.npy", "w", force_zip64=True) as stream:
            stream.write(header.getvalue())
            part = bytes(1 << 20)
            for _ in range(size >> 20):
                stream.write(part)
        labels = io.BytesIO()
        np.save(labels, np.zeros(4, np.int64))
        archive.writestr("labels.npy", labels.getvalue())
