"""`archir verify`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from archir import api, backends
from archir.backends.certificates import PROVIDERS
from archir.base.visible import one_line
from archir.cli.kinds import Place
from archir.cli.options import json_option
from archir.cli.output import emit, say


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
@click.option("--space", metavar="FILE", help="Of an optimum: the space that it is to be one of.")
@json_option
def verify_command(
    model: Path, devices: tuple[str, ...], trust: str | None, space: str | None, as_json: bool
) -> None:  # fmt: skip
    """Compare MODEL, an ONNX file or a package of torch, with the certificate beside it, MODEL.json, which
    `archir export` wrote; or prove a certificate again that `archir optimize` wrote.

    Its files must be to the byte what they were; data outside of the model's file must be in its folder, and no link;
    the ONNX checker must accept it; and onnxruntime must compute what the network computed. A package of torch (.pt2)
    runs code when it is loaded, and a certificate does not say who wrote it: only what the package says of itself is
    compared, unless --trust has the SHA-256 that whoever made it tells you.

    The certificate of an optimum (.json) has its space and bounds in it. What the architecture costs, and that no other
    one is better, is worked out again, by none of the code that found it.
    """
    if model.suffix == ".json":
        if trust:
            raise click.UsageError("--trust is for packages of torch (.pt2)")
        _optimum(model, space, as_json)
        return
    if space is not None:
        raise click.UsageError("--space is for certificates of `archir optimize` (.json)")
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


def _optimum(file: Path, space: str | None, as_json: bool) -> None:
    from archir.cli.analysis.optimize import shown
    from archir.search.spaces.certificates.certificate import said

    claim = api.verify_optimum(file, space)
    what, bounds = claim.objective.what, [said(bound) for bound in claim.bounds]
    name = what if isinstance(what, str) else "score"
    if as_json:
        emit(
            {
                "space": claim.space.name,
                "sha256": claim.hash,
                "bounds": bounds,
                "objective": name,
                "greatest": claim.objective.greatest,
                "value": None if claim.value is None else str(claim.value),
                "bound": None if claim.bound is None else str(claim.bound),
                "fixed": claim.labels,
                "choices": None if claim.architecture is None else dict(claim.architecture),
            }
        )
        return
    say(f"space: `{one_line(claim.space.name)}`, {claim.hash}")
    for bound in bounds:
        say(f"bound: {one_line(bound)}")
    for path, label in claim.labels.items():
        say(f"fixed: {one_line(f'{path} = {label}')}")
    if claim.architecture is None or claim.value is None or claim.bound is None:
        say("proved again: no architecture keeps these bounds")
        return
    best = "no architecture within the bounds is better"
    if claim.bound != claim.value:
        best = f"no architecture within the bounds is better than {shown(claim.bound)}"
    say(f"{one_line(name)} = {shown(claim.value)}, proved again: {best}")
    say(str(claim.architecture))
