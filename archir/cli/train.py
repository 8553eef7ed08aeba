"""`archir train`."""

from __future__ import annotations

import json
import os
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from archir import backends
from archir.api.progress import TrainingProgress
from archir.backends import naming
from archir.cli import train_folder
from archir.cli.kinds import Place
from archir.cli.options import SEED, SOURCES, arch_options, net_options, objective_settings
from archir.cli.output import emit, repeated, resumable, say
from archir.cli.subject import picked
from archir.cli.trial import tried
from archir.diagnostics.errors import ArchError
from archir.diagnostics.work import MOST_THREADS
from archir.language.elaboration.context import Limits
from archir.passes.cost import cost
from archir.recipes import borrowing
from archir.search.fronts.figures import shown


@click.command("train")
@click.argument("file", metavar="[FILE[:NET]]", type=Place(), required=False)
@click.option("--data", default="digits", show_default=True, help=f"Data: {SOURCES}.")
@click.option(
    "--objective",
    default="classification",
    show_default=True,
    callback=objective_settings,
    help="What is minimised: a kind, or a TOML table of settings (docs/objectives.md).",
)
@click.option("-o", "--output", type=Place(file_okay=False, path_type=Path), required=True, help="Folder of the run.")
@click.option("--epochs", type=int, default=20, show_default=True)
@click.option("--batch", type=int, default=64, show_default=True, help="Samples in a step.")
@click.option("--lr", type=float, default=2e-3, show_default=True, help="Largest learning rate.")
@click.option("--optimizer", type=click.Choice(["adamw", "sgd"]), default="adamw", show_default=True)
@click.option("--weight-decay", type=float, default=0.01, show_default=True)
@click.option("--warmup", "warmup_epochs", type=float, default=1, show_default=True, help="Epochs of linear warm-up.")
@click.option("--schedule", type=click.Choice(["cosine", "constant"]), default="cosine", show_default=True)
@click.option("--label-smoothing", type=float, default=0.0, show_default=True)
@click.option("--precision", type=click.Choice(["auto", "float32", "bf16"]), default="auto", show_default=True)
@click.option("--augment/--no-augment", default=True, show_default=True, help="Shift images by up to an eighth.")
@click.option("--flip/--no-flip", default=False, show_default=True, help="Mirror half of the images.")
@click.option("--train-seed", type=SEED, default=0, show_default=True, help="Seed of weights, order and augmentation.")
@click.option("--device", help="cpu, cuda, cuda:1, ... [a GPU where there is one]")
@click.option("--threads", type=click.IntRange(1, MOST_THREADS), help="Threads of the CPU [as many as torch takes].")
@click.option(
    "--weights",
    type=Place(path_type=Path),
    help="Weights to begin with: a safetensors file, or a folder that `archir train` or `archir search` left.",
)
@click.option(
    "--map", "names", type=Place(dir_okay=False, path_type=Path),
    help="What the weights of --weights are named in its file: TOML or JSON (archir explain A2220).",
)  # fmt: skip
@click.option(
    "--trial",
    type=(Place(file_okay=False, path_type=Path), str),
    metavar="RUN ID",
    help="Train what a search tried, instead of a FILE: runs/x 17, or runs/x PHASE:17 if several phases tried some.",
)
@click.option("--resume", is_flag=True, help="Go on with a run that was stopped.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@arch_options
@net_options
def train_command(
    file: str | None, data: str, output: Path, train_seed: int, device: str | None, threads: int | None,
    weights: Path | None, names: Path | None, trial: tuple[Path, str] | None, resume: bool, as_json: bool,
    arch: str | None, seed: int | None, parameters: dict[str, Any], root: Path | None, limits: Limits, **settings: Any,
) -> None:  # fmt: skip
    """Train one network of FILE on data, and leave a folder that `archir export` turns into ONNX.

    The net, or the architecture that --arch, --seed or --trial picks, is trained from new weights, or from those of
    --weights. A checkpoint is written after
    every epoch; a run that was stopped goes on with --resume and ends with the same weights. Several GPUs or machines:
    torchrun --nproc-per-node 8 -m archir train FILE -o FOLDER, with --batch images in each process.
    """
    leads = os.environ.get("RANK", "0") == "0"
    context = click.get_current_context()
    if (file is None) == (trial is None):
        raise click.UsageError("name a FILE, or a --trial of a run")
    if names is not None and weights is None:
        raise click.UsageError("--map goes with --weights")
    if trial is not None:
        if arch is not None or seed is not None or parameters:
            raise click.UsageError("--trial says which network: --arch, --seed and -p go with a FILE")
        graph, architecture, space, phase = tried(*trial)
        if _left_out(context, "data"):
            data = phase.data.source if phase.data is not None else data
        if _left_out(context, "objective"):
            settings["objective"] = phase.objective
    else:
        graph, architecture, space = picked(file or "", arch, seed, parameters, root, limits)
    if leads:
        train_folder.begin(output, graph, architecture.to_json(space.graph.parameters), resume)
    total = cost(graph)
    if leads and not as_json:
        say(f"{space.name}: {total.params:,} parameters, {total.macs:,} multiply-accumulates", err=True)
    torch = backends.get("torch")
    begin = time.perf_counter()
    try:
        with resumable(lambda: repeated("--resume")), _Progress(output) if leads else nullcontext() as progress:
            module, result = torch.train(
                graph,
                data=data,
                settings={**settings, "seed": train_seed},
                folder=output,
                resume=resume,
                device=device,
                progress=progress,
                start=weights and train_folder.weights_of(weights),
                names=None if names is None else naming.read(names),
                threads=threads,
            )
    except ArchError:
        if leads:
            train_folder.withdraw(output)
        raise
    if not leads:
        return
    before = [] if weights is None else borrowing.seen_by(train_folder.weights_of(weights))
    seen = {} if before is None else {borrowing.SEEN: json.dumps([*dict.fromkeys([data, *before])])}
    torch.save(module, output / train_folder.WEIGHTS, {"net": graph.name, **seen})
    facts = {
        **result.measures,
        "criterion": result.criterion,
        "params": total.params,
        "macs": total.macs,
        "data": data,
        "images": result.images,
        "seconds": round(time.perf_counter() - begin, 1),
        "history": [epoch.figures for epoch in result.history],
    }
    train_folder.finish(output, facts)
    if as_json:
        emit({**facts, "folder": str(output)})
    else:
        held_out = ", ".join(f"{name} {shown(name, value)}" for name, value in result.shown.items())
        say(f"held-out {held_out}; for ONNX: archir export {output} -o net.onnx")


def _left_out(context: click.Context, option: str) -> bool:
    return context.get_parameter_source(option) is ParameterSource.DEFAULT


class _Progress(TrainingProgress):
    """Progress of what is trained in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def start(self, epochs: int, steps: int) -> None:
        """Settings, data and checkpoint are fine."""
        train_folder.go_on(self.folder)
        super().start(epochs, steps)
