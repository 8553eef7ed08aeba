"""Hostile run folders, data, recipes and programs, and the modules that they name."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from archir.runs import Run
from tests.hostile.making import (
    COMMAND,
    Place,
    device,
    large,
    npz,
    pipe,
    rehashed,
    remade,
    zeros,
)  # fmt: skip
from tests.hostile.table import CODE, artefact, each

# folders of runs


def training(change: Callable[[Path], Any], *more: str) -> Callable[[Place], COMMAND]:
    def make(place: Place) -> COMMAND:
        change(place / "run")
        return ["export", str(place / "run"), *(more or ("--to", "python")), "-o", str(place / "made.py")]

    return make


def named(place: str, name: str) -> Callable[[Path], None]:
    def put(network: dict[str, Any]) -> None:
        match place:
            case "net":
                network["name"] = name
            case "input":
                network["nodes"][0]["attributes"]["label"] = name
            case "output":
                network["outputs"] = dict.fromkeys([name], next(iter(network["outputs"].values())))
            case "scope":
                network["nodes"][1]["scope"] = name
            case "block":
                network["blocks"] = {"conv": name}

    return lambda run: rehashed(run, "network.json", put)


each(
    "training",
    "A0705",
    {
        "with_code_as_its_name": training(named("net", f'x"""\n{CODE}\n"""')),
        "with_code_as_an_input": training(named("input", f"x={CODE}")),
        "with_code_as_an_output": training(named("output", f'y": {CODE}, "z')),
        "with_code_as_a_scope": training(named("scope", f'a"] = {CODE}; self._modules["b')),
        "with_code_as_a_block": training(named("block", f"b: pass\n{CODE}\nclass c")),
        "of_a_nested_network": training(lambda run: rehashed(run, "network.json", lambda _: {"schema": [[[]]]})),
        "of_huge_dimensions": training(lambda run: rehashed(
            run, "network.json", lambda data: data["nodes"][0]["attributes"].update(dims=[-1, 8, 8]))),
    },
)  # fmt: skip
each(
    "training",
    "A1205",
    {
        "whose_hashes_are_a_pipe": training(lambda run: pipe(run / "hashes.json")),
        "whose_network_is_a_device": training(lambda run: device(run / "network.json")),
        "whose_hashes_are_large": training(lambda run: large(run / "hashes.json")),
        "whose_network_was_changed": training(lambda run: (run / "network.json").write_text("{}")),
        "of_deep_hashes": training(lambda run: (run / "hashes.json").write_text("[" * 10**6)),
    },
)


@artefact("A0905 A0902")
def training_of_other_weights(place: Place) -> COMMAND:
    (place / "run" / "weights.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}" * 100)
    rehashed(place / "run", "training.json", lambda _: None)
    return ["export", str(place / "run"), "--to", "python", "-o", str(place / "made.py")]


def search(change: Callable[[Path], Any]) -> Callable[[Place], COMMAND]:
    def make(place: Place) -> COMMAND:
        change(place / "search")
        return ["export", str(place / "search"), "-o", str(place / "made.onnx")]

    return make


def _lists(name: str) -> Callable[[Path], None]:
    return lambda run: remade(run, lambda data: data["files"].update({name: {"bytes": 1, "sha256": "0"}}))


each(
    "search",
    "A1802 A1803 A1804 A1806",
    {
        "whose_manifest_is_a_pipe": search(lambda run: pipe(run / "manifest.json")),
        "whose_manifest_is_large": search(lambda run: large(run / "manifest.json")),
        "with_files_above": search(_lists("../../etc/passwd")), "with_files_anywhere": search(_lists("/etc/passwd")),
        "that_is_moved_out": search(lambda run: remade(run, lambda data: data["pending"].update({"a": "../../b"}))),
        "whose_recipe_is_a_pipe": search(lambda run: pipe(run / "recipe.toml")),
        "whose_recipe_is_a_device": search(lambda run: device(run / "recipe.toml")),
        "whose_journal_is_noise": search(lambda run: (run / "metrics.sqlite").write_bytes(b"SQLite format 3\0" * 500)),
        "of_a_nested_manifest": search(lambda run: (run / "manifest.json").write_text("[" * 10**6)),
    },
)  # fmt: skip


# data


def data(make: Callable[[Path], Any], name: str = "x.npz") -> Callable[[Place], COMMAND]:
    def make_command(place: Place) -> COMMAND:
        make(place / name)
        source = str(place / name)
        return ["train", str(place / "net.arch"), "--data", source, "--epochs", "1", "-o", str(place / "out")]

    return make_command


def _objects(path: Path) -> None:
    from tests.hostile.making import Runs

    array = np.empty(2, object)
    array[:] = [Runs(path.with_name("it-ran"))] * 2
    npz(path, images=array, labels=np.zeros(2, np.int64))


def _idx(path: Path) -> None:
    path.mkdir()
    for part in ("train", "t10k"):
        with gzip.open(path / f"{part}-images-idx3-ubyte.gz", "wb", compresslevel=1) as stream:
            stream.write(struct.pack(">4I", 0x803, 200, 1 << 10, 1 << 10))
            for _ in range(200):
                stream.write(bytes(1 << 20))
        with gzip.open(path / f"{part}-labels-idx1-ubyte.gz", "wb") as stream:
            stream.write(struct.pack(">2I", 0x801, 200) + bytes(200))


IMAGES = np.zeros((4, 8, 8), np.uint8)
each(
    "data",
    "A1101 A1102 A1103",
    {
        "of_objects": data(_objects), "of_a_gigabyte_of_zeros": data(lambda path: zeros(path, 1 << 30)),
        "that_is_a_pipe": data(pipe), "that_is_a_device": data(device),
        "that_is_no_archive": data(lambda path: path.write_bytes(b"PK\5\6" + b"\xff" * 18)),
        "of_texts": data(lambda path: npz(path, images=np.array(["a"] * 4), labels=np.arange(4))),
        "of_what_is_no_number": data(
            lambda path: npz(path, images=np.full((4, 8, 8), np.nan, np.float32), labels=np.arange(4))),
        "of_labels_beyond": data(lambda path: npz(path, images=IMAGES, labels=np.full(4, 2**62))),
        "packed_a_thousandfold": data(_idx, "idx"),
    },
)  # fmt: skip


# recipes


def recipe(text: str | Callable[[Path], Any]) -> Callable[[Place], COMMAND]:
    def make(place: Place) -> COMMAND:
        path = place / "recipe.toml"
        path.write_text(text) if isinstance(text, str) else text(path)
        return ["search", str(path), "-o", str(place / "runs")]

    return make


HEAD = 'space = "net.arch"\ndata = {{ source = "digits" }}\n[[phase]]\nname = "a"\nstrategy = "random"\n{}\n'
each(
    "recipe",
    "A2201 A1109 A1101 A2206 A0801",
    {
        "that_is_a_pipe": recipe(pipe), "that_is_a_device": recipe(device), "of_180_megabytes": recipe(large),
        "of_nested_lists": recipe("x = " + "[" * 10**5), "with_nul": recipe('space = "a\0b"'),
        "of_long_numbers": recipe("seed = " + "9" * 10**5),
        "with_a_rate_without_end": recipe(HEAD.format("training = { lr = inf }")),
        "with_a_seed_too_large": recipe("seed = 99999999999999999999\n" + HEAD.format("")),
        "whose_space_is_a_device": recipe(HEAD.replace("net.arch", "/dev/zero").format("")),
    },
)  # fmt: skip
each(
    "program",
    "A0801",
    {
        "that_is_a_pipe": lambda place: (pipe(place / "p.arch"), ["check", str(place / "p.arch")])[1],
        "that_is_a_device": lambda place: ["check", "/dev/zero"],
        "with_an_architecture_that_is_a_pipe": lambda place: (
            pipe(place / "a.json"), ["cost", str(place / "net.arch"), "--arch", str(place / "a.json")])[1],
    },
)  # fmt: skip


# modules that files name


def _modules(*folders: Path) -> None:
    for folder in folders:
        folder.mkdir(exist_ok=True)
        (folder / "theirs.py").write_text(f"{CODE}\n")


def _begun(recipe: str, **facts: Any) -> Callable[[Place], COMMAND]:
    """Return a command that resumes a stranger's run, beside modules with the names in it."""

    def make(place: Place) -> COMMAND:
        run = place / "begun"
        inputs = {"recipe.toml": 'space = "net.arch"\n' + recipe, "overrides.json": "{}"}
        inputs |= dict.fromkeys(("theirs.py", "space/theirs.py"), f"{CODE}\n")
        with Run.create(run, "theirs", inputs, facts):
            pass
        _modules(place.folder)
        return ["search", "--resume", str(run)]

    return make


def _program(text: str) -> Callable[[Place], COMMAND]:
    def make(place: Place) -> COMMAND:
        _modules(place.folder, place / "theirs")
        (place / "theirs" / "blocks.arch").write_text("block twice(x) {\n    return x\n}\n")
        (place / "their.arch").write_text(text)
        return ["check", str(place / "their.arch")]

    return make


_PHASE = '[[phase]]\nname = "a"\nstrategy = "random"\n'
_NET = "net n {{\n    input x: f32[1, 8, 8]\n    output y = x |> {}\n}}\n"
each(
    "module",
    "A3105 A0201 A0804",
    {
        "named_by_a_run": _begun('plugins = ["theirs"]\n' + _PHASE),
        "named_by_the_environment_of_a_run": _begun(_PHASE, plugins=["theirs"]),
        "of_an_objective_of_a_run": _begun(_PHASE + 'objective = { kind = "theirs:Theirs" }\n'),
        "of_data_of_a_run": _begun('[data]\nsource = "theirs:Theirs"\n' + _PHASE),
        "of_python_s_own_that_a_run_calls": _begun('[data]\nsource = "os:fork"\n' + _PHASE),
        "named_by_a_program": _program("import theirs.blocks\n\n" + _NET.format("twice")),
        "named_like_an_operation": _program(_NET.format("theirs")),
    },
)  # fmt: skip
