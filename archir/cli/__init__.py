"""The command line: `archir COMMAND`. Each command is a file, imported when it is called."""

from archir.cli.main import main

__all__ = ["main"]
