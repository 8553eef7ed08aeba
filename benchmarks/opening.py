"""Opens networks of timm and torchvision as spaces, and says what of them holds.

    python benchmarks/opening.py [NAME ...] [--settled] [--rows rows.jsonl] [-o FILE]

A row is a network with random weights, imported: its parameters, the seconds that opening takes, the choices and
architectures of the space; whether its largest architecture has the import's canonical hash; how many of the
architectures that were drawn trained one step (a finite loss, weights that changed) and were exported (verified against
torch by onnxruntime); and by how much outputs change when channels are ordered by importance: in float32, as a part of
the largest output and of how much outputs differ between samples, and in float64, of the latter. Beside these, how
far outputs in float32 are from those in float64 as the network is: what float32 is good for. With --rows, rows are kept
in a file as they come, and those that are there already are not made again. With --settled, norms have the statistics
of the 64 random images of benchmarks/imports.py, not of the two samples that are compared.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "backends"), str(ROOT / "grammar")]

import archir  # noqa: E402
from archir.backends.ranges import ranged_inputs  # noqa: E402
from archir.ir.graph import Graph  # noqa: E402
from archir.passes.equivalence.canonical import canonical_hash  # noqa: E402
from archir_torch.lowering.module import lower  # noqa: E402
from archir_torch.search.ordering.measures import Trained  # noqa: E402
from archir_torch.search.ordering.order import ordered  # noqa: E402
from archir_torch.training.recalibration import recalibrate  # noqa: E402
from benchmarks.imports import Case, cases, random_images  # noqa: E402

NAMES = (
    "timm resnet18", "timm resnext50_32x4d", "timm seresnet50", "timm regnety_002", "timm mobilenetv1_100",
    "timm mobilenetv2_050", "timm mobilenetv3_small_050", "timm efficientnet_b0", "timm mnasnet_050",
    "timm lcnet_050", "timm convnext_atto", "timm ghostnet_050", "timm repvgg_a0", "timm vit_tiny_patch16_224",
    "timm deit_tiny_distilled_patch16_224", "timm poolformer_s12", "torchvision squeezenet1_1",
    "torchvision shufflenet_v2_x0_5", "torchvision vgg11", "torchvision alexnet", "timm resnet50",
    "timm mixer_s32_224", "timm swin_tiny_patch4_window7_224", "transformers GPT2LMHeadModel",
    "transformers BertModel", "transformers LlamaForCausalLM",
)  # fmt: skip
DRAWN = 20
MOST = 1e-5
"""What ordering may change, in parts of the largest output."""
PASSES = 30
"""Of samples, by which norms get their statistics."""


@dataclass(frozen=True)
class Row:
    """What came of a network."""

    name: str
    params: int
    seconds: float
    choices: int
    size: str
    same: bool
    trained: int
    exported: int
    drawn: int
    largest: float
    """By how much ordering changes outputs in float32, in parts of the largest output."""
    spread: float
    """The same, in parts of how much outputs differ between samples."""
    double: float
    """The last, in float64."""
    own: float
    """How far outputs in float32 are from those in float64, in parts of the largest, before anything is ordered."""
    moved: bool
    """Whether ordering moved weights, and computed with none."""


def row(case: Case, drawn: int = DRAWN, seed: int = 0, settled: bool = False) -> Row:
    """Import a network, open it, draw architectures, and try what is claimed of them."""
    torch.manual_seed(seed)
    imported = archir.from_torch(case.make().eval(), case.example)
    with tempfile.TemporaryDirectory() as folder:
        archir.save_import(imported, Path(folder) / "net.arch")
        network = archir.load(Path(folder) / "net.arch").graph
        begun = time.perf_counter()
        found = archir.open_network(Path(folder) / "net.arch")
        seconds = time.perf_counter() - begun
        space = found.space
        same = canonical_hash(space.specialize(found.full)) == canonical_hash(imported.graph)
        rng, trained, exported = random.Random(seed), 0, 0
        for _ in range(drawn):
            graph = space.specialize(space.sample(rng))
            module = lower(graph)
            trained += steps(module, graph, seed)
            archir.export(graph, Path(folder) / "drawn.onnx", module.eval())  # which compares them
            exported += 1
    params = archir.cost(network).params
    return Row(case.name, params, seconds, len(space.choices), str(space.size), same, trained, exported, drawn,
               *differences(network, seed, settled))  # fmt: skip


def given(graph: Graph, seed: int) -> Tensor:
    """Two random samples."""
    (x,) = ranged_inputs(graph).values()
    generator = torch.Generator().manual_seed(seed)
    if x.numeric:
        return torch.randn(2, *x.shape, generator=generator)
    return torch.randint(0, x.below or 2, (2, *x.shape), generator=generator)


def steps(module: nn.Module, graph: Graph, seed: int) -> bool:
    """Whether one step of training changes weights, and leaves a finite loss."""
    module.train()
    before = [parameter.detach().clone() for parameter in module.parameters()]
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    loss = sum((one.square().mean() for one in results(module, given(graph, seed))), start=torch.zeros(()))
    loss.backward()
    optimizer.step()
    changed = any(not torch.equal(one, other) for one, other in zip(before, module.parameters(), strict=True))
    return changed and bool(torch.isfinite(loss))


def results(module: nn.Module, x: Tensor) -> list[Tensor]:
    """What a network computes of samples, one tensor for each of its outputs."""
    made = module(x)
    return list(made.values()) if isinstance(made, dict) else [made]


def moved(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> bool:
    """Whether every weight has the numbers that it had, to the bit, in another order or the same."""
    return all(
        torch.equal(tensor.flatten().sort()[0], after[name].flatten().sort()[0]) for name, tensor in before.items()
    )


def differences(network: Graph, seed: int, settled: bool) -> tuple[float, float, float, float, bool]:
    """What `Row` has of outputs when channels are ordered by importance: random weights of unlike channels, with
    statistics of norms that fit them, so that samples do differ."""
    module = lower(network)
    generator = torch.Generator().manual_seed(seed)
    for tensor in module.parameters():
        noise = torch.rand(tensor.shape, generator=generator)
        tensor.data = tensor * (0.5 + noise) if tensor.dim() > 1 else tensor + 0.1 * noise
    x = given(network, seed)
    with torch.no_grad():
        for _ in range(PASSES):
            module.train()(x)
    if settled and x.is_floating_point():
        recalibrate(module, [random_images(x)])
    weights = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
    after = ordered(Trained(network, weights), "l1")
    found, plain = [], []
    for dtype in (torch.float, torch.double):
        outputs = []
        for one in (weights, after):
            module.to(dtype).eval().load_state_dict(one)
            with torch.no_grad():
                outputs.append(results(module, x.to(dtype) if x.is_floating_point() else x))
        plain.append([whole.double() for whole in outputs[0]])
        changes = [(whole, (whole - other).abs().max()) for whole, other in zip(*outputs, strict=True)]
        found.append(
            (
                max(float(change / whole.abs().max()) for whole, change in changes),
                max(float(change / (whole - whole.mean(0)).abs().max()) for whole, change in changes),
            )
        )
    own = max(float((one - exact).abs().max() / exact.abs().max()) for one, exact in zip(*plain, strict=True))
    return *found[0], found[1][1], own, moved(weights, after)


def _said(rows: list[Row]) -> Iterator[str]:
    """What the rows come to."""
    still = [one.name for one in rows if not one.moved]
    if still:
        yield f"Ordering computes with weights of {', '.join(still)}."
    else:
        yield "Ordering moves weights and computes with none: each has the numbers that it had, to the bit."
    close = [one for one in rows if one.largest < MOST]
    yield f"fp32/max is below {MOST:.0e} for {len(close)} of {len(rows)} networks."
    for one in rows:
        if one not in close:
            yield (
                f"{one.name} is not: products are summed in another order, and float32 is off by {one.own:.0e} there "
                f"before anything is ordered; in float64 the same weights differ by {one.double:.0e}."
            )


def table(rows: list[Row], settled: bool = False) -> str:
    """Rows as text."""
    heads = (
        ("params", 11), ("s", 5), ("choices", 7), ("size", 8), ("largest", 8), ("trained", 8), ("exported", 8),
        ("fp32/max", 8), ("fp32/spr", 8), ("fp64/spr", 8), ("own/max", 8),
    )  # fmt: skip
    lines = [
        "Networks with random weights, imported and opened by `archir open`; python benchmarks/opening.py made this.",
        "Last columns: by how much ordering by importance changes outputs. In float32, in parts of the largest output",
        "(fp32/max) and of how much outputs differ between samples (fp32/spr); in float64, of the latter (fp64/spr).",
        "own/max: how far outputs in float32 are from those in float64 without any ordering, in parts of the largest.",
        *(line for text in _said(rows) for line in textwrap.wrap(text, 120)),
        *(["Norms have the statistics of 64 random images (--settled)."] if settled else []),
        " ".join([f"{'network':40}", *(f"{name:>{width}}" for name, width in heads)]),
    ]
    for one in rows:
        parts = f"{one.name:40} {one.params:>11,} {one.seconds:>5.1f} {one.choices:>7} {float(one.size):>8.1e}"
        done = " ".join(f"{f'{count}/{one.drawn}':>8}" for count in (one.trained, one.exported))
        changes = " ".join(f"{change:>8.0e}" for change in (one.largest, one.spread, one.double, one.own))
        lines.append(f"{parts} {'equal' if one.same else 'DIFFERS':>8} {done} {changes}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Make the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--settled", action="store_true")
    parser.add_argument("--rows", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    wanted = options.names or NAMES
    kept: dict[str, Row] = {}
    if options.rows is not None and options.rows.exists():
        kept = {found["name"]: Row(**found) for found in map(json.loads, options.rows.read_text().splitlines())}
    for case in cases():
        if case.name in wanted and case.name not in kept:
            try:
                kept[case.name] = row(case, settled=options.settled)
            except archir.ArchError as error:
                print(f"{case.name}: {error}", file=sys.stderr)
                continue
            print(kept[case.name], flush=True)
            if options.rows is not None:
                with options.rows.open("a") as stream:
                    stream.write(json.dumps(asdict(kept[case.name])) + "\n")
    text = table([kept[name] for name in wanted if name in kept], options.settled)
    if options.output is not None:
        options.output.write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()
