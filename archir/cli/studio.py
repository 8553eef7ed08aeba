"""Command `archir studio`: edit a space in the browser."""

from __future__ import annotations

import socket
import webbrowser
from pathlib import Path

import click

from archir.cli.output import say
from archir.cli.param_types import Integer, PathParam
from archir.diagnostics.errors import describe_error, fail


@click.command("studio")
@click.argument("file", required=False, type=PathParam(dir_okay=False, path_type=Path))
@click.option("--port", type=Integer(0, 65535), default=0, help="Port on this machine [any free port].")
@click.option("--browse", is_flag=True, help="Open the page in the browser of this machine.")
def studio_command(file: Path | None, port: int, browse: bool) -> None:
    """Edit a space in the browser, with live errors, a picture, exact counts, costs and samples.

    \b
    archir studio                        edit an example; nothing is written
    archir studio space.arch             edit a file; the page saves it when you ask it to
    archir studio space.arch --browse    the same, and open it in a browser

    The page is served on this machine only, at the printed address, and needs no network. Stop it with Ctrl-C. Requires
    the extra `serve`: `pip install 'archir[serve]'`.
    """
    try:
        from archir.tools.studio.server import HOST, Studio, serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        hint = "pip install 'archir[serve]'"
        raise fail("A2602", "the studio needs starlette and uvicorn, which are not installed", None, hint) from None
    if file is not None and file.suffix != ".arch":
        raise click.UsageError(f"{file} is not an .arch file")
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((HOST, port))
        except OSError as error:
            raise click.UsageError(
                f"port {port} cannot be used: {describe_error(error)}; --port 0 takes a free one"
            ) from None
        studio = Studio(bound.getsockname()[1], file.resolve() if file is not None else None)
        studio.text()  # report an unreadable file here rather than on the page
        say(f"studio: {studio.address} (Ctrl-C ends this)", err=True)
        if browse:
            webbrowser.open(studio.address)
        serve(studio, bound)
