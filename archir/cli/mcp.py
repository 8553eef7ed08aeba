"""`archir mcp`."""

from __future__ import annotations

from pathlib import Path

import click

from archir.cli.kinds import Place
from archir.diagnostics.errors import fail


@click.command("mcp")
@click.argument("folders", metavar="FOLDER...", nargs=-1, type=Place(path_type=Path))
def mcp_command(folders: tuple[Path, ...]) -> None:
    """Serve programs that write spaces, over standard input and output: check, fix, format, count, cost, sample, show,
    explain, and how far searches came.

    Nothing outside of the FOLDERs is read or written; without one, the current folder is meant. Clients start it
    themselves; docs/agents.md has their settings. It needs the extra `mcp`: `pip install 'archir[mcp]'`.

    \b
    archir mcp
    archir mcp spaces runs
    """
    try:
        from archir.tools.mcp.server import make
    except ModuleNotFoundError as error:
        if error.name not in ("mcp", "anyio"):
            raise
        hint = "pip install 'archir[mcp]'"
        raise fail("A2602", "serving programs needs the package mcp, which is not installed", None, hint) from None
    make(folders or (Path(),)).run("stdio")
