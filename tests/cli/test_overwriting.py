"""Commands replace files that archir did not write, or that were changed, only with --force."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import archir
from archir.cli import main
from archir.cli.param_types import OutputFile

NET = """
net n {
    input image: f32[1, 8, 8]
    output y = image |> conv(4) |> relu |> global_avg_pool |> linear(10)
}
"""
SPACE = NET.replace("conv(4)", "conv(choose width(4, 8))")
WITHOUT = (
    "import net.onnx -o made/new.arch", "open net.arch -o made/new.arch", "show net.arch -o made/new.svg",
    "show net.arch -o made/new.html", "compile net.arch -o made/new.py", "compile net.arch -o made/new.json",
    "compile net.arch --weights net.safetensors -o made/new.py", "compile net.arch -o made/new.onnx",
    "grammar -o made/new.ebnf", "sample space.arch -o made/new.json",
    "optimize space.arch --minimize macs -o made/new.json",
    "scores space.arch --cost macs -o made/new.json", "quantize net.onnx -o made/new.onnx --mode dynamic",
    "export run -o made/new.arch", "export run -o made/new.onnx", "export run -o made/new.py",
    "export run -o made/new.pt2", "bench net.arch --seconds 0.01 --on torch --picture made/new.svg",
    "latency table net.arch -o made/new.json --threads 1",
)  # fmt: skip
SLOW = ("quantize", "export", "bench", "latency", "compile net.arch -o made/new.onnx", "import")
ELSEWHERE = {
    "compare": "pages of two runs",
    "study": "trials of a study",
    "latency fit": "models of many networks",
}
"""Commands whose outputs need more than a network to be made."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a network, its weights and a space, and no memory of what archir wrote elsewhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "net.arch").write_text(NET)
    (tmp_path / "space.arch").write_text(SPACE)
    graph = archir.load("net.arch").graph
    module = archir.compile(graph)
    archir.export(graph, "net.onnx", module)
    from archir import backends

    backends.get("torch").save(module, tmp_path / "net.safetensors")
    return tmp_path


def ran(command: str | Sequence[str]) -> Result:
    return CliRunner().invoke(main, command.split() if isinstance(command, str) else command)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


@pytest.mark.parametrize(
    "command", [pytest.param(one, marks=pytest.mark.soak) if one.startswith(SLOW) else one for one in WITHOUT]
)
def test_foreign_output_files_are_replaced_only_with_force(command: str, home: Path) -> None:
    if " run " in command:
        assert ran("train net.arch -o run --epochs 1 --limit 64 --batch 16").exit_code == 0
    first = ran(command)
    assert first.exit_code == 0, first.output
    assert ran(command).exit_code == 0, "what archir wrote may be replaced"
    made = files(home / "made")
    shutil.rmtree(home / "made")
    for name in made:
        (home / "made").mkdir()
        (home / "made" / name).write_text("mine")
        said = ran(command)
        assert said.exit_code == 1, (name, said.output)
        assert "error[A0809]" in said.output
        assert "--force" in said.output
        assert files(home / "made") == {name: b"mine"}
        shutil.rmtree(home / "made")
    (home / "made").mkdir()
    for name in made:
        (home / "made" / name).write_text("mine")
    assert ran(f"{command} --force").exit_code == 0
    assert b"mine" not in files(home / "made").values()


def every_command() -> Iterator[tuple[str, click.Command]]:
    """Yield each command and each subcommand with its name."""
    for name in main.list_commands(click.Context(main)):
        command = main.get_command(click.Context(main), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((f"{name} {part}", command.commands[part]) for part in command.commands)
        else:
            yield name, command


def test_every_output_option_has_an_overwriting_test() -> None:
    for name, command in every_command():
        outputs = [one.opts[0] for one in command.params if isinstance(one.type, OutputFile)]
        plain = [one for one in command.params if "-o" in one.opts and not isinstance(one.type, OutputFile)]
        assert all(isinstance(one.type, click.Path) and not one.type.file_okay for one in plain), name
        if outputs and name not in ELSEWHERE:
            tried = " ".join(one for one in WITHOUT if one.startswith(f"{name} ")).split()
            assert {*outputs} <= {*tried}, name
            assert any("--force" in one.opts for one in command.params), name


def test_command_does_not_overwrite_its_own_input(home: Path) -> None:
    assert ran("sample space.arch -o a.json").exit_code == 0
    before = (home / "a.json").read_bytes()
    said = ran("compile space.arch --arch a.json --to json -o a.json")
    assert said.exit_code == 1
    assert "the command reads this file" in said.output
    assert (home / "a.json").read_bytes() == before


def test_import_does_not_overwrite_foreign_weights(home: Path) -> None:
    """The name of the weights is that of the program: the user may have taken it."""
    (home / "other.safetensors").write_bytes(before := b"mine")
    said = ran("import net.onnx -o other.arch")
    assert said.exit_code == 1
    assert "cannot write other.safetensors" in said.output
    assert (home / "other.safetensors").read_bytes() == before
    assert not (home / "other.arch").exists()
    with pytest.raises(archir.ArchError, match="cannot write other"):
        archir.save_import(archir.from_onnx("net.onnx"), "other.arch")


def test_program_and_python_file_do_not_replace_the_weights_of_each_other(home: Path) -> None:
    python, program = "compile net.arch --weights net.safetensors -o made/c2.py", "import net.onnx -o made/c2.arch"
    for first, second, owner in ((python, program, "c2.py"), (program, python, "c2.arch")):
        assert ran(first).exit_code == 0
        assert ran(first).exit_code == 0, "a command replaces its own weights"
        before = files(home / "made")
        said = ran(second)
        assert said.exit_code == 1
        weights = Path("made/c2.safetensors")
        assert f"cannot write {weights}: it belongs to {weights.with_name(owner)}" in said.output
        assert "hint: use another name than c2, such as c2_2, or replace it with --force" in said.output
        assert files(home / "made") == before
        assert ran(f"{second} --force").exit_code == 0
        shutil.rmtree(home / "made")


@pytest.mark.parametrize("name", ["architecture.json", "weights.safetensors", "training.json", "checkpoint.json"])
def test_train_does_not_write_into_foreign_folder(name: str, home: Path) -> None:
    (home / "run").mkdir()
    (home / "run" / name).write_text("mine")
    assert ran("train net.arch -o run --epochs 1 --limit 64").exit_code == 1
    assert files(home / "run") == {name: b"mine"}


def test_empty_file_is_overwritten_without_force(home: Path) -> None:
    (home / "a.json").touch()
    assert ran("sample space.arch -o a.json").exit_code == 0


def test_force_does_not_overwrite_an_input_file(home: Path) -> None:
    said = ran("sample space.arch:n -o space.arch --force")
    assert said.exit_code == 1
    assert "cannot write space.arch: the command reads this file\n  hint: name another file\n" in said.output
    assert (home / "space.arch").read_text() == SPACE


def test_show_rejects_other_picture_formats(home: Path) -> None:
    assert "pictures are written as svg" in ran("show net.arch -o net.gif").output
    assert not (home / "net.gif").exists()
