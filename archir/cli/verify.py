"""`archir verify`."""

from __future__ import annotations

from pathlib import Path

import click

from archir import backends
from archir.cli.onnx_files import PROVIDERS
from archir.cli.options import json_option
from archir.cli.output import emit


@click.command("verify")
@click.argument("model", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--on", "devices", multiple=True, type=click.Choice(sorted(PROVIDERS)), default=("cpu",), show_default=True,
    help="What to compute on; may be given several times.",
)  # fmt: skip
@json_option
def verify_command(model: Path, devices: tuple[str, ...], as_json: bool) -> None:
    """Compare MODEL, an ONNX file or a package of torch, with the certificate beside it, MODEL.json, which
    `archir export` wrote.

    Its files must be to the byte what they were; data outside of the model's file must be in its folder, and no link;
    the ONNX checker must accept it; and onnxruntime must compute what the network computed. A package of torch (.pt2)
    runs code when it is loaded: it is loaded once it is found to be the one that was certified.
    """
    if model.suffix == ".pt2":
        found = backends.get("torch").look(model, devices)
    else:
        found = backends.get("onnx").look(model, tuple(PROVIDERS[name] for name in devices))
    if as_json:
        emit({"files": found.files, "differences": found.differences, "certificate": found.certificate})
        return
    facts = found.certificate
    names = ", ".join(found.files)
    click.echo(f"{names}: as certified by archir {facts['versions']['archir']}")
    for name, text in facts["model"]["metadata"].items():
        if text and name != "architecture":
            click.echo(f"{name}: {text}")
    for provider, difference in found.differences.items():
        click.echo(f"{provider.removesuffix('ExecutionProvider')}: largest relative difference {difference:.1e}")
