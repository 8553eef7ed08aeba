"""Fuzzing of files: recipes, graphs, architectures, tables, models, run folders."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from archir import backends
from archir.api import analysis, loading, lowering
from archir.cli import main
from archir.cli import train_folder as runs
from archir.cli.net_arguments import stored_parameters
from archir.costs.latencies import files
from archir.ir.printer import print_graph
from archir.ir.reader import parse_graph
from archir.ir.serial import from_json, to_json
from archir.ir.verify import verify
from archir.language.elaboration.context import Limits
from archir.recipes.parsing import parse
from archir.runs import summaries
from archir.spaces.architecture import read_architecture
from archir.spaces.space import Space
from tests.conftest import EXAMPLES
from tests.fuzz import odd
from tests.fuzz.harness import Case, Maker
from tests.fuzz.options import VALUES
from tests.fuzz.registry import RECIPE, SPACE, begin, kind

TOML = ["[", "]", "[[", "]]", "{", "}", "=", ",", ".", "\n", "'", '"', '"""', "#", "1", "-1", "inf", "nan", "1e308", "true", "[phase]", "\\u0000",
        "9" * 5000, "[" * 2000, "a." * 2000, "1979-05-27", "0x" + "f" * 5000, "18446744073709551616"]  # fmt: skip


@kind
def recipes(folder: Path) -> Maker:
    """Recipes of the examples with damaged text or exchanged values, and a valid recipe with the same changes."""
    texts = [path.read_text("utf-8") for path in sorted(EXAMPLES.rglob("*.toml"))]

    def make(rng: random.Random) -> Case:
        own = rng.random() < 0.3
        text = _exchanged(RECIPE if own else rng.choice(texts), rng)
        return text, lambda: begin(folder, text, {}) if own else parse(text)

    return make


def _exchanged(text: str, rng: random.Random) -> str:
    """Return a TOML text with a few values, lines or characters replaced."""
    lines = text.splitlines(keepends=True)
    for _ in range(rng.randint(1, 3)):
        i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(6):
            case 0:
                lines[i] = lines[j]
            case 1:
                del lines[i]
            case 2:
                lines[i], lines[j] = lines[j], lines[i]
            case 3 if "=" in lines[i]:
                lines[i] = f"{lines[i].split('=')[0]}= {rng.choice([*TOML, *map(repr, odd.NUMBERS[:16])])}\n"
            case _:
                lines[i] = odd.mangled(lines[i], rng, TOML)
        lines = lines or [""]
    return "".join(lines)


GRAPHS = [EXAMPLES / "mobilenet_v2.arch", EXAMPLES / "nas_bench_201" / "nas_bench_201.arch"]


def _graphs(folder: Path) -> list[Any]:
    (folder / "tiny.arch").write_text(SPACE)
    return [loading.graph(path) for path in (folder / "tiny.arch", folder / "tiny.arch", *GRAPHS)]


@kind
def graph_json(folder: Path) -> Maker:
    originals = [to_json(graph) for graph in _graphs(folder)]
    small = [data for data in originals if len(data["nodes"]) < 50] or originals[:1]

    def make(rng: random.Random) -> Case:
        data = odd.damaged(rng.choice(small if rng.random() < 0.9 else originals), rng)
        return data, lambda: _use(from_json(data))

    return make


def _use(graph: Any) -> None:
    verify(graph)
    print_graph(graph)
    json.dumps(to_json(graph))


@kind
def graph_text(folder: Path) -> Maker:
    originals = [print_graph(graph) for graph in _graphs(folder)][:1]
    pieces = [*VALUES, "%0", "%1", "$0", "choice", "node", "output", "require", "block", "case", "select", ": f32[1]"]

    def make(rng: random.Random) -> Case:
        text = odd.mangled(rng.choice(originals), rng, pieces)
        return text, lambda: _use(parse_graph(text))

    return make


@kind
def architectures(folder: Path) -> Maker:
    (folder / "tiny.arch").write_text(SPACE)
    space = loading.load(folder / "tiny.arch")
    originals = [json.loads(space.sample(seed).to_json(space.graph.parameters)) for seed in range(8)]
    other = space.sample(0)

    def make(rng: random.Random) -> Case:
        text = odd.text_of(odd.damaged(rng.choice(originals), rng))
        text = text if rng.random() < 0.8 else odd.mangled(text, rng)

        def take() -> None:
            architecture = read_architecture(text, "a.json")
            analysis.diff(architecture, architecture)  # type: ignore[arg-type]
            graph = loading.graph(
                folder / "tiny.arch", parameters=stored_parameters(architecture), limits=Limits(nodes=2000)
            )
            parsed_space = Space(graph)
            parsed_space.specialize(parsed_space.architecture(architecture.choices))
            assert other == other

        return text, take

    return make


@kind
def latency_tables(folder: Path) -> Maker:
    graph = loading.loads("net n { input x: f32[4]\n output y = x |> relu |> linear(3) }").graph
    entry = {"mean": 2100.0, "spread": 20.0, "samples": 11}
    keys = ["relu(f32[4])", "linear(f32[4], features=3)", "x"]
    original = {
        "schema_version": 1, "device": "cpu", "batch": 1, "threads": 1, "machine": {"processor": "p"},
        "overhead": entry, "correction": {"scale": 1.1, "offset": 5.0, "networks": 3}, "entries": dict.fromkeys(keys, entry),
    }  # fmt: skip

    def make(rng: random.Random) -> Case:
        text = odd.text_of(odd.damaged(original, rng))
        text = text if rng.random() < 0.8 else odd.mangled(text, rng)

        def take() -> None:
            (folder / "t.json").write_bytes(text.encode("utf-8", "surrogatepass"))
            table = files.read_table(folder / "t.json")
            table.check_covers(graph)
            table.estimate(graph)

        return text, take

    return make


@kind
def models(folder: Path) -> Maker:
    """ONNX models with damaged bytes or exchanged fields, as far as archir itself reads them."""
    import onnx

    space = loading.loads(SPACE)
    network = space.specialize(space.sample(0))
    lowering.export(network, folder / "m.onnx", lowering.compile(network), certified=True)
    model_bytes = (folder / "m.onnx").read_bytes()
    proto = onnx.load_model_from_string(model_bytes)
    certificate = json.loads((folder / "m.onnx.json").read_text())
    onnx_backend = backends.get("onnx")

    def make(rng: random.Random) -> Case:
        data = odd.mangled_bytes(model_bytes, rng) if rng.random() < 0.5 else fields(proto, rng)
        facts = certificate if rng.random() < 0.5 else odd.damaged(certificate, rng)

        def take() -> None:
            (folder / "d.onnx").write_bytes(data)
            (folder / "d.onnx.json").write_bytes(odd.text_of(facts).encode("utf-8", "surrogatepass"))
            for read in (_described, onnx_backend.interface, onnx_backend.verify):
                read(folder / "d.onnx")

        return data, take

    def _described(path: Path) -> None:
        result = CliRunner().invoke(main, ["show", str(path), "--traceback"])
        if not isinstance(result.exception, SystemExit | None) or result.exit_code not in (0, 1, 2):
            raise result.exception or AssertionError(result.output)

    return make


def fields(proto: Any, rng: random.Random) -> bytes:
    """Return the bytes of a model with a few exchanged fields."""
    changed = type(proto)()
    changed.CopyFrom(proto)
    for _ in range(rng.randint(1, 3)):
        message = changed
        while True:
            fields = [
                (descriptor, value)
                for descriptor, value in message.ListFields()
                if descriptor.type == descriptor.TYPE_MESSAGE
            ]
            if not fields or rng.random() < 0.3:
                break
            _, value = rng.choice(fields)
            if hasattr(value, "add"):
                if rng.random() < 0.1:
                    value.add().CopyFrom(rng.choice(value))
                message = rng.choice(value)
            else:
                message = value
        _exchange(message, rng)
    return bytes(changed.SerializeToString())


def _exchange(message: Any, rng: random.Random) -> None:
    descriptor = rng.choice(message.DESCRIPTOR.fields)
    if rng.random() < 0.3:
        message.ClearField(descriptor.name)
        return
    values: dict[Any, list[Any]] = {
        str: [*filter(lambda text: "\ud800" not in text, odd.TEXTS)],
        int: [0, 1, -1, 2, 7, 100, 2**31 - 1, -(2**31), 2**62, -(2**63)],
        bytes: [b"", b"\0" * 16, b"\xff" * 7],
        float: [0.0, -1.0, 1e30, float("nan"), float("inf")],
    }
    target = getattr(message, descriptor.name)
    sample: Any = target if not hasattr(target, "append") else None
    for kind_of, choices in values.items():
        try:
            if sample is None:
                target.append(rng.choice(choices))
            elif isinstance(sample, kind_of):
                setattr(message, descriptor.name, rng.choice(choices))
        except (TypeError, ValueError, AttributeError):
            continue


@kind
def run_folders(folder: Path) -> Maker:
    """What `archir train` and `archir search` leave, some of its JSON damaged."""
    trained = folder / "trained"
    network = loading.loads("net n { input x: f32[1, 4, 4]\n output y = x |> flatten |> linear(10) }")
    graph = network.specialize(network.sample(0))
    runs.begin(trained, graph, network.sample(0).to_json(), False)
    module = lowering.compile(graph)
    backends.get("torch").save(module, trained / runs.WEIGHTS)
    runs.finish(
        trained,
        {"accuracy": 0.5, "images": {"source": "digits", "seed": 0, "mean": [0.5], "std": [0.5], "classes": ["a"]}},
    )
    searched = folder / "searched"
    _begin_at(folder, searched)
    files = [*trained.glob("*.json"), *searched.rglob("*.json")]
    original = {file: file.read_text() for file in files}

    def make(rng: random.Random) -> Case:
        file = rng.choice(files)
        text = (
            odd.text_of(odd.damaged(json.loads(original[file]), rng))
            if rng.random() < 0.7
            else odd.mangled(original[file], rng)
        )

        def take() -> None:
            file.write_bytes(text.encode("utf-8", "surrogatepass"))
            try:
                summaries(folder)
                if file.is_relative_to(trained):
                    lowering.compile(runs.open_run(trained).graph)
                else:
                    backends.get("torch").search(None, searched, resume=True, device="cpu", progress=None)
            finally:
                file.write_text(original[file])

        return (file.name, text), take

    return make


def _begin_at(folder: Path, run: Path) -> None:
    where = folder / "of"
    where.mkdir()
    (where / "tiny.arch").write_text(SPACE)
    (where / "r.toml").write_text('space = "tiny.arch"\nexport = false\n[data]\nlimit = 40\n[[phase]]\nname = "a"\nstrategy = "random"\ntraining = { batch = 8 }\n'
                                  'options = { trials = 1, scorer = { kind = "proxies", proxies = ["synflow"] }, objectives = ["synflow:max"] }\n')  # fmt: skip
    backends.get("torch").search(where / "r.toml", run, device="cpu")
