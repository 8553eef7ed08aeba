"""Measure quantised models: their speed in twenty turns with float32, and what 4-bit weights cost a language model.

python benchmarks/quantizing.py

The image networks have random weights, so that only their speed is measured. "said" is what `archir quantize` reports:
the ratio of times that it measured itself, and its reasons if int8 is not faster.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import onnxruntime

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "backends"), str(ROOT / "grammar")]

import archir  # noqa: E402
from archir import backends  # noqa: E402
from archir.backends.comparison import random_inputs  # noqa: E402
from archir.backends.input_ranges import ranged_inputs  # noqa: E402
from archir.backends.samples import Samples  # noqa: E402
from benchmarks.measure import Table, machine, medians  # noqa: E402
from benchmarks.runtimes import SPACES, of_space  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "quantizing_cpu.txt"
TURNS = 20
SECONDS_OF_TURN = 0.1
FULL_SIZE = {
    "MobileNetV2": "mobilenet_v2.arch", "DeiT-Tiny": "deit_tiny.arch", "ResNet-18": "nos/preliminary.arch:resnet18"
}  # fmt: skip
"""Files of the examples with networks for images of 224 x 224 pixels."""
WINNERS = 8
"""Number of spaces of `runtimes.py`, the first ones, of which an architecture at a small size is measured."""
LANGUAGE = {"vocabulary": 256, "context": 64, "width": 192, "depth": 6, "heads": 6, "each": 32}
"""Parameters of the language model, `zoo/gpt.arch` over bytes."""


def turn(session: onnxruntime.InferenceSession, inputs: Any, runs: int) -> None:
    """Run a model several times."""
    for _ in range(runs):
        session.run(None, inputs)


def in_turns(models: dict[str, Path], inputs: Any) -> dict[str, float]:
    """Return the median milliseconds of a run of each model over TURNS turns, of as many runs for all models."""
    sessions = {name: onnxruntime.InferenceSession(str(path)) for name, path in models.items()}
    for session in sessions.values():
        turn(session, inputs, 3)
    begin = time.perf_counter()
    turn(sessions["float32"], inputs, 3)
    runs = max(1, int(3 * SECONDS_OF_TURN / (time.perf_counter() - begin)))
    times = medians({name: lambda s=session: turn(s, inputs, runs) for name, session in sessions.items()}, TURNS)
    return {name: milliseconds / runs for name, milliseconds in times.items()}


def speeds() -> Table:
    """Return the table of image networks in int8."""
    table = Table(
        f"int8, batch 1, onnxruntime {onnxruntime.__version__}, median of {TURNS} turns",
        ["network", "float32, ms", "int8, ms", "int8 / float32", "mode", "said", "reasons"],
    )
    networks = {name: (lambda n=net: archir.load(ROOT / "examples" / n).graph) for name, net in FULL_SIZE.items()}
    for net in SPACES[:WINNERS]:
        networks[f"{net.partition(':')[2]}, small"] = lambda n=net: of_space(n).graph
    for name, make in networks.items():
        graph = make()
        with tempfile.TemporaryDirectory() as folder:
            models = {"float32": Path(folder, "float32.onnx"), "int8": Path(folder, "int8.onnx")}
            archir.export(graph, models["float32"], archir.compile(graph), providers=["CPUExecutionProvider"])
            types = ranged_inputs(graph)
            made = backends.get("onnx").quantize(
                models["float32"], models["int8"], Samples(random_inputs(types, 8, 0)), seconds=1.0
            )
            times = in_turns(models, random_inputs(types, 1, 1))
        ratio = times["int8"] / times["float32"]
        table.add(
            name, f"{times['float32']:.2f}", f"{times['int8']:.2f}", f"{ratio:.2f}", made.mode,
            f"{made.speed.ratio:.2f}", "; ".join(made.speed.reasons),
        )  # fmt: skip
        print(table.rows[-1], flush=True)
    return table


def language() -> Table:
    """Return the table of a language model over bytes, trained on the documentation, with quantised weights."""
    space = archir.load(ROOT / "examples" / "zoo" / "gpt.arch", **LANGUAGE)
    graph = space.specialize(space.sample(0))
    data, objective = f"text:{ROOT / 'docs'}", {"kind": "next_token"}
    settings = {"objective": objective, "epochs": 1, "limit": 3000, "optimizer": "adamw", "lr": 2e-3, "augment": False}
    module, _ = archir.train(graph, data=data, settings=settings)
    table = Table(
        f"a language model over bytes, {archir.cost(graph).params:,} parameters, trained on docs/",
        ["weights", "MB", "perplexity", "ms for 64 bytes", "layers quantised"],
    )
    with tempfile.TemporaryDirectory() as folder:
        models = {"float32": Path(folder, "float32.onnx")}
        archir.export(graph, models["float32"], module, providers=["CPUExecutionProvider"])
        reports = {}
        for name, mode in (("int8", "dynamic"), ("int4", "int4")):
            models[name] = Path(folder, f"{name}.onnx")
            reports[name] = archir.quantize(
                models["float32"], models[name], data=data, objective=objective, mode=mode, max_loss=100, seconds=0
            )
        times = in_turns(models, random_inputs(ranged_inputs(graph), 1, 1))
        criterion = reports["int8"].criterion
        for name, path in models.items():
            report = reports.get(name)
            quality = (report.after if report else reports["int8"].before)[criterion]
            layers = f"{len(report.layers) - len(report.in_float)} of {len(report.layers)}" if report else ""
            table.add(name, f"{path.stat().st_size / 1e6:.2f}", f"{quality:.4f}", f"{times[name]:.2f}", layers)
    return table


def main() -> None:
    tables = [language(), speeds()]
    text = "\n\n".join(map(str, (machine("cpu"), *tables))) + "\n"
    print(text)
    RESULTS.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
