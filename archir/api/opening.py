"""Spaces made of networks: numbers of their programs become choices, with what was trained as the largest one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from archir.api.loading import source
from archir.language.elaboration.files import split
from archir.language.elastic.ladders import KINDS
from archir.language.elastic.opening import Row, open_text
from archir.utils.files import drafts

if TYPE_CHECKING:
    from archir.spaces.architecture import Architecture
    from archir.spaces.space import Space

__all__ = ["Opened", "open_network"]


@dataclass(frozen=True)
class Opened:
    """A space that was made of a network.

    `text` is its program: that of the network, in which numbers are choices. `full` is the architecture that is the
    network. `opened` are the choices, `left` what was not made one, and why.
    """

    text: str
    space: Space
    full: Architecture
    opened: tuple[Row, ...]
    left: tuple[Row, ...]

    def __repr__(self) -> str:
        from archir.spaces.counting import many

        return f"<Opened: {many(len(self.opened), 'choice')}, {len(self.left):,} left; {self.space!r}>"

    def save(self, path: str | Path) -> Path:
        """Write the program, and beside it `NAME.full.json`, the architecture that is the network; this file's path.

        Raises ArchError if files that the program imports are not to be found from there, or if archir did not write
        the second file that is there (A0809).
        """
        from archir.language.elaboration.elaborate import elaborate

        file = Path(path)
        elaborate(self.text, str(file), folder=file.resolve().parent, net=self.space.name)
        beside = file.with_name(f"{file.stem}.full.json")
        with drafts(file) as draft:
            draft.write_text(self.text, "utf-8")
            draft.with_name(beside.name).write_text(self.full.to_json(self.space.graph.parameters), "utf-8")
        return beside


def open_network(path: str | Path, choose: str = ",".join(KINDS), *, where: str | None = None) -> Opened:
    """The space of a network of a file, `"net.arch"` or `"nets.arch:name"`.

    `choose` says what is opened: `widths`, `depths`, `heads`, `kernels`, `ratios`, separated by commas; each may say
    what parts of the trained value there are, or which kernels: `"widths=0.5,0.75,1,kernels=3,5"`. With `operators`,
    others are offered beside calls with weights: nothing at all, or a separable convolution. `where` is a pattern
    of scopes outside of which nothing changes. Every architecture is checked, and the network is proved to be the
    largest one. Raises ArchError: A3211 to A3214, A3230, A3231, and what is wrong with the file.
    """
    from archir.spaces.space import Space

    file, net = split(str(path))
    text, folder = source(file)
    found = open_text(text, choose, file, folder=folder, net=net, where=where)
    space = Space(found.graph)
    full = space.decode([found.full[choice.path] for choice in space.choices])
    return Opened(found.text, space, full, found.opened, found.left)
