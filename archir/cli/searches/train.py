"""`archir train`."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from archir import backends
from archir.base.errors import ArchError
from archir.cli.kinds import Place
from archir.cli.options import SEED, SOURCES, arch_options, file_argument, net_options, objective_settings
from archir.cli.output import emit, say
from archir.cli.progress import TrainingProgress
from archir.cli.searches import train_folder
from archir.cli.subject import picked
from archir.language.elaboration.context import Limits
from archir.passes.cost import cost
from archir.search.fronts.figures import shown


@click.command("train")
@file_argument
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
@click.option("--resume", is_flag=True, help="Go on with a run that was stopped.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@arch_options
@net_options
def train_command(
    file: str, data: str, output: Path, train_seed: int, device: str | None, resume: bool, as_json: bool,
    arch: str | None, seed: int | None, parameters: dict[str, Any], root: Path | None, limits: Limits, **settings: Any,
) -> None:  # fmt: skip
    """Train one network of FILE on data, and leave a folder that `archir export` turns into ONNX.

    The net, or the architecture that --arch or --seed picks, is trained from new weights. A checkpoint is written after
    every epoch; a run that was stopped goes on with --resume and ends with the same weights. Several GPUs or machines:
    torchrun --nproc-per-node 8 -m archir train FILE -o FOLDER, with --batch images in each process.
    """
    leads = os.environ.get("RANK", "0") == "0"
    graph, architecture, space = picked(file, arch, seed, parameters, root, limits)
    if leads:
        train_folder.begin(output, graph, architecture.to_json(space.graph.parameters), resume)
    total = cost(graph)
    if leads and not as_json:
        say(f"{space.name}: {total.params:,} parameters, {total.macs:,} multiply-accumulates", err=True)
    torch = backends.get("torch")
    begin = time.perf_counter()
    try:
        with TrainingProgress() if leads else nullcontext() as progress:
            module, result = torch.train(
                graph,
                data=data,
                settings={**settings, "seed": train_seed},
                folder=output,
                resume=resume,
                device=device,
                progress=progress,
            )
    except ArchError:
        if leads:
            train_folder.withdraw(output)
        raise
    if not leads:
        return
    torch.save(module, output / train_folder.WEIGHTS, {"net": graph.name})
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
