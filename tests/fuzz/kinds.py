"""Each kind of file and option, and what takes it."""

from __future__ import annotations

import json
import random
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from archir import api, backends
from archir.cli import main
from archir.cli.main import _COMMANDS
from archir.cli.searches import train_folder as runs
from archir.cli.subject import given_parameters
from archir.costs.latencies.table import LatencyTable
from archir.ir.text.printer import print_graph
from archir.ir.text.reader import parse_graph
from archir.ir.text.serial import from_json, to_json
from archir.ir.verify import verify
from archir.language.elaboration.context import Limits
from archir.language.elaboration.parameters import parse_parameter
from archir.search.recipes.reading import parse
from archir.search.runs import summaries
from archir.search.spaces.architecture import read_architecture
from archir.search.spaces.space import Space
from archir_torch.search import preparation as searches
from tests.conftest import EXAMPLES
from tests.fuzz import odd
from tests.fuzz.harness import Case, Kind, Maker

SPACE = """
net tiny(width = 4, ratio = 1/2, acts = [relu, gelu], name = "x") {
    input image: f32[1, 8, 8]
    wide = choose wide(1, 2, 3)
    kernel = choose kernel(1, 3, 5)
    x = image |> conv(width * wide, kernel=kernel, padding="same") |> batch_norm
    if wide == 2 {
        x = x |> choose op @ops {
            none: zero
            act: choose act(relu, gelu)
        }
    }
    require wide > 1 or kernel > 1
    output logits = x |> global_avg_pool |> linear(10, bias=ratio < 1)
}
"""
RECIPE = """space = "tiny.arch"
title = "a title"
seed = 3
threads = 1
[parameters]
width = 8
[data]
limit = 40
classes = 5
weights = 0.5
augment = { shift = 1, flip = true, mixup = 0.2 }
[[phase]]
name = "search"
strategy = "darts"
training = { epochs = 1, batch = 16, label_smoothing = 0.1, ema = 0.9, checkpoint_minutes = 5 }
weights = { kind = "sgd", lr = 0.1, betas = [0.9, 0.99], milestones = [1, 2.5], schedule = "step", clip = 1.0 }
alphas.lr = 1e-3
fixed = { "wid*" = 2 }
open = ["op", "act", "kern*"]
derive = { exclude = ["none"], limit = { labels = ["act"], most = 1 } }
[phase.options]
order = 2
hold = 1
temperature = [1.0, 0.5]
penalty = { cost = "macs", weight = 0.1, target = 1e5 }
curvature = { window = 3, drop = 0.5 }
entropy = { last = 0.1 }
[[phase]]
name = "tries"
strategy = "evolution"
start = { weights = "search" }
options = { preset = "spos", population = 4, where = "macs <= 3M", limit = 5, executor = "processes:2", scorer = { kind = "proxies" } }
"""
KINDS: dict[str, Kind] = {}


def kind(make: Kind) -> Kind:
    """Register a kind by the name of its function."""
    KINDS[make.__name__] = make
    return make


def words(rng: random.Random, known: list[str], count: int) -> str:
    return rng.choice(["", " "]).join(rng.choice(known) for _ in range(rng.randint(1, count)))


# options

VALUES = [
    "1", "-1", "0", "1/2", "1/0", "0/0", "1e400", "1.5", "inf", "nan", "true", "none", "relu", "conv", "x", '"x"', "[", "]", "(", ")",
    ",", "+", "-", "*", "**", "/", "//", "%", "..", "2K", "3M", "9" * 4400, "10 ** 400", "10 ** 10 ** 10", "[0] * 10 ** 9", "1 .. 10 ** 9",
    "for", "in", "if", "else", "==", "<", "and", "or", "not", "range", "sqrt", "log2", "round_to", "len", "sum", ".", "|>", "choose", "{", "}",
    "\n", "#", "=", "@", "image", "wide", "width", "f32", "import", "net",
]  # fmt: skip


@kind
def parameter(folder: Path) -> Maker:
    (folder / "tiny.arch").write_text(SPACE)
    names = ["width", "ratio", "acts", "name", "widht", "", "a.b", "1", "é", "class"]

    def make(rng: random.Random) -> Case:
        value = words(rng, VALUES, 6) if rng.random() < 0.7 else odd.mangled("[1, 2 * (3 + 1/2)]", rng, VALUES)
        text = rng.choice([f"{rng.choice(names)}={value}", f"{rng.choice(names)} = {value}", value])

        def take() -> None:
            name, found = parse_parameter(text)
            api.graph(folder / "tiny.arch", parameters={name: found}, limits=Limits(nodes=2000))

        return text, take

    return make


BOUNDS = [
    "macs",
    "params",
    "kernels",
    "activation_bytes",
    "peak_bytes",
    'latency("x.json")',
    "wide",
    "kernel",
    "op",
    "act",
    "none",
    *VALUES,
]


@kind
def where(folder: Path) -> Maker:
    space = Space(api.loads(SPACE).graph)

    def make(rng: random.Random) -> Case:
        text = (
            words(rng, BOUNDS, 7)
            if rng.random() < 0.5
            else odd.mangled("macs <= 600K and params < 5M or wide == 2", rng, BOUNDS)
        )
        return text, lambda: space.where(text).count()

    return make


@kind
def overrides(folder: Path) -> Maker:
    """`--set`: of a recipe that can begin, which begins or is refused."""
    keys = [".".join(map(str, path)) for path in _paths(tomllib.loads(RECIPE))]
    keys += [key.replace("phase.0", "search").replace("phase.1", "tries") for key in keys]
    keys += [
        "",
        "x",
        "a.b",
        "search",
        "search.",
        ".",
        "..",
        "search.options",
        "phase.0",
        "phase",
        "search.name",
        "tries.name",
        "x" * 300,
    ]
    toml = [
        "[",
        "]",
        "{",
        "}",
        ",",
        "=",
        "1",
        "'",
        '"',
        "\n",
        "[1, 2]",
        "{ a = 1 }",
        "1979-05-27",
        "inf",
        "nan",
        "-1",
        "9" * 5000,
        "[" * 2000,
    ]

    def make(rng: random.Random) -> Case:
        given = {}
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            key = rng.choice(keys) if rng.random() < 0.9 else odd.mangled(rng.choice(keys), rng)
            value = rng.choice([json.dumps(_short(odd.value(rng))), str(_short(odd.value(rng))), words(rng, toml, 4)])
            given[key] = value
        return given, lambda: _begin(folder, RECIPE, given)

    return make


def _short(value: Any) -> Any:
    return value if not isinstance(value, int) or value.bit_length() < 10_000 else 10**4000


def _paths(value: Any, base: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, item in items for path in ((*base, key), *_paths(item, (*base, key)))]


def _begin(folder: Path, recipe: str, given: Mapping[str, str]) -> None:
    """Begin a search, in a folder that is there afterwards only if that was possible."""
    where = folder / "recipe"
    where.mkdir(exist_ok=True)
    (where / "tiny.arch").write_text(SPACE)
    (where / "r.toml").write_bytes(recipe.encode("utf-8", "surrogatepass"))
    try:
        searches.begin(where / "r.toml", folder / "run", given, "cpu").run.close()
    except BaseException:
        assert not (folder / "run").exists(), "something stays behind"
        raise
    shutil.rmtree(folder / "run")


# files

TOML = ["[", "]", "[[", "]]", "{", "}", "=", ",", ".", "\n", "'", '"', '"""', "#", "1", "-1", "inf", "nan", "1e308", "true", "[phase]", "\\u0000",
        "9" * 5000, "[" * 2000, "a." * 2000, "1979-05-27", "0x" + "f" * 5000, "18446744073709551616"]  # fmt: skip


@kind
def recipes(folder: Path) -> Maker:
    """Recipes of the examples, whose text is mangled or whose values are exchanged; and one that can begin."""
    texts = [path.read_text("utf-8") for path in sorted(EXAMPLES.rglob("*.toml"))]

    def make(rng: random.Random) -> Case:
        own = rng.random() < 0.3
        text = _exchanged(RECIPE if own else rng.choice(texts), rng)
        return text, lambda: _begin(folder, text, {}) if own else parse(text)

    return make


def _exchanged(text: str, rng: random.Random) -> str:
    """A text of TOML with a few values, lines or characters replaced."""
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
    return [api.graph(path) for path in (folder / "tiny.arch", folder / "tiny.arch", *GRAPHS)]


@kind
def graph_json(folder: Path) -> Maker:
    known = [to_json(graph) for graph in _graphs(folder)]
    small = [data for data in known if len(data["nodes"]) < 50] or known[:1]

    def make(rng: random.Random) -> Case:
        data = odd.damaged(rng.choice(small if rng.random() < 0.9 else known), rng)
        return data, lambda: _use(from_json(data))

    return make


def _use(graph: Any) -> None:
    verify(graph)
    print_graph(graph)
    json.dumps(to_json(graph))


@kind
def graph_text(folder: Path) -> Maker:
    known = [print_graph(graph) for graph in _graphs(folder)][:1]
    pieces = [*VALUES, "%0", "%1", "$0", "choice", "node", "output", "require", "block", "case", "select", ": f32[1]"]

    def make(rng: random.Random) -> Case:
        text = odd.mangled(rng.choice(known), rng, pieces)
        return text, lambda: _use(parse_graph(text))

    return make


@kind
def architectures(folder: Path) -> Maker:
    (folder / "tiny.arch").write_text(SPACE)
    space = api.load(folder / "tiny.arch")
    known = [json.loads(space.sample(seed).to_json(space.graph.parameters)) for seed in range(8)]
    other = space.sample(0)

    def make(rng: random.Random) -> Case:
        text = odd.text_of(odd.damaged(rng.choice(known), rng))
        text = text if rng.random() < 0.8 else odd.mangled(text, rng)

        def take() -> None:
            written = read_architecture(text, "a.json")
            api.diff(written, written)  # type: ignore[arg-type]
            made = api.graph(folder / "tiny.arch", parameters=given_parameters(written), limits=Limits(nodes=2000))
            found = Space(made)
            found.specialize(found.architecture(written.choices))
            assert other == other

        return text, take

    return make


@kind
def latency_tables(folder: Path) -> Maker:
    graph = api.loads("net n { input x: f32[4]\n output y = x |> relu |> linear(3) }").graph
    entry = {"median": 2100.0, "spread": 20.0, "samples": 11}
    keys = ["relu(f32[4])", "linear(f32[4], features=3)", "x"]
    known = {
        "schema_version": 1, "device": "cpu", "batch": 1, "threads": 1, "machine": {"processor": "p"},
        "overhead": entry, "correction": {"scale": 1.1, "offset": 5.0, "networks": 3}, "entries": dict.fromkeys(keys, entry),
    }  # fmt: skip

    def make(rng: random.Random) -> Case:
        text = odd.text_of(odd.damaged(known, rng))
        text = text if rng.random() < 0.8 else odd.mangled(text, rng)

        def take() -> None:
            (folder / "t.json").write_bytes(text.encode("utf-8", "surrogatepass"))
            table = LatencyTable.read(folder / "t.json")
            table.covers(graph)
            table.estimate(graph)

        return text, take

    return make


@kind
def models(folder: Path) -> Maker:
    """ONNX models, their bytes damaged or their fields exchanged, as far as archir itself reads them."""
    import onnx

    space = api.loads(SPACE)
    network = space.specialize(space.sample(0))
    api.export(network, folder / "m.onnx", api.compile(network), certified=True)
    whole = (folder / "m.onnx").read_bytes()
    proto = onnx.load_model_from_string(whole)
    certificate = json.loads((folder / "m.onnx.json").read_text())
    onnx_backend = backends.get("onnx")

    def make(rng: random.Random) -> Case:
        data = odd.mangled_bytes(whole, rng) if rng.random() < 0.5 else _fields(proto, rng)
        facts = certificate if rng.random() < 0.5 else odd.damaged(certificate, rng)

        def take() -> None:
            (folder / "d.onnx").write_bytes(data)
            (folder / "d.onnx.json").write_bytes(odd.text_of(facts).encode("utf-8", "surrogatepass"))
            for read in (_described, onnx_backend.image_size, onnx_backend.look):
                read(folder / "d.onnx")

        return data, take

    def _described(path: Path) -> None:
        result = CliRunner().invoke(main, ["show", str(path), "--traceback"])
        if not isinstance(result.exception, SystemExit | None) or result.exit_code not in (0, 1, 2):
            raise result.exception or AssertionError(result.output)

    return make


def _fields(proto: Any, rng: random.Random) -> bytes:
    """A model with a few of its fields exchanged."""
    made = type(proto)()
    made.CopyFrom(proto)
    for _ in range(rng.randint(1, 3)):
        message = made
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
    return bytes(made.SerializeToString())


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
    network = api.loads("net n { input x: f32[1, 4, 4]\n output y = x |> flatten |> linear(10) }")
    graph = network.specialize(network.sample(0))
    runs.begin(trained, graph, network.sample(0).to_json(), False)
    module = api.compile(graph)
    backends.get("torch").save(module, trained / runs.WEIGHTS)
    runs.finish(
        trained,
        {"accuracy": 0.5, "images": {"source": "digits", "seed": 0, "mean": [0.5], "std": [0.5], "classes": ["a"]}},
    )
    searched = folder / "searched"
    _begin_at(folder, searched)
    files = [*trained.glob("*.json"), *searched.rglob("*.json")]
    whole = {file: file.read_text() for file in files}

    def make(rng: random.Random) -> Case:
        file = rng.choice(files)
        text = (
            odd.text_of(odd.damaged(json.loads(whole[file]), rng))
            if rng.random() < 0.7
            else odd.mangled(whole[file], rng)
        )

        def take() -> None:
            file.write_bytes(text.encode("utf-8", "surrogatepass"))
            try:
                summaries(folder)
                if file.is_relative_to(trained):
                    api.compile(runs.open_run(trained).graph)
                else:
                    backends.get("torch").search(None, searched, resume=True, device="cpu", watch=None)
            finally:
                file.write_text(whole[file])

        return (file.name, text), take

    return make


def _begin_at(folder: Path, run: Path) -> None:
    where = folder / "of"
    where.mkdir()
    (where / "tiny.arch").write_text(SPACE)
    (where / "r.toml").write_text('space = "tiny.arch"\nexport = false\n[data]\nlimit = 40\n[[phase]]\nname = "a"\nstrategy = "random"\ntraining = { batch = 8 }\n'
                                  'options = { trials = 1, scorer = { kind = "proxies", proxies = ["synflow"] }, objectives = ["synflow:max"] }\n')  # fmt: skip
    backends.get("torch").search(where / "r.toml", run, device="cpu")


# commands

QUICK = sorted(set(_COMMANDS) - {"search", "train", "bench", "quantize", "export", "completion"})


@kind
def commands(folder: Path) -> Maker:
    """Commands with odd options, or with odd values of theirs."""
    (folder / "tiny.arch").write_text(SPACE)
    space = api.load(folder / "tiny.arch")
    (folder / "a.json").write_text(space.sample(0).to_json())
    files = [
        "tiny.arch",
        "tiny.arch",
        "tiny.arch",
        "tiny.arch:tiny",
        "a.json",
        "gone.arch",
        ".",
        "",
        "-",
        "tiny.arch:x",
        "x.onnx",
        "é.arch",
    ]
    odd_values = [
        "0", "1", "-1", "2", "99999999999999999999", "1e400", "inf", "nan", "", "x", "a.json", "tiny.arch", "macs", "params", "op", "act",
        "scope", "text", "json", "svg", "html", "dot", "onnx", "torch", "ir", "fold", "fold,cse", "é", "\x1b[31m", "width=3", "width=x", "width=",
        "macs <= 1K", "macs <", "digits", "naswot", "none", "9" * 5000, "out/file", ".", "cpu", "cuda", "A0101", "A9999",
    ]  # fmt: skip
    every = main.list_commands(None)  # type: ignore[arg-type]

    def make(rng: random.Random) -> Case:
        name = rng.choice(QUICK) if rng.random() < 0.9 else rng.choice(every)
        command = main.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        arguments = [name, *rng.choices(files, k=rng.choice([0, 1, 1, 1, 1, 2, 3]))]
        options = [option for option in command.params if option.opts[0].startswith("-")]
        for option in rng.choices(options, k=rng.choice([0, 1, 1, 2, 3])) if options else ():
            arguments.append(rng.choice(option.opts))
            if not getattr(option, "is_flag", False):
                arguments.append(rng.choice(odd_values) if rng.random() < 0.8 else words(rng, VALUES, 3))

        def take() -> None:
            with _inside(folder):
                result = CliRunner().invoke(main, [*arguments, "--traceback"], input="x")
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            assert result.exit_code in (0, 1, 2), result.exit_code

        return arguments, take

    return make


class _inside:  # noqa: N801  (a context, as contextlib.chdir)
    def __init__(self, folder: Path) -> None:
        from contextlib import chdir

        self._chdir: Any = chdir(folder)

    def __enter__(self) -> None:
        self._chdir.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._chdir.__exit__(*error)
