"""Hostile models, packages and certificates."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

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
    pipe,
    rezipped,
    sealed,
)  # fmt: skip
from tests.hostile.table import CODE, artefact, each

WEIGHTS = "net/data/weights/model_weights_config.json"


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


def verify_model(*arguments: Any, **options: Any) -> Callable[[Place], COMMAND]:
    def make(place: Place) -> COMMAND:
        model(place / "net.onnx", *arguments, **options)
        return verify(place)

    return make


def _loop(place: Place) -> COMMAND:
    nodes, weights = loop(2**62)
    return verify_model(nodes, initializers=weights)(place)


def _outside(location: str) -> Callable[[Place], COMMAND]:
    def make(place: Place) -> COMMAND:
        external(place / "net.onnx", location)
        return verify(place)

    return make


def _quantised(place: Place) -> COMMAND:
    nodes, weights = loop(2**62)
    verify_model(nodes, initializers=weights, shape=["batch", 1, 8, 8])(place)
    return ["quantize", str(place / "net.onnx"), "-o", str(place / "made.onnx")]


CALL = helper.make_node("f60", ["x"], ["y"], domain="q")
OWN = helper.make_function("q", "f60", ["x"], ["y"], [CALL], [helper.make_opsetid("q", 1)])
each(
    "model",
    "A0916",
    {
        "with_2_to_the_62_rounds": _loop, "with_rounds_to_be_quantised": _quantised,
        "of_functions_that_double": verify_model([CALL], functions=doubling(60)),
        "of_a_function_that_calls_itself": verify_model([CALL], functions=[OWN]),
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
        "of_256_gigabytes": verify_model([filled("y", "n")], initializers=[SIZE]),
        "of_tiles": verify_model(
            [helper.make_node("Tile", ["x", "n"], ["y"])], initializers=[constant("n", [1 << 32])]),
        "of_padding": verify_model(
            [helper.make_node("Pad", ["x", "n"], ["y"])], initializers=[constant("n", [1 << 31, 1 << 31])]),
        "of_a_range": verify_model(
            [helper.make_node("Range", ["a", "b", "c"], ["r"]), helper.make_node("Cast", ["r"], ["y"], to=1)],
            initializers=[constant("a", 0), constant("b", 1 << 34), constant("c", 1)]),
        "with_an_input_of_terabytes": verify_model([helper.make_node("Neg", ["x"], ["y"])], shape=[10**6, 10**6]),
        "that_expands": verify_model(
            [helper.make_node("Expand", ["x", "n"], ["y"])], initializers=[constant("n", [1 << 34])]),
        "without_its_weights": verify_model([helper.make_node("Add", ["x", "w"], ["y"])], initializers=[
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
