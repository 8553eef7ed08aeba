"""`archir verify`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from archir import backends
from archir.backends.certificates import PROVIDERS
from archir.cli.kinds import Place
from archir.cli.options import json_option
from archir.cli.output import emit, say
from archir.diagnostics.visible import one_line


def _digest(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """A SHA-256 as `sha256sum` and `archir export` print it."""
    if value is not None and not re.fullmatch("[0-9A-Fa-f]{64}", value):
        raise click.BadParameter("a SHA-256 has 64 hexadecimal digits")
    return value


@click.command("verify")
@click.argument("model", type=Place(dir_okay=False, path_type=Path))
@click.option(
    "--on", "devices", multiple=True, type=click.Choice(sorted(PROVIDERS)), default=("cpu",), show_default=True,
    help="What to compute on; may be given several times.",
)  # fmt: skip
@click.option(
    "--trust",
    metavar="SHA256",
    callback=_digest,
    help="Load the package of torch with this SHA-256, which runs code in it, and compute with it.",
)
@json_option
def verify_command(model: Path, devices: tuple[str, ...], trust: str | None, as_json: bool) -> None:
    """Compare MODEL, an ONNX file or a package of torch, with the certificate beside it, MODEL.json, which
    `archir export` wrote.

    Its files must be to the byte what they were; data outside of the model's file must be in its folder, and no link;
    the ONNX checker must accept it; and onnxruntime must compute what the network computed. A package of torch (.pt2)
    runs code when it is loaded, and a certificate does not say who wrote it: only what the package says of itself is
    compared, unless --trust has the SHA-256 that whoever made it tells you.
    """
    packaged = model.suffix == ".pt2"
    if trust and not packaged:
        raise click.UsageError("--trust is for packages of torch (.pt2): an ONNX model holds no code")
    if packaged:
        found = backends.get("torch").look(model, devices, trust=trust)
    else:
        found = backends.get("onnx").look(model, tuple(PROVIDERS[name] for name in devices))
    if as_json:
        emit({"files": found.files, "differences": found.differences, "certificate": found.certificate})
        return
    facts = found.certificate
    names = one_line(", ".join(found.files))
    say(f"{names}: as certified by archir {one_line(facts['versions']['archir'])}")
    for name, text in facts["model"]["metadata"].items():
        if text and name != "architecture":
            say(one_line(f"{name}: {text}"))
    for provider, difference in found.differences.items():
        say(f"{provider.removesuffix('ExecutionProvider')}: largest relative difference {difference:.1e}")
    if packaged and not trust:
        say("not loaded, which would run code in it: --trust SHA256 does, if that is the package's")
