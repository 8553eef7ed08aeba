"""Command `archir explain`: explain diagnostic codes, operations, libraries and keywords."""

from __future__ import annotations

import click

from archir.cli.options import json_option
from archir.cli.output import emit, say
from archir.diagnostics.errors import ArchError, fail
from archir.diagnostics.explain import codes, page


def _complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return shell completions: all names that can be explained and start with the typed prefix."""
    from archir.tools.mcp.explanations import list_topics, standard_libraries

    names = [name for rows in list_topics().values() for name, _ in rows]
    return [name for name in [*standard_libraries(), *names] if incomplete and name.startswith(incomplete)]


@click.command("explain")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=_complete_name)
@json_option
def explain_command(names: tuple[str, ...], as_json: bool) -> None:
    """Explain NAME: a diagnostic code, an operation, a library, a block of a library, or a keyword of the language.

    Without NAME, list all names.

    \b
    archir explain A0401
    archir explain conv
    archir explain std.attention multi_head_attention
    archir explain choose
    """
    if names and as_json:
        emit({name: _page(name) for name in names})
        return
    if names:
        say("\n\n".join(_page(name).rstrip("\n") for name in names))
        return
    from archir.tools.mcp.explanations import list_topics

    if as_json:
        emit({kind: dict(rows) for kind, rows in list_topics().items()})
        return
    for kind, rows in list_topics().items():
        say(f"\n{kind}\n")
        width = max(len(name) for name, _ in rows)
        for name, text in rows:
            say(f"{name:<{width}}  {text}")


def _page(name: str) -> str:
    """Return the explanation of a name in Markdown.

    Raises ArchError (A1201) if nothing with this name can be explained.
    """
    if name.upper() in codes():  # the most frequent case, answered without slow imports
        return page(name.upper())
    from archir.tools.mcp.explanations import explanation

    try:
        return explanation(name)
    except ArchError:
        if (error := _recipe_kind_error(name)) is not None:
            raise error from None
        parent = click.get_current_context().parent
        group = parent.command if parent is not None else None
        if parent is None or not isinstance(group, click.Group) or name not in group.list_commands(parent):
            raise
        raise fail("A1201", f"`{name}` is a command", None, f"`archir {name} --help` explains it") from None


def _recipe_kind_error(name: str) -> ArchError | None:
    """Return an error that says where a recipe's strategy or objective is documented; None for other names."""
    from archir import backends
    from archir.diagnostics.errors import join_names

    if not name.isidentifier() or "torch" not in backends.names():
        return None
    pages = {"strategy": "docs/search.md and docs/multi.md describe", "objective": "docs/objectives.md describes"}
    for kind, options in backends.get("torch").recipe_kinds().items():
        if name in options:
            settings = join_names([*options[name].model_fields]) or "none"
            hint = f"{pages[kind]} it; its settings: {settings}"
            return fail(
                "A1201", f"`{name}` is the name of {'an' if kind == 'objective' else 'a'} {kind} of recipes", None, hint
            )
    return None
