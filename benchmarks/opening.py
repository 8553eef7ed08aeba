"""Open networks of timm and torchvision as elastic spaces, and check the spaces.

    python benchmarks/opening.py [NAME ...] [--settled] [--rows rows.jsonl] [-o FILE]
    python benchmarks/opening.py --random 60 [--seed 41] [--rows rows.jsonl] [-o FILE]

A row is an imported network with random weights: its parameters, the seconds of opening, the choices and architectures
of the space; whether its largest architecture has the import's canonical hash; how many random architectures trained
one step (a finite loss, changed weights) and were exported (verified against torch by onnxruntime); and how much
outputs change when channels are ordered by importance: in float32, relative to the largest output and to the spread of
outputs between samples, and in float64, relative to the spread. The last column is the difference between float32 and
float64 without ordering, for scale. With --rows, finished rows are kept in a file and not computed again. With
--settled, norms have the statistics of the 64 random images of benchmarks/imports.py instead of the two compared
samples.

With --random, the same number of models is sampled from timm, torchvision and transformers each, and three properties
are checked:

- shapes: the largest weights of the space have the names and shapes of the network's;
- load: a supernet loads the network's weights strictly, and its largest architecture computes what the network does;
- subnets: a random architecture computes, with its part of the weights, what the largest network computes with all
  other weights set to zero (in float64; variances of norms are one).

The last property is defined only where a removed channel adds nothing to the others. So a random architecture keeps the
network's value of each choice that one of these sizes depends on: channels of layer norms, of each group of a group
norm, of each head of an attention that scales by them; axes of a softmax, a mean, a sum or a matrix product; positions
that a convolution or a pooling reads. Removed blocks are removed from both networks, since no weights stand for a block
that does nothing. Models that cannot be imported or opened are rows with the reason.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "backends"), str(ROOT / "grammar")]

import archir  # noqa: E402
from archir.backends.input_ranges import ranged_inputs  # noqa: E402
from archir.diagrams.diagram import Value, support  # noqa: E402
from archir.diagrams.lifting import lift  # noqa: E402
from archir.equivalence.canonical import canonical_hash  # noqa: E402
from archir.ir.graph import Graph  # noqa: E402
from archir.ir.op import View  # noqa: E402
from archir.ir.structure import Select  # noqa: E402
from archir.ir.typing import infer  # noqa: E402
from archir.language.elastic.operators import label_of  # noqa: E402
from archir.ops.activation import Cumsum, Softmax, _Activation  # noqa: E402
from archir.ops.arithmetic import Concat, Matmul, Where, _Elementwise  # noqa: E402
from archir.ops.attention import Attention, Rotary  # noqa: E402
from archir.ops.conv import Linear  # noqa: E402
from archir.ops.norm import GroupNorm, LayerNorm, Normalize  # noqa: E402
from archir.ops.pool import MaxOver, MeanOver, SumOver  # noqa: E402
from archir.ops.routing import TopK  # noqa: E402
from archir_torch.lowering.module import lower  # noqa: E402
from archir_torch.reuse.measures import Trained  # noqa: E402
from archir_torch.reuse.order import order_channels  # noqa: E402
from archir_torch.supernet import SuperNetwork, extract  # noqa: E402
from archir_torch.training.recalibration import recalibrate  # noqa: E402
from benchmarks.drawn_imports import FAMILIES  # noqa: E402
from benchmarks.imports import TIMM, Case, cases, importable, random_images  # noqa: E402

NAMES = (
    "timm resnet18", "timm resnext50_32x4d", "timm seresnet50", "timm regnety_002", "timm mobilenetv1_100",
    "timm mobilenetv2_050", "timm mobilenetv3_small_050", "timm efficientnet_b0", "timm mnasnet_050",
    "timm lcnet_050", "timm convnext_atto", "timm ghostnet_050", "timm repvgg_a0", "timm vit_tiny_patch16_224",
    "timm deit_tiny_distilled_patch16_224", "timm poolformer_s12", "torchvision squeezenet1_1",
    "torchvision shufflenet_v2_x0_5", "torchvision vgg11", "torchvision alexnet", "timm resnet50",
    "timm mixer_s32_224", "timm swin_tiny_patch4_window7_224", "transformers GPT2LMHeadModel",
    "transformers BertModel", "transformers LlamaForCausalLM",
)  # fmt: skip
"""Models of the first table, by their names in benchmarks/imports.py."""
SAMPLE_COUNT = 20
"""Number of random architectures of a network."""
MAX_CHANGE = 1e-5
"""Maximum change of outputs by ordering, relative to the largest output."""
MAX_DOUBLE_ERROR = 1e-9
"""Maximum difference of equal outputs in float64, relative to the largest output."""
SECONDS = 90
"""Limit of processor time for a sampled model."""
BY_POSITION = (_Activation, _Elementwise, Concat, LayerNorm, Linear, Matmul, View, Where)
"""Operations whose result at a position reads that position only, or whose sizes `sizes` yields separately."""
PASSES = 30
"""Number of passes from which norms get their statistics."""


@dataclass(frozen=True)
class Row:
    """The result of a network."""

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
    """Change of outputs by ordering, in float32, relative to the largest output."""
    spread: float
    """The same change, relative to the spread of outputs between samples."""
    double: float
    """The change relative to the spread, in float64."""
    own: float
    """Difference between outputs in float32 and in float64 without ordering, relative to the largest output."""
    moved: bool
    """True if ordering only moved weights, without computing any."""


def row(case: Case, count: int = SAMPLE_COUNT, seed: int = 0, recalibrated: bool = False) -> Row:
    """Import and open a network, sample architectures, and check all properties."""
    torch.manual_seed(seed)
    imported = archir.from_torch(case.make().eval(), case.example)
    with tempfile.TemporaryDirectory() as folder:
        archir.save_import(imported, Path(folder) / "net.arch")
        network = archir.load(Path(folder) / "net.arch").graph
        start = time.perf_counter()
        elastic = archir.open_network(Path(folder) / "net.arch")
        seconds = time.perf_counter() - start
        space = elastic.space
        same = canonical_hash(space.specialize(elastic.full)) == canonical_hash(imported.graph)
        rng, trained, exported = random.Random(seed), 0, 0
        for _ in range(count):
            graph = space.specialize(space.sample(rng))
            module = lower(graph)
            trained += trains(module, graph, seed)
            archir.export(graph, Path(folder) / "drawn.onnx", module.eval())  # which verifies the export
            exported += 1
    params = archir.cost(network).params
    return Row(case.name, params, seconds, len(space.choices), str(space.size), same, trained, exported, count,
               *differences(network, seed, recalibrated))  # fmt: skip


def random_samples(graph: Graph, seed: int) -> Tensor:
    """Return two random samples."""
    (x,) = ranged_inputs(graph).values()
    generator = torch.Generator().manual_seed(seed)
    if x.is_floating:
        return torch.randn(2, *x.shape, generator=generator)
    return torch.randint(0, x.integer_limit or 2, (2, *x.shape), generator=generator)


def trains(module: nn.Module, graph: Graph, seed: int) -> bool:
    """True if one training step changes weights and has a finite loss."""
    module.train()
    before = [parameter.detach().clone() for parameter in module.parameters()]
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    loss = sum(
        (output.square().mean() for output in results(module, random_samples(graph, seed))), start=torch.zeros(())
    )
    loss.backward()
    optimizer.step()
    changed = any(not torch.equal(old, new) for old, new in zip(before, module.parameters(), strict=True))
    return changed and bool(torch.isfinite(loss))


def results(module: nn.Module, x: Tensor) -> list[Tensor]:
    """Return a network's outputs, one tensor each."""
    outputs = module(x)
    return list(outputs.values()) if isinstance(outputs, dict) else [outputs]


def is_permuted(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> bool:
    """True if every weight has the same numbers after as before, to the bit, in any order."""
    return all(
        torch.equal(tensor.flatten().sort()[0], after[name].flatten().sort()[0]) for name, tensor in before.items()
    )


def differences(network: Graph, seed: int, recalibrated: bool) -> tuple[float, float, float, float, bool]:
    """Return the last fields of `Row`: the effects of ordering channels by importance.

    Weights are random with different channels, and norms have matching statistics, so that samples do differ.
    """
    module = lower(network)
    generator = torch.Generator().manual_seed(seed)
    for tensor in module.parameters():
        noise = torch.rand(tensor.shape, generator=generator)
        tensor.data = tensor * (0.5 + noise) if tensor.dim() > 1 else tensor + 0.1 * noise
    x = random_samples(network, seed)
    with torch.no_grad():
        for _ in range(PASSES):
            module.train()(x)
    if recalibrated and x.is_floating_point():
        recalibrate(module, [random_images(x)])
    weights = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
    after = order_channels(Trained(network, weights), "l1")
    changes_by_dtype, unordered = [], []
    for dtype in (torch.float, torch.double):
        outputs = []
        for state in (weights, after):
            module.to(dtype).eval().load_state_dict(state)
            with torch.no_grad():
                outputs.append(results(module, x.to(dtype) if x.is_floating_point() else x))
        unordered.append([output.double() for output in outputs[0]])
        changes = [(output, (output - ordered).abs().max()) for output, ordered in zip(*outputs, strict=True)]
        changes_by_dtype.append(
            (
                max(float(change / output.abs().max()) for output, change in changes),
                max(float(change / (output - output.mean(0)).abs().max()) for output, change in changes),
            )
        )
    own = max(float((single - exact).abs().max() / exact.abs().max()) for single, exact in zip(*unordered, strict=True))
    return *changes_by_dtype[0], changes_by_dtype[1][1], own, is_permuted(weights, after)


@dataclass(frozen=True)
class Subnets:
    """The result of a sampled model; `why` is the reason if it could not be imported or opened."""

    name: str
    params: int = 0
    seconds: float = 0.0
    choices: int = 0
    size: str = "0"
    shapes: bool = False
    loads: bool = False
    equal: int = 0
    drawn: int = 0
    compared: int = 0
    """Number of choices with another value than the network's in some compared architecture."""
    worst: float = 0.0
    """Largest difference of an architecture, relative to the largest output."""
    why: str = ""

    @property
    def holds(self) -> bool:
        """True if all properties hold."""
        return self.shapes and self.loads and self.equal == self.drawn


def sampled_models(count: int, seed: int) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Yield names and cases of sampled models, the same number of families of each library, in the order of
    sampling."""
    known_cases = {case.name.split()[1]: case for case in cases()}
    importable()
    from timm.models import _registry

    files = {_registry._model_to_module[name]: known_cases[name] for name in TIMM}
    families_by_library = {library: families() for library, families in FAMILIES.items()}
    rng = random.Random(seed)
    columns = [
        [
            (library, name)
            for name in rng.sample(sorted(families_by_library[library]), -(-count // len(families_by_library)))
        ]
        for library in families_by_library
    ]
    for library, name in [family for row in zip(*columns, strict=True) for family in row][:count]:
        case = known_cases.get(name) or files.get(name)
        yield f"{library} {name}", families_by_library[library][name] or partial(_listed_case, case)


def _listed_case(case: Case | None) -> Case:
    assert case is not None, "a family that benchmarks/imports.py has"
    return case


def subnets(name: str, make: Callable[[], Case], count: int = 3, seed: int = 0) -> Subnets:
    """Import and open a model, and return its result, also if it is refused or takes too long."""

    def on_timeout(*_: object) -> None:
        raise TimeoutError(f"not finished within {SECONDS} s of processor time")

    before = signal.signal(signal.SIGPROF, on_timeout)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        torch.manual_seed(seed)
        case = make()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "net.arch"
            archir.save_import(archir.from_torch(case.make().eval(), case.example), path)
            start = time.process_time()
            elastic = archir.open_network(path)
            seconds = time.process_time() - start
            return compare(name, archir.load(path).graph, elastic, count, seed, seconds)
    except Exception as error:  # of any library
        code = f"{error.diagnostics[0].code} " if isinstance(error, archir.ArchError) else f"{type(error).__name__}: "
        message = error.diagnostics[0].message if isinstance(error, archir.ArchError) else str(error)
        return Subnets(name, why=code + " ".join(message.split())[:150])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def compare(name: str, network: Graph, elastic: archir.Opened, count: int, seed: int, seconds: float = 0.0) -> Subnets:
    """Check the properties of a network's space that the head of this file lists."""
    space = elastic.space
    module, model = lower(network).eval(), SuperNetwork(space.graph, torch.Generator().manual_seed(0)).eval()
    randomise(module, seed)
    weights = {key: tensor.clone() for key, tensor in module.state_dict().items()}
    shapes = {key: tensor.shape for key, tensor in weights.items()}
    row = Subnets(
        name, archir.cost(network).params, seconds, len(space.choices), str(space.size),
        {key: tensor.shape for key, tensor in model.state_dict().items()} == shapes, drawn=count,
    )  # fmt: skip
    if not row.shapes:
        return row
    model.load_state_dict(weights)
    inputs = _inputs(network, seed)
    reference = _outputs(module, inputs)
    row = replace(row, loads=difference(_outputs(extract(model, elastic.full), inputs), reference) < MAX_DOUBLE_ERROR)
    kept = {choice.path for choice in support(*sizes(space.graph))}
    removed = {choice.label for choice in elastic.opened if choice.kind == "depths"}
    full = {choice.path: choice.outcome_count - 1 for choice in space.choices}
    rng, varied_choices = random.Random(seed), set()
    for _ in range(count):
        chosen = space.sample(rng).outcomes
        outcomes = {path: code if path in kept else chosen.get(path, code) for path, code in full.items()}
        wide = {path: code if label_of(path) in removed else full[path] for path, code in outcomes.items()}
        varied_choices |= {path for path in outcomes if outcomes[path] != full[path]}
        subnet, wide_network = (
            space.decode([codes[choice.path] for choice in space.choices]) for codes in (outcomes, wide)
        )
        output = _outputs(extract(model, subnet), inputs)
        model.load_state_dict(masked_weights(weights, model.used(subnet)))
        error = difference(output, _outputs(extract(model, wide_network), inputs))
        model.load_state_dict(weights)
        row = replace(row, equal=row.equal + (error < MAX_DOUBLE_ERROR), worst=max(row.worst, error))
    return replace(row, compared=len(varied_choices))


def randomise(module: nn.Module, seed: int) -> None:
    """Set random weights of about the size of trained ones, all different; variances and scales are from 0.5 to 1.5."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in module.state_dict().items():
        if tensor.is_floating_point():
            fan_in = tensor[0].numel() if tensor.dim() > 1 else 4
            noise = torch.randn(tensor.shape, generator=generator) / max(1, fan_in) ** 0.5
            scales = _is_variance(name) or (tensor.dim() == 1 and name.endswith("weight"))
            tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator) if scales else noise)


def masked_weights(weights: Mapping[str, Tensor], used: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights with zeros where an architecture does not use them; variances are one there."""
    masked = {}
    for name, tensor in weights.items():
        filler = torch.full_like(tensor, 1 if _is_variance(name) else 0)
        masked[name] = torch.where(used[name], tensor, filler) if name in used else filler
    return masked


def _is_variance(name: str) -> bool:
    return name.endswith("running_var")


def difference(values: Sequence[Tensor], references: Sequence[Tensor]) -> float:
    """Return the largest difference, relative to the largest number; infinity if shapes differ."""
    if [value.shape for value in values] != [reference.shape for reference in references]:
        return float("inf")
    return max(
        float((value - reference).abs().max() / reference.abs().max().clamp(min=1e-30))
        for value, reference in zip(values, references, strict=True)
    )


def _outputs(module: nn.Module, inputs: Sequence[Tensor]) -> list[Tensor]:
    with torch.no_grad():
        outputs = module.double()(*inputs)
    return [output.double() for output in (outputs.values() if isinstance(outputs, dict) else [outputs])]


def _inputs(graph: Graph, seed: int) -> list[Tensor]:
    """Return two random samples of each input."""
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(2, *x.shape, generator=generator).double()
        if x.is_floating
        else torch.randint(0, x.integer_limit or 2, (2, *x.shape), generator=generator)
        for x in ranged_inputs(graph).values()
    ]


def sizes(graph: Graph) -> Iterator[Value]:
    """Yield the sizes that the results of kept channels depend on (see the head of this file)."""
    types = infer(graph)
    for number in types:
        op, operands = graph[number].op, [types[operand] for operand in graph.operands(number)]
        if isinstance(op, Select):
            continue
        for x in operands:
            channels = x.dims[x.channel_axis] if x.rank else 1
            match op:
                case GroupNorm(groups=groups):
                    yield lift(_share, channels, groups)
                case LayerNorm() | Normalize() | TopK():
                    yield channels
                case Attention(heads=heads, scale=None) | Rotary(heads=heads):
                    yield lift(_share, channels, heads)
                case Softmax() | Cumsum() | MeanOver() | SumOver() | MaxOver() if x.rank:
                    yield x.dims[op.axis % x.rank]
                case Matmul():
                    yield from x.dims
            if not isinstance(op, BY_POSITION):
                yield from (size for axis, size in enumerate(x.dims) if axis != x.channel_axis)


def _share(channels: int, parts: int) -> int:
    return channels // parts if channels % parts == 0 else -channels


def subnets_table(rows: Sequence[Subnets], seed: int) -> str:
    """Return the table of sampled models."""
    opened = [row for row in rows if not row.why]
    held = [row for row in opened if row.holds]
    lines = [
        f"Models drawn from timm, torchvision and transformers with seed {seed}, imported and opened by `archir open`;",
        f"python benchmarks/opening.py --random {len(rows)} --seed {seed} made this; its head says what is checked.",
        f"{len(opened)} of {len(rows)} were opened; everything holds of {len(held)} of these.",
        f"{'network':44} {'params':>11} {'s':>5} {'choices':>7} {'size':>8} {'shapes':>7} {'loads':>6} "
        f"{'subnets':>7} {'varied':>6} {'worst':>7}",
    ]
    for row in opened:
        flags = f"{'equal' if row.shapes else 'DIFFER':>7} {'yes' if row.loads else 'NO':>6}"
        lines.append(
            f"{row.name:44} {row.params:>11,} {row.seconds:>5.1f} {row.choices:>7} {float(row.size):>8.1e} {flags} "
            f"{f'{row.equal}/{row.drawn}':>7} {row.compared:>6} {row.worst:>7.0e}"
        )
    return "\n".join([*lines, *(f"{row.name:44} {row.why}" for row in rows if row.why)]) + "\n"


def _summary(rows: list[Row]) -> Iterator[str]:
    """Yield sentences that summarise the rows."""
    changed = [row.name for row in rows if not row.moved]
    if changed:
        yield f"Ordering computes with weights of {', '.join(changed)}."
    else:
        yield "Ordering moves weights and computes with none: each has the numbers that it had, to the bit."
    close = [row for row in rows if row.largest < MAX_CHANGE]
    yield f"fp32/max is below {MAX_CHANGE:.0e} for {len(close)} of {len(rows)} networks."
    for row in rows:
        if row not in close:
            yield (
                f"{row.name} is not: products are summed in another order, and float32 is off by {row.own:.0e} there "
                f"before anything is ordered; in float64 the same weights differ by {row.double:.0e}."
            )


def table(rows: list[Row], recalibrated: bool = False) -> str:
    """Return the table of networks."""
    heads = (
        ("params", 11), ("s", 5), ("choices", 7), ("size", 8), ("largest", 8), ("trained", 8), ("exported", 8),
        ("fp32/max", 8), ("fp32/spr", 8), ("fp64/spr", 8), ("own/max", 8),
    )  # fmt: skip
    lines = [
        "Networks with random weights, imported and opened by `archir open`; python benchmarks/opening.py made this.",
        "Last columns: by how much ordering by importance changes outputs. In float32, in parts of the largest output",
        "(fp32/max) and of how much outputs differ between samples (fp32/spr); in float64, of the latter (fp64/spr).",
        "own/max: how far outputs in float32 are from those in float64 without any ordering, in parts of the largest.",
        *(line for text in _summary(rows) for line in textwrap.wrap(text, 120)),
        *(["Norms have the statistics of 64 random images (--settled)."] if recalibrated else []),
        " ".join([f"{'network':40}", *(f"{name:>{width}}" for name, width in heads)]),
    ]
    for row in rows:
        parts = f"{row.name:40} {row.params:>11,} {row.seconds:>5.1f} {row.choices:>7} {float(row.size):>8.1e}"
        done = " ".join(f"{f'{count}/{row.drawn}':>8}" for count in (row.trained, row.exported))
        changes = " ".join(f"{change:>8.0e}" for change in (row.largest, row.spread, row.double, row.own))
        lines.append(f"{parts} {'equal' if row.same else 'DIFFERS':>8} {done} {changes}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--settled", action="store_true")
    parser.add_argument("--random", type=int, metavar="COUNT", help="number of sampled models")
    parser.add_argument("--seed", type=int, default=41, help="seed of the sample [%(default)s]")
    parser.add_argument("--rows", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.random:
        _finish(_sampled_table(options.random, options.seed, options.rows), options.output)
        return
    names = options.names or NAMES
    kept: dict[str, Row] = {}
    if options.rows is not None and options.rows.exists():
        kept = {
            row_data["name"]: Row(**row_data) for row_data in map(json.loads, options.rows.read_text().splitlines())
        }
    for case in cases():
        if case.name in names and case.name not in kept:
            try:
                kept[case.name] = row(case, recalibrated=options.settled)
            except archir.ArchError as error:
                print(f"{case.name}: {error}", file=sys.stderr)
                continue
            print(kept[case.name], flush=True)
            if options.rows is not None:
                with options.rows.open("a") as stream:
                    stream.write(json.dumps(asdict(kept[case.name])) + "\n")
    _finish(table([kept[name] for name in names if name in kept], options.settled), options.output)


def _finish(text: str, output: Path | None) -> None:
    if output is not None:
        output.write_text(text, "utf-8")
    print(text)


def _sampled_table(count: int, seed: int, path: Path | None) -> str:
    """Return the table of sampled models; with `path`, finished rows are kept there."""
    lines = path.read_text("utf-8").splitlines() if path is not None and path.exists() else []
    kept = {row_data["name"]: Subnets(**row_data) for row_data in map(json.loads, lines)}
    names = []
    for name, make in sampled_models(count, seed):
        names.append(name)
        if name not in kept:
            kept[name] = subnets(name, make)
            print(kept[name], flush=True)
            if path is not None:
                with path.open("a") as stream:
                    stream.write(json.dumps(asdict(kept[name])) + "\n")
    return subnets_table([kept[name] for name in names], seed)


if __name__ == "__main__":
    main()
