"""Opens networks of timm and torchvision as spaces, and says what of them holds.

    python benchmarks/opening.py [NAME ...] [--settled] [--rows rows.jsonl] [-o FILE]
    python benchmarks/opening.py --random 60 [--seed 41] [--rows rows.jsonl] [-o FILE]

A row is a network with random weights, imported: its parameters, the seconds that opening takes, the choices and
architectures of the space; whether its largest architecture has the import's canonical hash; how many of the
architectures that were drawn trained one step (a finite loss, weights that changed) and were exported (verified against
torch by onnxruntime); and by how much outputs change when channels are ordered by importance: in float32, as a part of
the largest output and of how much outputs differ between samples, and in float64, of the latter. Beside these, how
far outputs in float32 are from those in float64 as the network is: what float32 is good for. With --rows, rows are kept
in a file as they come, and those that are there already are not made again. With --settled, norms have the statistics
of the 64 random images of benchmarks/imports.py, not of the two samples that are compared.

With --random, models are drawn from timm, torchvision and transformers, as many of each, and three things are checked:

- shapes: the largest weights of the space have the names and shapes of the network's;
- load: a supernet loads the network's weights strictly, and its largest architecture computes what the network does;
- subnets: an architecture that is drawn computes, with its part of the weights, what the largest network computes in
  which all other weights are zero (in float64; variances of norms are one).

The last is defined only where a channel that is left out adds nothing to the others. So a drawn architecture keeps the
network's value of each choice that one of these sizes depends on: channels of layer norms, of each group of a group
norm, of each head of an attention that scales by them; axes along which a softmax, a mean, a sum or a matrix product
is taken; positions that a convolution or a pooling reads. Blocks that are left out are left out of both networks, since
no weights stand for a block that does nothing. Models that are not imported or not opened are rows, with the reason.
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
from archir.diagrams.lifting import lift  # noqa: E402
from archir.diagrams.mdd import Value, support  # noqa: E402
from archir.equivalence.canonical import canonical_hash  # noqa: E402
from archir.ir.graph import Graph  # noqa: E402
from archir.ir.op import View  # noqa: E402
from archir.ir.structure import Select  # noqa: E402
from archir.ir.typing import infer  # noqa: E402
from archir.language.elastic.scopes import label_of  # noqa: E402
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
DRAWN = 20
MOST = 1e-5
"""What ordering may change, in parts of the largest output."""
MOST_DOUBLE = 1e-9
"""By how much outputs in float64 may differ, in parts of the largest, where they are equal."""
SECONDS = 90
"""Of processor time, for a model that is drawn."""
BY_POSITION = (_Activation, _Elementwise, Concat, LayerNorm, Linear, Matmul, View, Where)
"""Operations each position of whose result reads that position alone, or has a size of its own above."""
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
    if x.is_floating:
        return torch.randn(2, *x.shape, generator=generator)
    return torch.randint(0, x.integer_limit or 2, (2, *x.shape), generator=generator)


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
    after = order_channels(Trained(network, weights), "l1")
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


@dataclass(frozen=True)
class Subnets:
    """What came of a network that was drawn; `why` says why nothing did."""

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
    """Choices that some architecture had another value of than the network when it was compared."""
    worst: float = 0.0
    """The largest difference of an architecture, in parts of the largest output."""
    why: str = ""

    @property
    def holds(self) -> bool:
        """Whether everything does."""
        return self.shapes and self.loads and self.equal == self.drawn


def drawn_models(count: int, seed: int) -> Iterator[tuple[str, Callable[[], Case]]]:
    """As many families of each library, in the order in which they are drawn."""
    known = {case.name.split()[1]: case for case in cases()}
    importable()
    from timm.models import _registry

    files = {_registry._model_to_module[name]: known[name] for name in TIMM}
    made = {library: families() for library, families in FAMILIES.items()}
    rng = random.Random(seed)
    columns = [
        [(library, name) for name in rng.sample(sorted(made[library]), -(-count // len(made)))] for library in made
    ]
    for library, name in [one for row in zip(*columns, strict=True) for one in row][:count]:
        case = known.get(name) or files.get(name)
        yield f"{library} {name}", made[library][name] or partial(_known, case)


def _known(case: Case | None) -> Case:
    assert case is not None, "a family that benchmarks/imports.py has"
    return case


def subnets(name: str, make: Callable[[], Case], drawn: int = 3, seed: int = 0) -> Subnets:
    """Import a model and open it; what came of it, also of one that is refused or takes too long."""

    def late(*_: object) -> None:
        raise TimeoutError(f"not finished within {SECONDS} s of processor time")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        torch.manual_seed(seed)
        case = make()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "net.arch"
            archir.save_import(archir.from_torch(case.make().eval(), case.example), path)
            begun = time.process_time()
            found = archir.open_network(path)
            seconds = time.process_time() - begun
            return compare(name, archir.load(path).graph, found, drawn, seed, seconds)
    except Exception as error:  # of any library
        code = f"{error.diagnostics[0].code} " if isinstance(error, archir.ArchError) else f"{type(error).__name__}: "
        message = error.diagnostics[0].message if isinstance(error, archir.ArchError) else str(error)
        return Subnets(name, why=code + " ".join(message.split())[:150])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def compare(name: str, network: Graph, found: archir.Opened, drawn: int, seed: int, seconds: float = 0.0) -> Subnets:
    """Check what the head of this file says of a network's space."""
    space = found.space
    module, model = lower(network).eval(), SuperNetwork(space.graph, torch.Generator().manual_seed(0)).eval()
    randomise(module, seed)
    weights = {key: tensor.clone() for key, tensor in module.state_dict().items()}
    shapes = {key: tensor.shape for key, tensor in weights.items()}
    row = Subnets(
        name, archir.cost(network).params, seconds, len(space.choices), str(space.size),
        {key: tensor.shape for key, tensor in model.state_dict().items()} == shapes, drawn=drawn,
    )  # fmt: skip
    if not row.shapes:
        return row
    model.load_state_dict(weights)
    inputs = _inputs(network, seed)
    whole = _outputs(module, inputs)
    row = replace(row, loads=difference(_outputs(extract(model, found.full), inputs), whole) < MOST_DOUBLE)
    kept = {choice.path for choice in support(*sizes(space.graph))}
    removed = {one.label for one in found.opened if one.kind == "depths"}
    full = {choice.path: choice.outcome_count - 1 for choice in space.choices}
    rng, others = random.Random(seed), set()
    for _ in range(drawn):
        chosen = space.sample(rng).outcomes
        outcomes = {path: code if path in kept else chosen.get(path, code) for path, code in full.items()}
        wide = {path: code if label_of(path) in removed else full[path] for path, code in outcomes.items()}
        others |= {path for path in outcomes if outcomes[path] != full[path]}
        part, most = (space.decode([one[choice.path] for choice in space.choices]) for one in (outcomes, wide))
        own = _outputs(extract(model, part), inputs)
        model.load_state_dict(zeroed(weights, model.used(part)))
        change = difference(own, _outputs(extract(model, most), inputs))
        model.load_state_dict(weights)
        row = replace(row, equal=row.equal + (change < MOST_DOUBLE), worst=max(row.worst, change))
    return replace(row, compared=len(others))


def randomise(module: nn.Module, seed: int) -> None:
    """Weights of about the size that they have in training, no two alike; variances and scales from 0.5 to 1.5."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in module.state_dict().items():
        if tensor.is_floating_point():
            fan_in = tensor[0].numel() if tensor.dim() > 1 else 4
            noise = torch.randn(tensor.shape, generator=generator) / max(1, fan_in) ** 0.5
            scales = _is_variance(name) or (tensor.dim() == 1 and name.endswith("weight"))
            tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator) if scales else noise)


def zeroed(weights: Mapping[str, Tensor], used: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights, where an architecture uses them; zero elsewhere, variances one."""
    found = {}
    for name, tensor in weights.items():
        rest = torch.full_like(tensor, 1 if _is_variance(name) else 0)
        found[name] = torch.where(used[name], tensor, rest) if name in used else rest
    return found


def _is_variance(name: str) -> bool:
    return name.endswith("running_var")


def difference(ones: Sequence[Tensor], others: Sequence[Tensor]) -> float:
    """The largest, in parts of the largest number; infinite where shapes differ."""
    if [one.shape for one in ones] != [other.shape for other in others]:
        return float("inf")
    return max(
        float((one - other).abs().max() / other.abs().max().clamp(min=1e-30))
        for one, other in zip(ones, others, strict=True)
    )


def _outputs(module: nn.Module, inputs: Sequence[Tensor]) -> list[Tensor]:
    with torch.no_grad():
        made = module.double()(*inputs)
    return [one.double() for one in (made.values() if isinstance(made, dict) else [made])]


def _inputs(graph: Graph, seed: int) -> list[Tensor]:
    """Two random samples of each input."""
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(2, *x.shape, generator=generator).double()
        if x.is_floating
        else torch.randint(0, x.integer_limit or 2, (2, *x.shape), generator=generator)
        for x in ranged_inputs(graph).values()
    ]


def sizes(graph: Graph) -> Iterator[Value]:
    """Those that the results of kept channels depend on (see the head of this file)."""
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
    """Rows as text."""
    made = [one for one in rows if not one.why]
    held = [one for one in made if one.holds]
    lines = [
        f"Models drawn from timm, torchvision and transformers with seed {seed}, imported and opened by `archir open`;",
        f"python benchmarks/opening.py --random {len(rows)} --seed {seed} made this; its head says what is checked.",
        f"{len(made)} of {len(rows)} were opened; everything holds of {len(held)} of these.",
        f"{'network':44} {'params':>11} {'s':>5} {'choices':>7} {'size':>8} {'shapes':>7} {'loads':>6} "
        f"{'subnets':>7} {'varied':>6} {'worst':>7}",
    ]
    for one in made:
        flags = f"{'equal' if one.shapes else 'DIFFER':>7} {'yes' if one.loads else 'NO':>6}"
        lines.append(
            f"{one.name:44} {one.params:>11,} {one.seconds:>5.1f} {one.choices:>7} {float(one.size):>8.1e} {flags} "
            f"{f'{one.equal}/{one.drawn}':>7} {one.compared:>6} {one.worst:>7.0e}"
        )
    return "\n".join([*lines, *(f"{one.name:44} {one.why}" for one in rows if one.why)]) + "\n"


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
    parser.add_argument("--random", type=int, metavar="COUNT", help="models that are drawn")
    parser.add_argument("--seed", type=int, default=41, help="of the draw [%(default)s]")
    parser.add_argument("--rows", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.random:
        _finish(_drawn(options.random, options.seed, options.rows), options.output)
        return
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
    _finish(table([kept[name] for name in wanted if name in kept], options.settled), options.output)


def _finish(text: str, output: Path | None) -> None:
    if output is not None:
        output.write_text(text, "utf-8")
    print(text)


def _drawn(count: int, seed: int, path: Path | None) -> str:
    """The table of models that are drawn, whose rows are kept in a file if there is one."""
    lines = path.read_text("utf-8").splitlines() if path is not None and path.exists() else []
    kept = {found["name"]: Subnets(**found) for found in map(json.loads, lines)}
    names = []
    for name, make in drawn_models(count, seed):
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
