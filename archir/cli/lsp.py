"""Command `archir lsp`: run the language server."""

from __future__ import annotations

import click

from archir.cli.param_types import Integer
from archir.diagnostics.errors import fail


@click.command("lsp")
@click.option(
    "--port",
    type=Integer(1, 65535),
    help="Listen on this port of 127.0.0.1 for one editor, instead of using standard input and output.",
)
def lsp_command(port: int | None) -> None:
    """Run the language server: diagnostics while typing, hover, completion, renames, shape hints, quick fixes,
    formatting.

    \b
    archir lsp                                  started by the editor
    archir lsp --port 9000                      one editor, over TCP

    Editors start it themselves and talk to it over standard input and output; see docs/editors.md for their settings.
    Requires the extra `lsp`: `pip install 'archir[lsp]'`.
    """
    try:
        from archir.tools.lsp.features import make_server
    except ModuleNotFoundError as error:
        if error.name not in ("pygls", "lsprotocol"):
            raise
        hint = "pip install 'archir[lsp]'"
        raise fail("A2602", "the language server needs pygls, which is not installed", None, hint) from None
    server = make_server()
    if port is not None:
        server.start_tcp("127.0.0.1", port)
    else:
        server.start_io()
