"""Export 30 networks in every form, load the models in several runtimes, and compare the outputs with onnxruntime's.

    python benchmarks/runtimes.py [NAME ...] [--rows rows.jsonl]

The networks are random architectures of the examples at small sizes, and models of timm and transformers with random
weights. archir compares each float model with torch while it exports it; here, the other runtimes are compared with
onnxruntime. Two int8 models may differ by twice the difference between onnxruntime's int8 and float32 model, and by at
least 5%. With --rows, finished models are kept in a file and not computed again. The figures are stored in
`benchmarks/results/runtimes_cpu.txt` if no NAME is given. onnxruntime-web is looked for in `editors/studio`, or the
folder in the environment variable ONNXRUNTIME_WEB.
"""

from __future__ import annotations

import argparse
import atexit
import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "backends"), str(ROOT / "grammar")]

import archir  # noqa: E402
from archir import backends  # noqa: E402
from archir.backends.comparison import random_inputs  # noqa: E402
from archir.backends.input_ranges import ranged_inputs  # noqa: E402
from archir.backends.samples import Samples  # noqa: E402
from archir.ir.graph import Graph  # noqa: E402
from archir.passes.resize import resize, valid_sizes  # noqa: E402
from archir_onnx.lowering.export_options import make_options  # noqa: E402
from archir_onnx.lowering.interface import denormalize_inputs  # noqa: E402
from archir_onnx.quantization.quantize import TOLERANCE as INT8_TOLERANCE  # noqa: E402
from archir_onnx.verification.verify import TOLERANCES  # noqa: E402
from benchmarks.imports import cases, randomise_statistics, stabilise_norms  # noqa: E402
from benchmarks.measure import Table, machine  # noqa: E402
from tests.examples import EXAMPLES, NETS  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "runtimes_cpu.txt"
SPACES = (
    "autoformer/autoformer.arch:autoformer_tiny", "autola/autola.arch:autola", "darts/darts.arch:darts",
    "full_attention/full_attention.arch:full_attention", "glit/glit.arch:glit",
    "mobilenet_v3_ofa/mobilenet_v3_ofa.arch:mobilenet_v3_ofa", "nos/nos.arch:nos", "trionet/trionet.arch:trionet",
    "deit_tiny.arch:deit_tiny", "mobilenet_v2.arch:mobilenet_v2", "resnet50.arch:resnet50", "shrink/cifar.arch:full",
    "nas_bench_201/nas_bench_201.arch:nas_bench_201", "nas_fpn/nas_fpn.arch:nas_fpn", "zoo/nas_unet.arch:nas_unet",
    "tasks/language/gpt.arch:gpt", "tasks/series/series.arch:series", "tasks/sounds/words.arch:words",
    "tasks/table/houses.arch:houses", "zoo/hat.arch:hat", "zoo/llama.arch:llama",
)  # fmt: skip
"""Nets of the examples, of which the first random architecture is exported."""
IMPORTED = (
    "timm resnet18", "timm mobilenetv3_small_050", "timm efficientnet_b0", "timm convnext_atto", "timm poolformer_s12",
    "timm mobilevit_xxs", "timm vit_tiny_patch16_224", "transformers GPT2LMHeadModel", "transformers BertModel",
)  # fmt: skip
"""Models of `benchmarks/imports.py`."""
FORMS = ("float32", "float16", "preprocess", "open sizes", "int8 static", "int8 dynamic")
CALIBRATION = 16
"""Number of random samples that calibrate int8 models."""

Arrays = Mapping[str, NDArray[Any]]


def run_openvino(path: Path, inputs: Sequence[Arrays]) -> list[Arrays]:
    """Run a model in OpenVINO, which computes in float32."""
    import openvino

    core = openvino.Core()
    compiled = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    names = [output.name for output in onnx.load(path, load_external_data=False).graph.output]  # it may change names
    return [
        {name: array.copy() for name, array in zip(names, compiled(dict(arrays)).values(), strict=True)}
        for arrays in inputs
    ]


@cache
def web_process() -> subprocess.Popen[str]:
    """Return the process of node that runs models in onnxruntime-web; it ends with this one."""
    command = ["node", str(Path(__file__).with_suffix(".mjs")), str(web_folder())]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    atexit.register(process.communicate)  # closes its input, at which it ends
    return process


def run_web(path: Path, inputs: Sequence[Arrays]) -> list[Arrays]:
    """Run a model in onnxruntime-web, in node. Raises RuntimeError with its message."""
    encoded = [{name: encode(array) for name, array in arrays.items()} for arrays in inputs]
    process = web_process()
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps({"model": str(path), "inputs": encoded}), file=process.stdin, flush=True)
    answer = json.loads(process.stdout.readline() or '{"error": "node ended"}')
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return [{name: decode(value) for name, value in outputs.items()} for outputs in answer["outputs"]]


def encode(array: NDArray[Any]) -> dict[str, Any]:
    """Return an array in the form that runtimes.mjs reads."""
    return {
        "type": str(array.dtype), "dims": array.shape, "data": base64.b64encode(array.tobytes()).decode("ascii")
    }  # fmt: skip


def decode(value: Mapping[str, Any]) -> NDArray[Any]:
    """Return an array from the form that runtimes.mjs writes."""
    return np.frombuffer(base64.b64decode(value["data"]), value["type"]).reshape(value["dims"])


def run_tinygrad(path: Path, inputs: Sequence[Arrays]) -> list[Arrays]:
    """Run a model in tinygrad."""
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    runner, outputs = OnnxRunner(path), []
    for arrays in inputs:
        runner.variable_dims.clear()  # it keeps the sizes of its first inputs
        found = runner({name: Tensor(array) for name, array in arrays.items()})
        outputs.append({name: tensor.numpy() for name, tensor in found.items()})
    return outputs


def run_onnxruntime(path: Path, arrays: Arrays) -> Arrays:
    """Run a model in onnxruntime."""
    outputs: Arrays = backends.get("onnx").run(path, arrays)
    return outputs


RUNTIMES: dict[str, Callable[[Path, Sequence[Arrays]], list[Arrays]]] = {
    "OpenVINO": run_openvino, "onnxruntime-web": run_web, "tinygrad": run_tinygrad
}  # fmt: skip


def web_folder() -> Path:
    """Return the folder in whose `node_modules` onnxruntime-web is looked for."""
    return Path(os.environ.get("ONNXRUNTIME_WEB", ROOT / "editors" / "studio"))


@cache
def missing(runtime: str) -> str:
    """Return why a runtime cannot be used here; "" if it can."""
    if runtime == "OpenVINO":
        return "" if find_spec("openvino") else "openvino is not installed"
    if runtime == "onnxruntime-web":
        found = (web_folder() / "node_modules" / "onnxruntime-web").is_dir()
        return "" if found else "onnxruntime-web is not installed: `npm install onnxruntime-web` in editors/studio"
    if find_spec("tinygrad") is None:
        return "tinygrad is not installed"
    from tinygrad import Tensor

    try:
        Tensor([1.0]).exp().tolist()
    except (RuntimeError, OSError) as error:
        return f"tinygrad has no compiler for CPUs: {error}"
    return ""


def difference(found: Sequence[Arrays], wanted: Sequence[Arrays]) -> float:
    """Return the largest difference of outputs, relative to the largest magnitude of each; inf if they do not fit."""
    worst = 0.0
    for outputs, expected in zip(found, wanted, strict=True):
        for name, reference in expected.items():
            array = outputs[name]
            if array.shape != reference.shape or not np.isfinite(array).all():
                return float("inf")
            worst = max(worst, float(np.abs(array - reference).max() / max(np.abs(reference).max(), 1e-30)))
    return worst


@dataclass(frozen=True)
class Network:
    """A network with weights."""

    name: str
    graph: Graph
    module: Any


def networks() -> Iterator[tuple[str, Callable[[], Network]]]:
    """Yield the name of each network with a function that creates it."""
    for net in SPACES:
        yield net.partition(":")[2], lambda n=net: of_space(n)
    known = {case.name: case for case in cases()}
    for name in IMPORTED:
        yield name, lambda n=name: imported(n, known[n])


def of_space(net: str) -> Network:
    """Return the first random architecture of a net of the examples, with random weights and statistics."""
    space = archir.load(EXAMPLES / net, **NETS[net])
    graph = space.specialize(space.sample(0))
    module = archir.compile(graph)
    randomise_statistics(module)
    return Network(net.partition(":")[2], graph, module.eval())


def imported(name: str, case: Any) -> Network:
    """Return an imported model of a library."""
    import torch

    torch.manual_seed(0)
    module = case.make().eval()
    randomise_statistics(module)
    stabilise_norms(module, case.example)
    result = archir.from_torch(module, case.example)
    network = archir.compile(result.graph)
    network.load_state_dict({key: torch.from_numpy(np.array(array)) for key, array in result.weights.items()})
    return Network(name, result.graph, network.eval())


def write(network: Network, form: str, folder: Path) -> tuple[Path, list[Arrays], float]:
    """Write a network in a form; return the model, inputs to compare on, and the tolerance.

    Raises ArchError if archir refuses the form, and LookupError if the form does not exist for this network.
    """
    path = folder / f"{form.replace(' ', '_')}.onnx"
    types = ranged_inputs(network.graph)
    options: dict[str, Any] = {}
    sizes: list[tuple[int, ...]] = []
    if form == "float16":
        options["precision"] = "float16"
    elif form == "preprocess":
        options["scales"] = {
            name: {
                "of": "pixels" if kind.rank == 3 else "numbers",
                "mean": [0.4] * kind.channels,
                "std": [0.3] * kind.channels,
            }
            for name, kind in types.items()
            if kind.dtype == "f32"
        }
        if not options["scales"]:
            raise LookupError
    elif form == "open sizes":
        images = any(kind.rank == 3 for kind in types.values())
        options["dynamic"] = ("batch", "height", "width") if images else ("batch", "tokens")
        sizes = valid_sizes(network.graph, options["dynamic"])[:1]
    float_path = folder / "float32.onnx" if form.startswith("int8") else path
    if not float_path.exists():
        archir.export(network.graph, float_path, network.module, providers=["CPUExecutionProvider"], **options)
    batches = [random_inputs(types, size, seed) for seed, size in enumerate((1, 3))]
    batches += [random_inputs(ranged_inputs(resize(network.graph, *size)), 2, 2) for size in sizes]
    if form.startswith("int8"):
        samples = Samples(random_inputs(types, CALIBRATION, 5), random_inputs(types, CALIBRATION, 6))
        backends.get("onnx").quantize(float_path, path, samples, mode=form.split()[1], seconds=0)
    tolerance = INT8_TOLERANCE if form.startswith("int8") else TOLERANCES[options.get("precision", "float32")]
    scales = make_options(scales=options.get("scales"))
    return path, [denormalize_inputs(arrays, scales) for arrays in batches], tolerance


def attempt(network: Network, form: str, folder: Path, runtimes: Sequence[str]) -> dict[str, Any]:
    """Return the result of a form: `refused` with the reason, or the difference or error of each runtime."""
    try:
        path, inputs, tolerance = write(network, form, folder)
    except archir.ArchError as error:
        return {"refused": f"{error.diagnostics[0].code}: {error.diagnostics[0].message}"}
    except LookupError:
        return {}
    wanted = [run_onnxruntime(path, arrays) for arrays in inputs]
    if form.startswith("int8"):
        in_float = [run_onnxruntime(folder / "float32.onnx", arrays) for arrays in inputs]
        tolerance = max(tolerance, 2 * difference(wanted, in_float))
    cells: dict[str, Any] = {"tolerance": tolerance}
    for name in runtimes:
        try:
            cells[name] = difference(RUNTIMES[name](path, inputs), wanted)
        except Exception as error:
            cells[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[-1][:200] if str(error) else ''}"
    return cells


Rows = dict[str, dict[str, dict[str, Any]]]
"""Results by network and form."""


def is_equal(cells: Mapping[str, Any], runtime: str) -> bool:
    """Return True if a runtime loaded a model and computed the same within the tolerance."""
    return isinstance(cells[runtime], float) and cells[runtime] <= cells["tolerance"]


def summary(rows: Rows) -> Table:
    """Return the table of forms and runtimes."""
    runtimes = [name for name in RUNTIMES if any(name in cells for row in rows.values() for cells in row.values())]
    table = Table(
        f"{len(rows)} networks: models that load and compute the same as in onnxruntime, and the largest difference",
        ["form", "written", "refused", "tolerance", *runtimes],
    )
    for form in FORMS:
        results = [row[form] for row in rows.values() if row.get(form)]
        written = [cells for cells in results if "refused" not in cells]
        figures = []
        for runtime in runtimes:
            tried = [cells for cells in written if runtime in cells]
            equal = [cells[runtime] for cells in tried if is_equal(cells, runtime)]
            figures.append(f"{len(equal)} of {len(tried)}" + (f", {max(equal):.0e}" if equal else ""))
        tolerance = f"{min(cells['tolerance'] for cells in written):.0e}" if written else ""
        table.add(form, str(len(written)), str(len(results) - len(written)), tolerance, *figures)
    return table


def details(rows: Rows) -> Table:
    """Return the table of networks and forms."""
    table = Table("each network", ["network", *FORMS])
    for name, row in rows.items():
        cells = []
        for form in FORMS:
            result = row.get(form, {})
            unequal = [runtime for runtime in RUNTIMES if runtime in result and not is_equal(result, runtime)]
            cells.append(
                "refused" if "refused" in result
                else f"not {', '.join(unequal)}" if unequal
                else "equal" if result else "-"
            )  # fmt: skip
        table.add(name, *cells)
    return table


def reasons(rows: Rows) -> Table:
    """Return the table of forms that were refused, and of models that a runtime did not compute."""
    table = Table("reasons", ["network", "form", "by", "reason"])
    for name, row in rows.items():
        for form, result in row.items():
            if "refused" in result:
                table.add(name, form, "archir", result["refused"])
            for runtime in RUNTIMES:
                if runtime in result and not is_equal(result, runtime):
                    value = result[runtime]
                    table.add(name, form, runtime, value if isinstance(value, str) else f"differs by {value:.1e}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of names [all networks]")
    parser.add_argument("--rows", type=Path, help="file of finished models, as JSON lines; they are not made again")
    parser.add_argument("--on", action="append", choices=[*RUNTIMES], help="runtime [all that are installed]")
    parser.add_argument("--form", action="append", choices=FORMS, help="form [all]")
    arguments = parser.parse_args()
    rows: Rows = {}
    if arguments.rows and arguments.rows.exists():
        for line in arguments.rows.read_text("utf-8").splitlines():
            name, form, cells = json.loads(line)
            rows.setdefault(name, {}).setdefault(form, {}).update(cells)
    for runtime in RUNTIMES:
        if reason := missing(runtime):
            print(f"{runtime} is left out: {reason}")
    runtimes = [name for name in arguments.on or RUNTIMES if not missing(name)]
    for name, make in networks():
        row, network = rows.get(name, {}), None
        if arguments.names and not any(part in name for part in arguments.names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            for form in arguments.form or FORMS:
                left = [runtime for runtime in runtimes if runtime not in row.get(form, ())]
                if form in row and (not left or "tolerance" not in row[form]):
                    continue
                network = network or make()
                cells = attempt(network, form, Path(folder), left)
                rows.setdefault(name, row).setdefault(form, {}).update(cells)
                print(name, form, cells, flush=True)
                if arguments.rows:
                    with arguments.rows.open("a", encoding="utf-8") as file:
                        file.write(json.dumps([name, form, cells]) + "\n")
    packages = ["onnxruntime-gpu", "openvino", "timm", "transformers", *({"tinygrad"} & {*runtimes})]
    versions = ", ".join(f"{package} {version_of(package)}" for package in packages)
    text = "\n\n".join(map(str, (machine("cpu"), versions, summary(rows), details(rows), reasons(rows)))) + "\n"
    print(text)
    if not (arguments.names or arguments.on or arguments.form):
        RESULTS.write_text(text, "utf-8")


def version_of(package: str) -> str:
    """Return the version of an installed package, or a remark that there is none."""
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return "is missing"


if __name__ == "__main__":
    main()
