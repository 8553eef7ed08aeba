"""Cells that are programs: `%load_ext archir`, then cells that begin with `%%arch`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from archir.api.loading import proved
from archir.diagnostics.errors import ArchError, Diagnostic, fail, listed
from archir.language.elaboration.files import instead
from archir.language.elaboration.parameters import parse_parameter
from archir.spaces.space import Space
from archir.tools.notebook.counts import Counts
from archir.utils.files import write_atomic

_AS = "a cell is imported by the name that `%%arch --as NAME.arch` gives it, once it was run"


@magics_class
class Cells(Magics):
    """The programs of a session: those with a name of a file are there for others to import."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._texts: dict[Path, str] = {}

    @no_var_expand
    @magic_arguments()
    @argument("name", nargs="?", help="The variable that the space becomes.")
    @argument("--show", action="store_true", help="Show what it is, with a picture.")
    @argument("--count", action="store_true", help="Count its architectures, exactly.")
    @argument("--net", help="Which net, if the cell has several.")
    @argument("-p", "--param", action="append", default=[], help="A parameter of the net, such as -p width=16.")
    @argument("-o", "--output", help="Write the program to this file, for recipes and the command line.")
    @argument("--as", dest="file", help="The file that other cells import this one as, such as blocks.arch.")
    @cell_magic
    def arch(self, line: str, cell: str) -> None:
        """The cell is a program: it is checked, and its net becomes a space.

            %%arch space --show
            net space {
                ...
            }

        Everything that is wrong with it is said, with its place in the cell.
        """
        try:
            given = parse_argstring(self.arch, line)
        except UsageError as error:
            raise UsageError(f"{error}; `%%arch?` lists what there is") from None
        try:
            file = self._file(given.file)
            parameters = dict(map(parse_parameter, given.param))
            name = given.file or f"In[{self.shell.execution_count}]"
            text = f"\n{cell}"  # the first line of a cell is that of `%%arch`
            with instead(self._texts if file is None else {**self._texts, file: text}):
                graphs = proved(text, Path.cwd(), name, given.net, None, None, parameters)
        except ArchError as error:
            raise ArchError(*map(_hinted, error.diagnostics)) from None
        if file is not None:
            self._texts[file] = text
        if given.output is not None:
            write_atomic(Path(given.output), cell.encode())
        spaces = list(map(Space, graphs))
        if given.name is not None:
            self.shell.user_ns[_variable(given.name)] = _only(spaces)
        for space in spaces:
            self._told(space, given.show, given.count)

    def _told(self, space: Space, show: bool, count: bool) -> None:
        if count:
            display(Counts.of(space))
        if show:
            display(space)
        elif not count:
            print(repr(space))

    def _file(self, name: str | None) -> Path | None:
        if name is None:
            return None
        if not name.endswith(".arch"):
            raise UsageError(f"--as is the name of a file for imports, such as blocks.arch, not {name!r}")
        return (Path.cwd() / name).resolve()


def _variable(name: str) -> str:
    if not name.isidentifier():
        raise UsageError(f"{name!r} is no name of a variable")
    return name


def _only(spaces: Sequence[Space]) -> Space:
    """The space that is bound. Raises ArchError (A0808) if there are none, or several."""
    if len(spaces) == 1:
        return spaces[0]
    names = [space.name for space in spaces]
    if names:
        raise fail("A0808", f"the cell has {listed(names)}: one is named with --net")
    raise fail("A0808", "the cell has no net", None, "blocks by themselves need no variable: %%arch --as blocks.arch")


def _hinted(problem: Diagnostic) -> Diagnostic:
    """For a file that is not there, that it may be a cell."""
    missing = problem.code == "A0801" and problem.hint is None
    return replace(problem, hint=_AS) if missing else problem
