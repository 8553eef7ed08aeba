"""`archir import` of torch modules and ONNX files, and the export of their weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner
from safetensors import safe_open
from safetensors.numpy import load_file
from torch import nn

import archir
from archir.backends.imports import read_map, to_source_tensors
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.language.decompiler.imported import restore_tensors
from archir_torch.importing.entry import create_module, example_inputs
from tests.cli.test_cli import run

MINE = """
import torch
from torch import nn

def model(width=8):
    block = [nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)) for _ in range(2)]
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 4))
    return nn.Sequential(nn.Conv2d(3, width, 1), *block, head)

class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(7, 4), nn.Linear(4, 3)
    def forward(self, ids):
        return self.out(self.table(ids))

class Sorted(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
    def forward(self, x):
        return self.conv(x).sort(1)[0]

number = 3
def broken():
    raise ValueError("no such luck")
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "imported_by_tests.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_partial_import_names_unsupported_operations(home: Path) -> None:
    arguments = ["import", "--torch", "imported_by_tests:Sorted", "--input", "3x8x8", "-o", "net.arch"]
    assert "sort: archir has no such operation" in run(*arguments, code=1).output
    said = run(*arguments, "--partial").stdout
    assert "wrote a part of the model to net.arch" in said
    assert "`Sorted`: sort: archir has no such operation" in said
    assert archir.check("net.arch") == []
    known = json.loads(run(*arguments, "--partial", "--json").stdout)
    assert (known["inputs"], known["outputs"], len(known["left_out"])) == (["x"], ["conv2d"], 1)


def test_imported_weights_export_to_source_state_dict(home: Path) -> None:
    module = create_module("imported_by_tests:model", {"width": 6})
    torch.save({"state_dict": module.state_dict()}, "model.pt")
    arguments = ["import", "--torch", "imported_by_tests:model", "-p", "width=6", "--input", "3x8x8"]
    said = json.loads(run(*arguments, "--weights", "model.pt", "-o", "net.arch", "--json").stdout)
    assert said["difference"] <= 1e-5
    assert said["params"] == sum(one.numel() for one in module.parameters())
    assert archir.check("net.arch") == []
    run("export", "net.safetensors", "--to", "source", "-o", "back.safetensors")
    back, state = load_file("back.safetensors"), module.state_dict()
    assert back.keys() == state.keys()
    assert (home / "net.import.safetensors").exists()  # of what norms count, which no network needs
    for name, array in back.items():
        np.testing.assert_array_equal(array, state[name].numpy())


def test_input_option_sets_name_and_type(home: Path) -> None:
    run("import", "--torch", "imported_by_tests:Words", "--input", "ids=i64:5", "-o", "net.arch")
    assert "input ids: i64[5]" in Path("net.arch").read_text()


WRONG = {
    "imported_by_tests": "names no callable",
    "imported_by_tests:modle": "did you mean",
    "imported_by_tests:number": "raises TypeError",
    "imported_by_tests:broken": "no such luck",
    "imported_by_tests:torch.tensor": "raises TypeError",
}


@pytest.mark.parametrize("name", WRONG)
def test_rejects_names_that_give_no_module(name: str, home: Path) -> None:
    with pytest.raises(ArchError) as error:
        create_module(name, {})
    assert error.value.diagnostics[0].code == "A3205"
    assert WRONG[name] in str(error.value)


@pytest.mark.parametrize("text", ["", "3x", "3xx3", "f64:3", "0x3", "3x99999999999", "i64", "1.5"])
def test_rejects_malformed_input_options(text: str) -> None:
    with pytest.raises(ArchError) as error:
        example_inputs([text])
    assert error.value.diagnostics[0].code == "A3205"


def test_all_missing_and_unexpected_weights_are_named(home: Path) -> None:
    torch.save({"0.weight": torch.zeros(2), "more": torch.zeros(1)}, "model.pt")
    with pytest.raises(ArchError) as error:
        create_module("imported_by_tests:model", {}, Path("model.pt"))
    text = str(error.value)
    assert "lacks `0.bias`" in text or "lacks 0.bias" in text
    assert "more" in text
    assert "0.weight" in text


class Runs:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return open, ("ran", "w")


def test_missing_or_failing_python_module_is_reported(home: Path) -> None:
    with pytest.raises(ArchError, match="there is no module `nope`"):
        create_module("nope:x", {})
    (home / "breaks_when_imported.py").write_text("1 / 0\n")
    with pytest.raises(ArchError, match="the module `breaks_when_imported` cannot be imported: ZeroDivisionError"):
        create_module("breaks_when_imported:x", {})


def test_torch_error_message_loses_terminal_codes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise RuntimeError("Something is wrong. \x1b[1mdo this\x1b[0m\nand that")

    monkeypatch.setattr(torch, "load", refused)
    Path("model.pt").write_bytes(b"")
    with pytest.raises(ArchError) as error:
        create_module("imported_by_tests:model", {}, Path("model.pt"))
    assert str(error.value).endswith("in model.pt: Something is wrong. do this")


def test_weight_loading_executes_no_pickled_code(home: Path) -> None:
    torch.save({"weight": Runs()}, "model.pt")
    with pytest.raises(ArchError) as error:
        create_module("imported_by_tests:model", {}, Path("model.pt"))
    assert error.value.diagnostics[0].code == "A3205"
    assert not Path("ran").exists()


def test_weights_of_another_architecture_are_not_restored(home: Path) -> None:
    imported = archir.from_torch(create_module("imported_by_tests:model", {}), torch.zeros(1, 3, 8, 8))
    saved = archir.save_import(imported, "net.arch")
    sources, rest = read_map(saved.files[2])[0], saved.leftover
    assert read_map(saved.files[2])[1] == [*rest]
    for name, array in to_source_tensors(saved.weights, sources, rest).items():
        np.testing.assert_array_equal(array, restore_tensors(imported.weights, imported.sources, rest)[name])
    first, *others = saved.weights
    smaller = {name: saved.weights[name] for name in others} | {first: saved.weights[first][:1]}
    with pytest.raises(ArchError, match="the architecture is another one"):
        to_source_tensors(smaller, sources, rest)
    with pytest.raises(ArchError, match="in the map, but not in the weights"):
        to_source_tensors({name: saved.weights[name] for name in others}, sources, rest)


BROKEN = {
    "nothing": "",
    "a list": "[]",
    "no weights": '{"version": 1}',
    "another version": '{"version": 9, "weights": {}}',
    "a move that is none": '{"version": 1, "weights": {"w": {"name": "w", "shape": [2], "moves": [["turn", [0]]]}}}',
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_maps_are_refused(kind: str, tmp_path: Path) -> None:
    (tmp_path / "net.import.json").write_text(BROKEN[kind])
    with pytest.raises(ArchError) as error:
        read_map(tmp_path / "net.import.json")
    assert error.value.diagnostics[0].code == "A3204"


def test_rejects_import_map_moves_of_wrong_shape(tmp_path: Path) -> None:
    for move, said in ((["reshape", [3]], "does not reshape"), (["strided", [1, 2, 1]], "reaches outside")):
        weight = {"name": "w", "shape": [2], "moves": [move], "computed": "", "digest": ""}
        (tmp_path / "net.import.json").write_text(json.dumps({"version": 1, "weights": {"w": weight}, "rest": []}))
        with pytest.raises(ArchError, match=said):
            to_source_tensors({"w": np.zeros(3, np.float32)}, read_map(tmp_path / "net.import.json")[0], {})


def test_onnx_file_is_imported_as_equal_program(tmp_path: Path) -> None:
    text = "net n {\n    input image: f32[3, 16, 16]\n    output y = image |> conv(8) |> relu |> global_avg_pool\n}\n"
    graph = archir.loads(text).graph
    archir.export(graph, tmp_path / "model.onnx", archir.compile(graph))
    output = tmp_path / "net.arch"
    result = CliRunner().invoke(main, ["import", str(tmp_path / "model.onnx"), "-o", str(output)])
    assert result.exit_code == 0, result.output
    assert "compared with onnxruntime" in result.output
    assert archir.canonical_hash(archir.load(output).graph) == archir.canonical_hash(graph)
    assert load_metadata(output.with_suffix(".safetensors")) is None
    neither = CliRunner().invoke(main, ["import", "-o", str(output)])
    assert neither.exit_code == 2
    assert "MODEL.onnx" in neither.output


def load_metadata(path: Path) -> dict[str, str] | None:
    with safe_open(path, "numpy") as file:
        metadata: dict[str, str] | None = file.metadata()
    return metadata


@pytest.mark.parametrize(("stored", "kept"), [('["a", "b"]', ["a", "b"]), ("{0: 'a'}", None), ("[1, 2]", None)])
def test_class_names_of_onnx_file_stay_with_the_weights(stored: str, kept: list[str] | None, tmp_path: Path) -> None:
    text = "net n {\n    input image: f32[3, 8, 8]\n    output y = image |> global_avg_pool |> linear(2)\n}\n"
    graph, path = archir.loads(text).graph, tmp_path / "model.onnx"
    resizing = {"resizing": '{"center_crop": 0.875, "interpolation": "bicubic"}'}
    archir.export(graph, path, archir.compile(graph), metadata=resizing)
    model = onnx.load(path)
    model.metadata_props.add(key="labels", value=stored)
    onnx.save(model, path)
    net = str(tmp_path / "net.arch")
    run("import", str(path), "-o", net)
    run("compile", net, "--weights", str(tmp_path / "net.safetensors"), "-o", str(tmp_path / "again.onnx"))
    metadata = archir.backends.get("onnx").describe(tmp_path / "again.onnx")["metadata"]
    assert (json.loads(metadata["labels"]) if "labels" in metadata else None) == kept
    assert metadata["resizing"] == resizing["resizing"]
    run("compile", net, "--weights", str(tmp_path / "net.safetensors"), "-o", str(path), "--labels", "c,d", "--force")
    assert archir.backends.get("onnx").describe(path)["metadata"]["labels"] == '["c", "d"]'


MISTAKES = {
    "an argument is missing": (["--torch", "mine:model", "--input", "3x8x8"], "it takes `width`; each is given as -p"),
    "other sizes": (["--torch", "mine:model", "-p", "width=4", "--input", "1x3x8x8"], "do not include the batch axis"),
    "weights alone": (["weights.pt"], "name the module with --torch"),
    "weights as a module": (["--torch", "weights.pt", "--input", "3x8x8"], "weights are no network"),
    "a module that was pickled": (
        ["--torch", "mine:model", "-p", "width=4", "--input", "3x8x8", "--weights", "whole.pt"], "save weights alone",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_import_mistakes_get_a_hint(mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from torch import nn\n\ndef model(width):\n    return nn.Sequential(nn.Conv2d(3, width, 3))\n"
    name = f"mistake_{[*MISTAKES].index(mistake)}"  # modules are loaded once
    (tmp_path / f"{name}.py").write_text(text, "utf-8")
    torch.save(nn.Conv2d(3, 4, 3).state_dict(), tmp_path / "weights.pt")
    torch.save(nn.Conv2d(3, 4, 3), tmp_path / "whole.pt")
    monkeypatch.chdir(tmp_path)
    arguments, said = MISTAKES[mistake]
    arguments = [one.replace("mine", name) for one in arguments]
    assert said in CliRunner().invoke(main, ["import", *arguments, "-o", "net.arch"]).output


def test_import_does_not_overwrite_foreign_program(home: Path) -> None:
    program = home / "net.arch"
    command = ("import", "--torch", "imported_by_tests:model", "--input", "3x8x8", "-o", "net.arch")
    program.write_text("# mine\n")
    said = run(*command, code=1).output
    assert "error[A0809]: cannot write net.arch: archir did not write the file that is there" in said
    assert program.read_text() == "# mine\n"
    program.unlink()
    run(*command)
    run(*command, "-p", "width=4")  # what an import wrote, the next one replaces
    program.write_text(edited := program.read_text() + "# more\n")
    kept = {path.name: path.read_bytes() for path in home.glob("net.*")}
    said = run(*command, code=1).output
    assert "cannot write net.arch: archir did not write the file that is there, or it was changed since" in said
    assert "name another file, or replace it with --force" in said
    assert {path.name: path.read_bytes() for path in home.glob("net.*")} == kept
    assert program.read_text() == edited
    run(*command, "--force")
    assert program.read_text() != edited
