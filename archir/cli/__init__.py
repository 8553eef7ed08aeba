"""The command line `archir COMMAND`. Each command has its own module, which is imported when the command is called."""

from archir.cli.main import main

__all__ = ["main"]
