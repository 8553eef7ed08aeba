"""Command `archir new`: create a project from a template."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from tempfile import mkdtemp

import click

from archir.cli.output import say
from archir.cli.param_types import PathParam

TEMPLATES = Path(__file__).with_name("templates")
"""Folder of the project templates; each template is a subfolder."""
TEMPLATE_SUFFIX, NAME_PLACEHOLDER = ".template", "__NAME__"
_VALID_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
"""Pattern of valid project names."""


@click.command("new")
@click.argument("folder", metavar="NAME", type=PathParam(path_type=Path))
@click.option(
    "--template", default="image", show_default=True, type=click.Choice(sorted(os.listdir(TEMPLATES))),
    help="Starting point: image classification, language modelling on tokens, or a torch module to import and shrink.",
)  # fmt: skip
def new_command(folder: Path, template: str) -> None:
    """Create a project: a folder NAME with a space, a recipe, data, a test and a README, ready to run.

    data.py generates synthetic data, so that every command works immediately; to use your own data, change one line of
    the recipe.

    \b
    archir new birds
    archir new poems --template tokens
    archir new smaller --template import
    """
    if not _VALID_NAME.fullmatch(folder.name):
        raise click.UsageError(
            f"{folder.name} is not a valid project name: use letters, digits, - and _, starting with a letter"
        )
    if folder.exists() or folder.is_symlink():
        raise click.UsageError(f"{folder} already exists; nothing in it was changed")
    if not folder.absolute().parent.is_dir():
        raise click.UsageError(f"there is no folder {folder.parent}")
    _write(folder, template)
    files = sorted(file.name for file in folder.iterdir() if not file.name.startswith("."))
    say(f"wrote {folder}: {', '.join(files)}")
    say(f"next: cd {folder}, then run the commands of README.md in order")


def _write(folder: Path, template: str) -> None:
    """Write the whole project folder atomically: if anything fails, no files are left behind."""
    draft = Path(mkdtemp(prefix=f".{folder.name}.", dir=folder.absolute().parent))
    try:
        for source in sorted((TEMPLATES / template).iterdir()):
            text = source.read_text(encoding="utf-8").replace(NAME_PLACEHOLDER, folder.name)
            (draft / source.name.removesuffix(TEMPLATE_SUFFIX)).write_text(text, encoding="utf-8")
        (draft / ".gitignore").write_text("runs/\n__pycache__/\n*.onnx\n", encoding="utf-8")
        mask = os.umask(0)
        os.umask(mask)
        draft.chmod(0o777 & ~mask)
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
