"""A command given the wrong kind of file says what the file is and which command takes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from archir.diagnostics.hints import suggest_file
from tests.cli.test_cli import run
from tests.conftest import ROOT
from tests.documents import snippets

RECIPE = 'space = "small.arch"\n\n[data]\nsource = "digits"\n\n[[phase]]\nname = "search"\nstrategy = "random"\n'


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.arch").write_text(snippets(ROOT / "README.md", "arch")[0].text)
    Path("small.toml").write_text(RECIPE)
    Path("certified").mkdir()
    for name in ("net.json", "certified/net.onnx.json", "certified/net.pt2.json"):
        Path(name).write_text("{}")
    for name in ("net.onnx", "net.pt2", "net.safetensors"):
        Path(name).write_bytes(b"\x80\xfb")
    Path("net.py").write_text("import torch\n")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("check small.toml", "A0801]: small.toml is TOML, as recipes are; this takes a program that ends in .arch"),
        ("count small.toml", "hint: `archir search small.toml` runs a recipe, and with `--check` only"),
        ("fmt small.toml", "hint: `archir search small.toml` runs a recipe, and with `--check` only"),
        ("train small.toml -o run", "hint: `archir search small.toml` runs a recipe, and with `--check` only"),
        ("check net.onnx", "net.onnx is an ONNX model; this takes a program that ends in .arch"),
        ("check net.onnx", "hint: `archir import net.onnx -o net.arch` writes a program"),
        ("check net.pt2", "net.pt2 is a package of torch; this takes"),
        ("check net.py", "hint: `archir import --torch net:FUNCTION` takes a torch module"),
        ("check net.json", "hint: `--arch net.json`, after the space that it belongs to"),
        (
            "check net.safetensors",
            "hint: `archir compile NET.arch --weights net.safetensors` takes it, with its network",
        ),
        ("search small.arch", "A2201]: small.arch is a space or a network; this takes a recipe that ends in .toml"),
        ("search small.arch", 'hint: `archir check small.arch` proves it; a recipe names it, `space = "small.arch"`'),
        ("search net.onnx", "A2201]: net.onnx is an ONNX model; this takes a recipe that ends in .toml"),
        ("cost small.arch --arch small.arch", "small.arch is a space or a network, not an architecture"),
        ("cost small.arch --arch small.arch", "hint: `archir sample SPACE` writes architectures as JSON"),
        (
            "quantize small.arch -o out.onnx",
            "convert the program to ONNX first: `archir compile small.arch -o",
        ),
        (
            "verify small.arch",
            "A0916]: small.arch is a space or a network; this takes a model that ends in .onnx or .pt2",
        ),
        ("verify net.py", "A0916]: net.py is Python; this takes a model that ends in .onnx or .pt2"),
        ("verify net.json", "A0916]: net.json is JSON, as architectures are; this takes a model"),
        ("verify certified/net.onnx.json", "A0916]: certified/net.onnx.json is a certificate; this takes a model"),
        ("verify certified/net.onnx.json", "hint: `archir verify certified/net.onnx` compares the model with it"),
        ("verify certified/net.pt2.json", "hint: `archir verify certified/net.pt2` compares the package with it"),
        ("verify net.onnx", "A0917]: cannot read the certificate net.onnx.json: No such file or directory"),
        (
            "verify net.onnx",
            "hint: `archir export` and `archir compile` write it beside the model, `archir.export` with",
        ),
        ("verify none.json", "A0916]: there is no model none.json"),
        ("search none.arch", "A2201]: cannot read the recipe none.arch: No such file or directory"),
        ("check none.toml", "A0801]: cannot read none.toml: No such file or directory"),
    ],
)
def test_wrong_file_kind_is_named_with_suitable_command(command: str, said: str) -> None:
    told = run(*command.split(), code=1).stderr
    assert said in told
    assert "\n1 problem; " in told


@pytest.mark.parametrize("command", ["compile net.onnx -o new.py", "export net.onnx -o new.onnx", "cost net.onnx"])
def test_onnx_model_in_place_of_program_gets_the_command_that_imports_it(command: str) -> None:
    assert "archir import net.onnx -o net.arch" in run(*command.split(), code=2).stderr


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("quantize net.onx -o out.onnx", "net.onnx"),
        ("import net.onx -o out.arch", "net.onnx"),
        ("verify net.onx", "net.onnx"),
        ("bench net.onx", "net.onnx"),
        ("search small.tml", "small.toml"),
        ("study small.tml", "small.toml"),
        ("latency check small.arch net.jsn", "net.json"),
        ("compile small.arch --seed 0 -o out.onnx --weights net.safetensor", "net.safetensors"),
        ("latency fit small.arch -o out.json --measured smal.cvs", "small.csv"),
    ],
)
def test_missing_file_with_another_suffix_gets_the_name_of_a_similar_file(command: str, meant: str) -> None:
    Path("small.csv").write_text("a\n1\n")
    assert f"hint: did you mean `{meant}`?" in run(*command.split(), code=1).stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("search folder", "folder is a folder; name a file in it, such as folder/a.toml or folder/b.toml"),
        ("quantize run -o out.onnx", "run is a folder; its network is run/model.onnx"),
        ("verify trained", "trained is a folder; `archir export trained -o net.onnx`"),
        ("verify empty", "empty is a folder\n"),
        ("bench run", "A0801]: run is a folder\n  hint: its network is run/model.onnx\n"),
        ("count folder", "A0801]: folder is a folder\n  hint: name a file in it, such as folder/net.arch\n"),
        ("search --resume none", "A1801]: there is no folder none\n"),
        ("search --resume runn", "A1801]: there is no folder runn\n  hint: did you mean `run`?\n"),
        ("export runn -o out.onnx", "A1205]: there is no folder runn\n  hint: did you mean `run`?\n"),
    ],
)
def test_folder_in_place_of_file_and_missing_folder_get_a_hint(command: str, said: str) -> None:
    for file in (
        "folder/c.toml", "folder/b.toml", "folder/a.toml", "folder/net.arch",
        "run/manifest.json", "run/model.onnx", "trained/hashes.json", "empty/notes.txt",
    ):  # fmt: skip
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).write_text("")
    assert said in run(*command.split(), code=1 if "]: " in said else 2).stderr


@pytest.mark.parametrize("missing", ["small.toml", "small.json"])
def test_a_file_of_another_kind_is_no_suggestion(missing: str) -> None:
    Path("small.toml").unlink()
    assert suggest_file(Path(missing)) is None


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("digit", "hint: did you mean `digits`? Data is `digits`, a file, "),
        ("imagse:my/photos", "hint: did you mean `images`? Data is "),
        ("elsewhere", "hint: data is `digits`, a file, "),
        ("small.arch", "and `:` before the path name its format: `text:small.arch` reads it as text"),
    ],
)
def test_data_source_that_cannot_be_read_gets_a_hint(source: str, said: str) -> None:
    Path("small.toml").write_text(RECIPE.replace("digits", source))
    assert said in run("search", "small.toml", "-o", "run", code=1).stderr
