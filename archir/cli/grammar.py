"""`archir grammar`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from archir.cli.kinds import Output
from archir.cli.options import force_option, net_options
from archir.cli.output import counted, say, write
from archir.cli.subject import space_of
from archir.language.elaboration.context import Limits
from archir.utils.files import write_atomic


@click.command("grammar")
@click.argument("file", metavar="[FILE[:NET]]", required=False)
@click.option(
    "--to", "notation", type=click.Choice(["ebnf", "gbnf", "json-schema", "recipe-schema"]), default="ebnf",
    show_default=True,
    help="The W3C's EBNF, or GBNF, which llama.cpp and others hold a model to; of the space in FILE, the schema of "
    "its architectures; or the schema of recipes, by which editors complete them.",
)  # fmt: skip
@force_option
@click.option("-o", "--output", type=Output(), help="File to write [standard output].")
@net_options
def grammar_command(
    file: str | None, notation: str, output: Path | None, parameters: dict[str, Any], root: Path | None, limits: Limits
) -> None:
    """Write the grammar of the language, for programs that hold a language model to it while it writes.

    Whatever the grammar gives can be read; whether it fits together says `archir check`. With `--to json-schema`, what
    a program may write are the architectures of one space: each can be loaded, and none is missing. With `--to
    recipe-schema`, editors complete and explain the settings of recipes (docs/editors.md).

    \b
    archir grammar --to gbnf -o arch.gbnf
    archir grammar --to json-schema space.arch -o architecture.schema.json
    archir grammar --to recipe-schema -o recipe.schema.json
    """
    if (notation == "json-schema") != (file is not None):
        raise click.UsageError("a FILE goes with --to json-schema, which writes the schema of its architectures")
    if notation == "recipe-schema":
        from archir.tools.mcp.recipes import recipe_schema

        schema = recipe_schema()
        text, told = json.dumps(schema, indent=2) + "\n", f"{counted(len(schema['definitions']), 'definition')}"
    elif file is None:
        text = _of_language(notation)
        told = f"{len(text.splitlines())} rules"
    else:
        from archir.tools.mcp.schema import schema_of

        space = space_of(file, parameters, root, limits)
        text, told = json.dumps(schema_of(space), indent=2) + "\n", f"a schema of {counted(len(space.order), 'choice')}"
    if output is None:
        write(text)
    else:
        write_atomic(output, text.encode())
        say(f"wrote {output}: {told}")


def _of_language(notation: str) -> str:
    from archir_grammar.notations import ebnf, gbnf

    return ebnf() if notation == "ebnf" else gbnf()
