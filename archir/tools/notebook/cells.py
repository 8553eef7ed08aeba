"""The `%%arch` cell magic, for cells that contain a program. `%load_ext archir` makes it available."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from archir.api.loading import load_checked
from archir.diagnostics.errors import ArchError, Diagnostic, fail, join_names
from archir.language.elaboration.files import file_overlay
from archir.language.elaboration.parameters import parse_parameter
from archir.spaces.space import Space
from archir.tools.notebook.html_pages import Counts
from archir.utils.files import write_atomic

_IMPORT_HINT = "to import a cell, name it with `%%arch --as NAME.arch` and run it first"
"""Hint added to errors about an imported file that does not exist."""


@magics_class
class CellMagics(Magics):
    """IPython magics of archir: `%%arch`. A cell with a file name (`--as`) can be imported by later cells."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._importable_cells: dict[Path, str] = {}

    @no_var_expand
    @magic_arguments()
    @argument("name", nargs="?", help="Variable to assign the space to.")
    @argument("--show", action="store_true", help="Display the space, with a picture.")
    @argument("--count", action="store_true", help="Display the exact number of architectures.")
    @argument("--net", help="Net to use, if the cell has more than one.")
    @argument("-p", "--param", action="append", default=[], help="Set a parameter of the net, such as -p width=16.")
    @argument("-o", "--output", help="Write the program to this file, for recipes and the command line.")
    @argument("--as", dest="file", help="File name by which other cells can import this one, such as blocks.arch.")
    @cell_magic
    def arch(self, line: str, cell: str) -> None:
        """Check the program in the cell and create a space from its net.

            %%arch space --show
            net space {
                ...
            }

        All errors in the program are reported, with their positions in the cell.
        """
        try:
            options = parse_argstring(self.arch, line)
        except UsageError as error:
            raise UsageError(f"{error}; `%%arch?` lists the options") from None
        try:
            file = self._file(options.file)
            parameters = dict(map(parse_parameter, options.param))
            name = options.file or f"In[{self.shell.execution_count}]"
            text = f"\n{cell}"  # `%%arch` is the first line of the cell
            with file_overlay(self._importable_cells if file is None else {**self._importable_cells, file: text}):
                graphs = load_checked(text, Path.cwd(), name, options.net, None, None, parameters)
        except ArchError as error:
            raise ArchError(*map(_with_import_hint, error.diagnostics)) from None
        if file is not None:
            self._importable_cells[file] = text
        if options.output is not None:
            write_atomic(Path(options.output), cell.encode())
        spaces = list(map(Space, graphs))
        if options.name is not None:
            if not options.name.isidentifier():
                raise UsageError(f"{options.name!r} is not a valid variable name")
            self.shell.user_ns[options.name] = _single_space(spaces)
        for space in spaces:
            if options.count:
                display(Counts.of(space))
            if options.show:
                display(space)
            elif not options.count:
                print(repr(space))

    def _file(self, name: str | None) -> Path | None:
        """Return the path by which other cells import this one, or None.

        Raises UsageError if the name does not end in `.arch`.
        """
        if name is None:
            return None
        if not name.endswith(".arch"):
            raise UsageError(f"--as takes a file name for imports, such as blocks.arch, not {name!r}")
        return (Path.cwd() / name).resolve()


def _single_space(spaces: Sequence[Space]) -> Space:
    """Return the only space of a cell. Raises ArchError (A0808) if the cell has no net, or more than one."""
    if len(spaces) == 1:
        return spaces[0]
    names = [space.name for space in spaces]
    if names:
        raise fail("A0808", f"the cell has {join_names(names)}: choose a net with --net")
    hint = "for a cell with blocks only, omit the variable: %%arch --as NAME.arch"
    raise fail("A0808", "the cell has no net to assign", None, hint)


def _with_import_hint(problem: Diagnostic) -> Diagnostic:
    """Return a diagnostic, with a hint on importing cells if it is about a missing file."""
    is_missing_file = problem.code == "A0801" and problem.hint is None
    return replace(problem, hint=_IMPORT_HINT) if is_missing_file else problem
