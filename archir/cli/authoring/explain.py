"""`archir explain`."""

from __future__ import annotations

import click

from archir.base.explain import codes, page, title
from archir.cli.output import say


@click.command("explain")
@click.argument("code", required=False)
def explain_command(code: str | None) -> None:
    """Explain a diagnostic's CODE, with an example that gives it and one that does not; without CODE, list them."""
    if code is None:
        for known in codes():
            say(f"{known}  {title(known)}")
    else:
        say(page(code.upper()).rstrip("\n"))
