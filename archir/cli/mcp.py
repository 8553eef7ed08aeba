"""Command `archir mcp`: run the MCP server."""

from __future__ import annotations

from pathlib import Path

import click

from archir.cli.param_types import PathParam
from archir.diagnostics.errors import fail


@click.command("mcp")
@click.argument("folders", metavar="FOLDER...", nargs=-1, type=PathParam(path_type=Path))
def mcp_command(folders: tuple[Path, ...]) -> None:
    """Run an MCP server on standard input and output, for agents that write search spaces.

    \b
    archir mcp spaces runs

    Its tools check, fix, format, count, cost, sample, show and explain spaces, and report the progress of searches. It
    reads and writes only inside the FOLDERs (default: the current folder). MCP clients start the server themselves; see
    docs/agents.md for their settings. Requires the extra `mcp`: `pip install 'archir[mcp]'`.
    """
    try:
        from archir.tools.mcp.server import make_server
    except ModuleNotFoundError as error:
        if error.name not in ("mcp", "anyio"):
            raise
        hint = "pip install 'archir[mcp]'"
        raise fail("A2602", "`archir mcp` needs the package mcp, which is not installed", None, hint) from None
    make_server(folders or (Path(),)).run("stdio")
