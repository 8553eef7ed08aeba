"""Command `archir completion`: print a shell completion script."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from archir.cli.output import write


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    eval "$(archir completion bash)"            for this session, or in ~/.bashrc
    archir completion fish > ~/.config/fish/completions/archir.fish
    """
    script = get_completion_class(shell)
    assert script is not None
    write(script(ctx.find_root().command, {}, "archir", "_ARCHIR_COMPLETE").source() + "\n")
