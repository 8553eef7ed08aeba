"""`archir export`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from archir import api, backends
from archir.certificates import beside
from archir.cli import runs, torch_files
from archir.cli.output import emit


@click.command("export")
@click.argument("run", type=click.Path(file_okay=False, path_type=Path))
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="File to write.")
@click.option(
    "--to",
    type=click.Choice(["onnx", "python", "exported", "aot"]),
    help="What to write [onnx, or as .py or .pt2 says].",
)
@click.option("--block", metavar="NAME[@SCOPE]", help="Only this block, as Python.")
@click.option("--opset", type=int, default=23, show_default=True, help="20 to 23.")
@click.option("--as-trained", is_flag=True, help="Keep batch norms, and whatever else deployment would fold.")
@click.option("--no-verify", is_flag=True, help="Do not compare with torch; the ONNX checker always runs.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def export_command(
    run: Path, output: Path, to: str | None, block: str | None, opset: int, as_trained: bool, no_verify: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Write the network of RUN, a folder that `archir train` left, as an ONNX model, or for torch.

    Batch norms are folded into convolutions, and what does nothing is left out, unless --as-trained is given. The model
    is checked by onnx.checker and compared with torch in onnxruntime, at several batch sizes. For torch, it becomes a
    Python file with its weights beside it (.py), or a package of torch.export or AOTInductor (.pt2).
    """
    form = torch_files.form_of(to, output)
    if form != "onnx":
        torch_files.export_run(run, output, form, block, as_trained, as_json)
        return
    graph, architecture = runs.open_run(run)
    torch = backends.get("torch")
    module = api.compile(graph)
    torch.load(module, run / runs.WEIGHTS)
    metadata = {"architecture": architecture}
    onnx, runner = backends.get("onnx"), torch.runner(module)
    report = onnx.write(
        graph,
        output,
        torch.arrays(module),
        reference=None if no_verify else runner,
        opset=opset,
        metadata=metadata,
        deployed=not as_trained,
        certified=True,
    )
    certificate = beside(output)
    if as_json:
        emit({**asdict(report), "certificate": certificate})
    else:
        click.echo(f"wrote {', '.join(map(str, report.files))}: {report}")
        click.echo(f"certificate: {certificate}; `archir verify {output}` looks whether they still belong together")
