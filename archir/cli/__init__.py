"""The command line `archir COMMAND`.

Each command has its own module, which is imported only when the command runs.
"""

from archir.cli.main import main

__all__ = ["main"]
