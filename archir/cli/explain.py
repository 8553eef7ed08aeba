"""`archir explain`."""

from __future__ import annotations

import click

from archir.cli.output import say
from archir.diagnostics.errors import ArchError, fail
from archir.diagnostics.explain import codes, page


def _known(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names that begin as what was typed does: of all that is explained."""
    from archir.tools.mcp.explaining import known_libraries, listed

    names = [name for found in listed().values() for name, _ in found]
    return [name for name in [*known_libraries(), *names] if incomplete and name.startswith(incomplete)]


@click.command("explain")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=_known)
def explain_command(names: tuple[str, ...]) -> None:
    """Explain what NAME is: the code of a diagnostic, an operation, a library or a block of it, or a word of the
    language. Without NAME, list all there are.

    \b
    archir explain A0401
    archir explain conv
    archir explain std.attention multi_head_attention
    archir explain choose
    """
    if names:
        say("\n\n".join(_page(name).rstrip("\n") for name in names))
        return
    from archir.tools.mcp.explaining import listed

    for kind, found in listed().items():
        say(f"\n{kind}\n")
        width = max(len(name) for name, _ in found)
        for name, text in found:
            say(f"{name:<{width}}  {text}")


def _page(name: str) -> str:
    if name.upper() in codes():  # what is asked most often, without what the others need
        return page(name.upper())
    from archir.tools.mcp.explaining import explained

    try:
        return explained(name)
    except ArchError:
        if (found := _of_recipes(name)) is not None:
            raise found from None
        parent = click.get_current_context().parent
        group = parent.command if parent is not None else None
        if parent is None or not isinstance(group, click.Group) or name not in group.list_commands(parent):
            raise
        raise fail("A1201", f"`{name}` is a command", None, f"`archir {name} --help` explains it") from None


def _of_recipes(name: str) -> ArchError | None:
    """Where a strategy or an objective of recipes is described."""
    from archir import backends
    from archir.diagnostics.errors import listed

    if not name.isidentifier() or "torch" not in backends.names():
        return None
    pages = {"strategy": "docs/search.md and docs/multi.md describe", "objective": "docs/objectives.md describes"}
    for kind, known in backends.get("torch").recipe_kinds().items():
        if name in known:
            settings = listed([*known[name].model_fields]) or "none"
            hint = f"{pages[kind]} it; its settings: {settings}"
            return fail(
                "A1201", f"`{name}` is the name of {'an' if kind == 'objective' else 'a'} {kind} of recipes", None, hint
            )
    return None
