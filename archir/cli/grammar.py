"""Command `archir grammar`: write grammars and JSON schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from archir.cli.net_arguments import space_of
from archir.cli.options import force_option, net_options
from archir.cli.output import say, write
from archir.cli.param_types import OutputFile
from archir.language.elaboration.context import Limits
from archir.utils.counts import count_noun
from archir.utils.files import write_atomic


@click.command("grammar")
@click.argument("file", metavar="[FILE[:NET]]", required=False)
@click.option(
    "--to", "notation", type=click.Choice(["ebnf", "gbnf", "json-schema", "recipe-schema"]), default="ebnf",
    show_default=True,
    help="Grammar of the language in W3C EBNF, or in GBNF for constrained decoding (llama.cpp and others); JSON schema "
    "of the architectures of the space in FILE; or JSON schema of recipes, for editors.",
)  # fmt: skip
@force_option
@click.option("-o", "--output", type=OutputFile(), help="File to write [standard output].")
@net_options
def grammar_command(
    file: str | None, notation: str, output: Path | None, parameters: dict[str, Any], root: Path | None, limits: Limits
) -> None:
    """Write the grammar of the language, for constrained decoding with language models.

    Every text the grammar generates can be parsed; `archir check` tells whether it is also valid. `--to json-schema`
    writes a schema that accepts exactly the architectures of one space. `--to recipe-schema` writes a schema with which
    editors complete and explain the settings of recipes (docs/editors.md).

    \b
    archir grammar --to gbnf -o arch.gbnf
    archir grammar --to json-schema space.arch -o architecture.schema.json
    archir grammar --to recipe-schema -o recipe.schema.json
    """
    if (notation == "json-schema") != (file is not None):
        raise click.UsageError("--to json-schema needs a FILE, and other grammars take none")
    if notation == "recipe-schema":
        from archir.tools.mcp.recipe_schema import recipe_schema

        schema = recipe_schema()
        text, summary = json.dumps(schema, indent=2) + "\n", f"{count_noun(len(schema['definitions']), 'definition')}"
    elif file is None:
        text = _language_grammar(notation)
        summary = f"{len(text.splitlines())} rules"
    else:
        from archir.tools.mcp.architecture_schema import architecture_schema

        space = space_of(file, parameters, root, limits)
        text, summary = (
            json.dumps(architecture_schema(space), indent=2) + "\n",
            f"a schema of {count_noun(len(space.order), 'choice')}",
        )
    if output is None:
        write(text)
    else:
        write_atomic(output, text.encode())
        say(f"wrote {output}: {summary}")


def _language_grammar(notation: str) -> str:
    from archir_grammar.notations import ebnf, gbnf

    return ebnf() if notation == "ebnf" else gbnf()
