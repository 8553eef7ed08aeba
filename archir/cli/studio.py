"""`archir studio`."""

from __future__ import annotations

import socket
import webbrowser
from pathlib import Path

import click

from archir.cli.kinds import Place
from archir.cli.output import say
from archir.diagnostics.errors import fail


@click.command("studio")
@click.argument("file", required=False, type=Place(dir_okay=False, path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port on this machine [any that is free].")
@click.option("--browse", is_flag=True, help="Open the page in the browser of this machine.")
def studio_command(file: Path | None, port: int, browse: bool) -> None:
    """Open a page to write a space on: problems while typing, its picture, exact counts, costs, samples.

    \b
    archir studio                        an example to change; nothing is written
    archir studio space.arch             a file; the page saves it where you say so
    archir studio space.arch --browse    the same, and a browser opens it

    The page is for this machine alone, by the address that is printed, and works without a network. Ctrl-C ends it. It
    needs the extra `serve`: `pip install 'archir[serve]'`.
    """
    try:
        from archir.tools.studio.server import HOST, Studio, serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        hint = "pip install 'archir[serve]'"
        raise fail("A2602", "the studio needs starlette and uvicorn, which are not installed", None, hint) from None
    if file is not None and file.suffix != ".arch":
        raise click.UsageError(f"{file} is no .arch file")
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((HOST, port))
        except OSError as error:
            raise click.UsageError(f"port {port} cannot be used: {error.strerror}; --port 0 takes a free one") from None
        studio = Studio(bound.getsockname()[1], file.resolve() if file is not None else None)
        studio.text()  # a file that cannot be read is said here, and not on the page
        say(f"studio: {studio.address} (Ctrl-C ends this)", err=True)
        if browse:
            webbrowser.open(studio.address)
        serve(studio, bound)
