"""Record what archir prints and writes for all examples, to compare two versions: `baseline.py FOLDER [PATTERN]`.

Run it in both versions and compare the folders with `diff -r`. Every example net, at the small sizes of tests, has a
folder with the output of each command, canonical hashes, and the nodes and outputs of an exported ONNX model; every
strategy has the summary of a small search. Text is recorded as printed; outputs of networks to five digits.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import archir  # noqa: E402
from archir.cli import main  # noqa: E402
from tests.examples import NETS  # noqa: E402

COMMANDS = {
    "check": ["check", "--lint", "FILE"],
    "count": ["count", "--choices", "FILE"],
    "sample": ["sample", "-n", "3", "FILE"],
    "cost": ["cost", "--json", "FILE"],
    "cost_of_parts": ["cost", "--by", "scope", "--depth", "2", "FILE"],
    "cost_of_sample": ["cost", "--json", "--seed", "0", "FILE"],
    "distribution": ["cost", "--distribution", "macs", "FILE"],
    "alternatives": ["cost", "--alternatives", "params", "FILE"],
    "optimize": ["optimize", "--minimize", "params", "FILE"],
    "show": ["show", "FILE"],
    "show_json": ["show", "--json", "--seed", "1", "FILE"],
    "picture": ["show", "--format", "mermaid", "--depth", "2", "FILE"],
    "python": ["compile", "--seed", "0", "--to", "torch", "FILE"],
}

SPACE = """\
net tiny(classes = 10) {
    input image: f32[1, 8, 8]
    x = image |> conv(8) |> batch_norm |> relu
    x = x |> choose op {
        near: conv(8) |> batch_norm
        far: conv(8, dilation=2) |> batch_norm
        skip: identity
    }
    repeat choose depth(1, 2) {
        x = x |> conv(choose width(4, 8)) |> relu
    }
    output logits = x |> global_avg_pool |> linear(classes)
}
"""
RECIPE = """\
title = "{0}"
space = "{1}"
seed = 0
threads = 1
[data]
source = "digits"
{2}
"""
TRAINED = """\
[[phase]]
name = "{0}"
strategy = "{0}"
training = {{ epochs = 1, batch = 256 }}
weights = {{ kind = "sgd", lr = 0.1, momentum = 0.9 }}
{1}
"""
TRIED = """\
[[phase]]
name = "{0}"
strategy = "{0}"
start = {{ weights = "{1}" }}
options = {{ trials = 8 }}
"""
ALPHAS = 'alphas = { kind = "adam", lr = 3e-3 }'
SEARCHES = {
    **{name: TRAINED.format(name, ALPHAS) for name in ("darts", "gdas", "snas")},
    **{name: TRAINED.format("spos", "") + TRIED.format(name, "spos") for name in ("random", "evolution", "nsga2")},
    "sandwich": TRAINED.format("sandwich", "") + TRIED.format("evolution", "sandwich"),
}


def run(arguments: list[str]) -> str:
    """What a command prints, and how it ends."""
    result = CliRunner().invoke(main, arguments)
    shown = re.sub(r"\b\d+(\.\d+)? m?s\b", "TIME", result.output.replace(str(ROOT), ""))
    return f"{shown}\nexit code {result.exit_code} {result.exception if result.exit_code == 70 else ''}\n"


def record_net(net: str, parameters: Mapping[str, Any], folder: Path) -> None:
    """One file for each command on a net, one for canonical hashes, one for an ONNX model."""
    options = [f"-p{name}={_value(value)}" for name, value in parameters.items()]
    for name, words in COMMANDS.items():
        subject = str(ROOT / "examples" / net)
        (folder / f"{name}.txt").write_text(run([*(subject if word == "FILE" else word for word in words), *options]))
    space = archir.load(ROOT / "examples" / net, **parameters)
    samples = [space.specialize(space.sample(seed)) for seed in range(3)]
    (folder / "hashes.txt").write_text("".join(f"{archir.canonical_hash(graph)}\n" for graph in samples))
    path = folder / "net.onnx"
    archir.export(samples[0], path, archir.compile(samples[0], seed=0))
    (folder / "onnx.txt").write_text(described(path))
    path.unlink()


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value)


def described(path: Path) -> str:
    """How often a model has each operator, and its outputs for one input, to five digits."""
    counts = Counter(node.op_type for node in onnx.load(path).graph.node)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    inputs = {}
    for value in session.get_inputs():
        shape = [size if isinstance(size, int) else 2 for size in value.shape]
        real = rng.standard_normal(shape).astype(np.float32)
        inputs[value.name] = real if value.type == "tensor(float)" else np.ones(shape, np.int64)
    outputs = session.run(None, inputs)
    lines = [f"{name} {count}" for name, count in sorted(counts.items())]
    lines += [f"{value.shape} {np.array2string(value.ravel()[:8], precision=5)}" for value in outputs]
    return "\n".join(lines) + "\n"


def record_search(name: str, phases: str, folder: Path) -> None:
    """The summary of a small search, without its times."""
    with TemporaryDirectory() as place:
        work = Path(place)
        (work / "space.arch").write_text(SPACE)
        (work / "recipe.toml").write_text(RECIPE.format(name, "space.arch:tiny", phases))
        shown = run(["search", str(work / "recipe.toml"), "-o", str(work / "run"), "--device", "cpu", "--json"])
    (folder / "search.txt").write_text(re.sub(r'"minutes": [\d.]+', '"minutes": 0', shown.replace(place, "")))


def record(folder: Path, pattern: str) -> None:
    """Record the nets and searches whose names match the pattern."""
    for net, parameters in NETS.items():
        if fnmatch(net, pattern):
            place = folder / net.replace("/", "_").replace(":", "_")
            place.mkdir(parents=True, exist_ok=True)
            try:
                record_net(net, parameters, place)
            except archir.ArchError as error:
                (place / "error.txt").write_text(f"{error}\n")
            print(net, flush=True)
    for name, phases in SEARCHES.items():
        if fnmatch(f"search:{name}", pattern):
            place = folder / f"search_{name}"
            place.mkdir(parents=True, exist_ok=True)
            record_search(name, phases, place)
            print("search", name, flush=True)


if __name__ == "__main__":
    record(Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else "*")
