"""Command `archir verify`: compare a model file with its certificate."""

from __future__ import annotations

import re
from pathlib import Path

import click

from archir import backends
from archir.backends.certificates import PROVIDERS
from archir.cli.options import json_option
from archir.cli.output import emit, say
from archir.cli.param_types import PathParam
from archir.diagnostics.escaping import escape_to_line
from archir.language.file_kinds import require_kind


def _validate_digest(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Option callback: validate a SHA-256 digest in hexadecimal, as printed by `sha256sum` and `archir export`."""
    if value is not None and not re.fullmatch("[0-9A-Fa-f]{64}", value):
        raise click.BadParameter("a SHA-256 has 64 hexadecimal digits")
    return value


@click.command("verify")
@click.argument("model", type=PathParam(dir_okay=False, path_type=Path))
@click.option(
    "--on", "devices", multiple=True, type=click.Choice(sorted(PROVIDERS)), default=("cpu",), show_default=True,
    help="Device to run the model on; may be repeated.",
)  # fmt: skip
@click.option(
    "--trust",
    metavar="SHA256",
    callback=_validate_digest,
    help="Load the torch package and run it, if it has this SHA-256. Loading executes code from the package.",
)
@json_option
def verify_command(model: Path, devices: tuple[str, ...], trust: str | None, as_json: bool) -> None:
    """Verify that MODEL, an ONNX file or a torch package, matches its certificate, the file MODEL.json
    beside it.

    \b
    archir verify net.onnx
    archir verify net.onnx --on cuda

    The model's files must be byte-identical to the certified ones; external data must be ordinary files in the model's
    folder, not links; the ONNX checker must accept the model; and onnxruntime must reproduce the certified outputs.
    Loading a torch package (.pt2) executes code, and a certificate does not prove who wrote it: by default only the
    package's own metadata is compared. With --trust, and the SHA-256 that the package's author gave you, the package is
    loaded and run.
    """
    packaged = model.suffix == ".pt2"
    if trust and not packaged:
        raise click.UsageError("--trust is for torch packages (.pt2): an ONNX model contains no code")
    if packaged:
        result = backends.get("torch").verify(model, devices, trust=trust)
    else:
        require_kind(model, ".onnx", "A0916")
        result = backends.get("onnx").verify(model, tuple(PROVIDERS[name] for name in devices))
    if as_json:
        emit({"files": result.files, "differences": result.differences, "certificate": result.certificate})
        return
    certificate = result.certificate
    names = escape_to_line(", ".join(result.files))
    say(f"{names}: as certified by archir {escape_to_line(certificate['versions']['archir'])}")
    for name, text in certificate["model"]["metadata"].items():
        if text and name != "architecture":
            say(escape_to_line(f"{name}: {text}"))
    if others := certificate["computed"].get("others"):
        sizes = " and ".join(" x ".join(map(str, record["sizes"].values())) for record in others)
        say(f"also computed at {escape_to_line(sizes)}")
    for provider, difference in result.differences.items():
        say(f"{provider.removesuffix('ExecutionProvider')}: largest relative difference {difference:.1e}")
    if packaged and not trust:
        say("not loaded, because loading executes code in the package: --trust SHA256 loads it if the digest matches")
