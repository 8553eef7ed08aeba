"""The table of hostile artefacts: what it is, the command that meets it, and the code of what is said."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from archir.search.runs import Run
from tests.hostile.making import (
    COMMAND,
    Place,
    constant,
    device,
    doubling,
    external,
    filled,
    folder,
    large,
    listener,
    loop,
    model,
    npz,
    pipe,
    rehashed,
    remade,
    rezipped,
    sealed,
    zeros,
)  # fmt: skip

WEIGHTS = "net/data/weights/model_weights_config.json"
CODE = "__import__('os').mkdir('it-ran')"


@dataclass(frozen=True)
class Artefact:
    """What is wrong, how it is made, and the codes one of which is said."""

    name: str
    codes: str
    make: Callable[[Place], COMMAND]


TABLE: list[Artefact] = []


def artefact(codes: str) -> Callable[[Callable[[Place], COMMAND]], None]:
    """Put one into the table, under its function's name."""

    def put(make: Callable[[Place], COMMAND]) -> None:
        TABLE.append(Artefact(make.__name__, codes, make))

    return put


def each(name: str, codes: str, entries: dict[str, Callable[[Place], COMMAND]]) -> None:
    """Put several of a kind into the table."""
    TABLE.extend(Artefact(f"{name}_{key}", codes, make) for key, make in entries.items())


def verify(place: Place, name: str = "net.onnx") -> COMMAND:
    return ["verify", str(place / name)]


# packages


def package(change: Callable[[Place, dict[str, bytes]], Any], *more: str) -> Callable[[Place], COMMAND]:
    def make(place: Place) -> COMMAND:
        rezipped(place / "net.pt2", lambda parts: change(place, parts))
        return [*verify(place, "net.pt2"), *more]

    return make


def _pickled(place: Place, parts: dict[str, bytes]) -> None:
    parts[WEIGHTS] = parts[WEIGHTS].replace(b'"use_pickle": false', b'"use_pickle": true')
    parts["net/data/weights/weight_0"] = place.pickled()


def _evaluated(place: Place, parts: dict[str, bytes]) -> None:
    data = json.loads(parts["net/models/model.json"])
    for value in data["graph_module"]["graph"]["tensor_values"].values():
        for size in value["sizes"]:
            if "as_expr" in size:
                size["as_expr"]["expr_str"] = CODE
    parts["net/models/model.json"] = json.dumps(data).encode()


each(
    "package",
    "A0919",
    {
        "pickled_weight": package(_pickled),
        "out_of_the_folder": package(lambda _, parts: parts.update({"net/../../out": b""})),
        "absolute": package(lambda _, parts: parts.update({"/etc/out": b""})),
        "nested_json": package(lambda _, parts: parts.update({"net/models/model.json": b"[" * 10**6})),
        "json_of_numbers": package(lambda _, parts: parts.update({"net/models/model.json": b"1" * 5000})),
        "weight_of_exabytes": package(lambda _, parts: parts.update({
            WEIGHTS: parts[WEIGHTS].replace(b'"as_int": 4', b'"as_int": 40000000000')})),
        "no_description": package(lambda _, parts: parts.pop("net/extra/archir.json")),
        "json_bomb": package(lambda _, parts: parts.update({"net/extra/archir.json": b'{"a":' * 10**6})),
    },
)  # fmt: skip
each(
    "package_trusted_by_another_digest",
    "A0920",
    {
        "pickled_input": package(
            lambda place, parts: parts.update({"net/data/sample_inputs/model.pt": place.pickled()}), "--trust", "0" * 64
        ),
        "evaluated": package(_evaluated, "--trust", "f" * 64),
    },
)


@artefact("A0919")
def package_that_claims_a_huge_directory(place: Place) -> COMMAND:
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 0x7FFFFFFF, 0, 0)
    large(place / "net.pt2", 3 << 30)
    with (place / "net.pt2").open("ab") as stream:
        stream.write(end)
    with (place / "net.pt2").open("r+b") as stream:
        stream.truncate(1 << 20)  # sparse or not, it is hashed
        stream.seek(0, 2)
        stream.write(end)
    sealed(place / "net.pt2")
    return verify(place, "net.pt2")


@artefact("A0919")
def package_that_is_a_library(place: Place) -> COMMAND:
    sealed(place / "net.pt2", lambda content: content["model"].update(form="aot"))
    return verify(place, "net.pt2")


@artefact("A0916")
def package_that_is_a_pipe(place: Place) -> COMMAND:
    pipe(place / "net.pt2")
    return verify(place, "net.pt2")


# certificates


def certificate(change: Callable[[dict[str, Any]], Any]) -> Callable[[Place], COMMAND]:
    def make(place: Place) -> COMMAND:
        sealed(place / "net.onnx", change)
        return verify(place)

    return make


def instead(put: Callable[[Path], Any], name: str = "net.onnx.json") -> Callable[[Place], COMMAND]:
    def make(place: Place) -> COMMAND:
        put(place / name)
        return verify(place)

    return make


def tolerance(value: Any) -> Callable[[Place], COMMAND]:
    return certificate(lambda content: content["computed"].update(tolerance=value))


each(
    "certificate",
    "A0917",
    {
        "infinite": tolerance(float("inf")), "no_number": tolerance(float("nan")), "negative": tolerance(-1.0),
        "that_allows_all": tolerance(1e9), "with_a_truth": tolerance(True), "with_4000_digits": tolerance(10**4000),
        "of_infinite_outputs": certificate(lambda c: c["computed"].update(outputs={"logits": [float("inf")] * 10})),
        "of_a_million_numbers": certificate(lambda c: c["computed"].update(outputs={"logits": [0.0] * 10**6})),
        "of_files_elsewhere": certificate(lambda c: c["files"].update({"../../etc/passwd": {}})),
        "of_a_folder": certificate(lambda c: c["files"].update({"..": c["files"]["net.onnx"]})),
        "of_large_inputs": certificate(lambda c: c["computed"].update(sizes={"batch": 10**8})),
        "of_endless_inputs": certificate(lambda c: c["computed"].update(sizes={"batch": 10**40})),
        "that_is_a_pipe": instead(pipe), "that_is_a_device": instead(device), "that_is_a_folder": instead(folder),
        "that_is_a_socket": instead(listener), "of_180_megabytes": instead(large),
        "nested": instead(lambda path: path.write_text("[" * 10**6)),
        "of_lists": instead(lambda path: path.write_text("[" + "[]," * 10**6 + "0]")),
        "with_long_numbers": instead(lambda path: path.write_text('{"schema": ' + "9" * 10**6 + "}")),
        "of_bytes": instead(lambda path: path.write_bytes(bytes(range(256)))),
    },
)  # fmt: skip


@artefact("A0918")
def certificate_of_a_file_that_is_a_pipe(place: Place) -> COMMAND:
    pipe(place / "more.data")
    sealed(place / "net.onnx", lambda content: content["files"].update(
        {"more.data": {"sha256": "0" * 64, "bytes": 0}}))  # fmt: skip
    return verify(place)


# ONNX models


def written(*arguments: Any, **options: Any) -> Callable[[Place], COMMAND]:
    def make(place: Place) -> COMMAND:
        model(place / "net.onnx", *arguments, **options)
        return verify(place)

    return make


def _loop(place: Place) -> COMMAND:
    nodes, weights = loop(2**62)
    return written(nodes, initializers=weights)(place)


def _outside(location: str) -> Callable[[Place], COMMAND]:
    def make(place: Place) -> COMMAND:
        external(place / "net.onnx", location)
        return verify(place)

    return make


def _quantised(place: Place) -> COMMAND:
    nodes, weights = loop(2**62)
    written(nodes, initializers=weights, shape=["batch", 1, 8, 8])(place)
    return ["quantize", str(place / "net.onnx"), "-o", str(place / "made.onnx")]


CALL = helper.make_node("f60", ["x"], ["y"], domain="q")
OWN = helper.make_function("q", "f60", ["x"], ["y"], [CALL], [helper.make_opsetid("q", 1)])
each(
    "model",
    "A0916",
    {
        "with_2_to_the_62_rounds": _loop, "with_rounds_to_be_quantised": _quantised,
        "of_functions_that_double": written([CALL], functions=doubling(60)),
        "of_a_function_that_calls_itself": written([CALL], functions=[OWN]),
        "with_data_above": _outside("../net.onnx"), "with_data_anywhere": _outside("/etc/passwd"),
        "with_data_in_a_device": _outside("/dev/zero"),
        "that_is_a_pipe": instead(pipe, "net.onnx"),
    },
)  # fmt: skip
SIZE = constant("n", [1 << 36])
each(
    "model",
    "A0914 A0915 A0917 A0913 A0918",
    {
        "of_256_gigabytes": written([filled("y", "n")], initializers=[SIZE]),
        "of_tiles": written([helper.make_node("Tile", ["x", "n"], ["y"])], initializers=[constant("n", [1 << 32])]),
        "of_padding": written(
            [helper.make_node("Pad", ["x", "n"], ["y"])], initializers=[constant("n", [1 << 31, 1 << 31])]),
        "of_a_range": written(
            [helper.make_node("Range", ["a", "b", "c"], ["r"]), helper.make_node("Cast", ["r"], ["y"], to=1)],
            initializers=[constant("a", 0), constant("b", 1 << 34), constant("c", 1)]),
        "with_an_input_of_terabytes": written([helper.make_node("Neg", ["x"], ["y"])], shape=[10**6, 10**6]),
        "that_expands": written(
            [helper.make_node("Expand", ["x", "n"], ["y"])], initializers=[constant("n", [1 << 34])]),
        "without_its_weights": written([helper.make_node("Add", ["x", "w"], ["y"])], initializers=[
            TensorProto(name="w", data_type=1, dims=[1 << 20, 1 << 20])]),
    },
)  # fmt: skip


@artefact("A0916")
def model_shown_that_is_a_device(place: Place) -> COMMAND:
    device(place / "net.onnx")
    return ["show", str(place / "net.onnx")]


@artefact("A0916")
def model_of_noise(place: Place) -> COMMAND:
    (place / "net.onnx").write_bytes(np.random.default_rng(0).bytes(10**5))
    return ["show", str(place / "net.onnx")]


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
    def made(place: Place) -> COMMAND:
        make(place / name)
        source = str(place / name)
        return ["train", str(place / "net.arch"), "--data", source, "--epochs", "1", "-o", str(place / "out")]

    return made


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
    for one in folders:
        one.mkdir(exist_ok=True)
        (one / "theirs.py").write_text(f"{CODE}\n")


def _begun(recipe: str, **facts: Any) -> Callable[[Place], COMMAND]:
    """A run that somebody else began, beside modules of the names that are in it, is gone on with."""

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
        "named_by_a_program": _program("import theirs.blocks\n\n" + _NET.format("twice")),
        "named_like_an_operation": _program(_NET.format("theirs")),
    },
)  # fmt: skip
