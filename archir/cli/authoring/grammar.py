"""`archir grammar`."""

from __future__ import annotations

from pathlib import Path

import click

from archir.base.files import write_atomic
from archir.cli.kinds import Place
from archir.cli.output import say, write


@click.command("grammar")
@click.option(
    "--to", "notation", type=click.Choice(["ebnf", "gbnf"]), default="ebnf", show_default=True,
    help="The W3C's EBNF, or GBNF, which llama.cpp and others hold a model to.",
)  # fmt: skip
@click.option("-o", "--output", type=Place(dir_okay=False, path_type=Path), help="File to write [standard output].")
def grammar_command(notation: str, output: Path | None) -> None:
    """Write the grammar of the language, for programs that hold a language model to it while it writes.

    Whatever the grammar gives can be read; whether it fits together says `archir check`.

    \b
    archir grammar --to gbnf -o arch.gbnf
    """
    from archir_grammar.notations import ebnf, gbnf

    text = ebnf() if notation == "ebnf" else gbnf()
    if output is None:
        write(text)
    else:
        write_atomic(output, text.encode())
        say(f"wrote {output}: {len(text.splitlines())} rules")
