"""`archir new`."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from tempfile import mkdtemp

import click

from archir.cli.kinds import Place
from archir.cli.output import say

TEMPLATES = Path(__file__).with_name("templates")
SUFFIX, NAME = ".template", "__NAME__"
_NAMES = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


@click.command("new")
@click.argument("folder", metavar="NAME", type=Place(path_type=Path))
@click.option(
    "--template", default="image", show_default=True, type=click.Choice(sorted(os.listdir(TEMPLATES))),
    help="What it begins with: images in classes, tokens such as bytes of a text, or a torch module to be imported.",
)  # fmt: skip
def new_command(folder: Path, template: str) -> None:
    """Begin a project: a folder NAME with a space, a recipe, data, a test and a README, ready to run.

    The data are drawn by data.py, so that every command works at once; one line of the recipe names your own.

    \b
    archir new birds
    archir new poems --template tokens
    archir new smaller --template import
    """
    if not _NAMES.fullmatch(folder.name):
        raise click.UsageError(f"{folder.name} is no name of a project: letters, digits, - and _, a letter first")
    if folder.exists() or folder.is_symlink():
        raise click.UsageError(f"{folder} is there already; nothing in it was changed")
    if not folder.absolute().parent.is_dir():
        raise click.UsageError(f"there is no folder {folder.parent}")
    _write(folder, template)
    files = sorted(one.name for one in folder.iterdir() if not one.name.startswith("."))
    say(f"wrote {folder}: {', '.join(files)}")
    say(f"next: cd {folder}, and the commands of README.md in their order")


def _write(folder: Path, template: str) -> None:
    """The whole folder, or nothing."""
    draft = Path(mkdtemp(prefix=f".{folder.name}.", dir=folder.absolute().parent))
    try:
        for source in sorted((TEMPLATES / template).iterdir()):
            text = source.read_text(encoding="utf-8").replace(NAME, folder.name)
            (draft / source.name.removesuffix(SUFFIX)).write_text(text, encoding="utf-8")
        (draft / ".gitignore").write_text("runs/\n__pycache__/\n*.onnx\n", encoding="utf-8")
        mask = os.umask(0)
        os.umask(mask)
        draft.chmod(0o777 & ~mask)
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
