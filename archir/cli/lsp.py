"""`archir lsp`."""

from __future__ import annotations

import click

from archir.diagnostics.errors import fail


@click.command("lsp")
@click.option("--port", type=click.IntRange(1, 65535), help="Listen on this port of loopback, for one editor.")
def lsp_command(port: int | None) -> None:
    """Serve editors: diagnostics while typing, hover, completion, renames, shapes along pipes, fixes, layout.

    Editors start it themselves and talk to it over standard input and output; docs/editors.md has their settings. It
    needs the extra `lsp`: `pip install 'archir[lsp]'`.
    """
    try:
        from archir.tools.lsp.features import make
    except ModuleNotFoundError as error:
        if error.name not in ("pygls", "lsprotocol"):
            raise
        hint = "pip install 'archir[lsp]'"
        raise fail("A2602", "the language server needs pygls, which is not installed", None, hint) from None
    server = make()
    if port is not None:
        server.start_tcp("127.0.0.1", port)
    else:
        server.start_io()
