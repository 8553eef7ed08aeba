"""Elastic spaces made from trained networks: numbers in the program are replaced by choices.

The original network is the largest architecture of such a space.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from archir.api.loading import read_source
from archir.language.elaboration.files import split_net
from archir.language.elastic.choice_values import KINDS
from archir.utils.files import staged_output

if TYPE_CHECKING:
    from archir.language.elastic.elastic_space import ElasticChoice
    from archir.spaces.architecture import Architecture
    from archir.spaces.space import Space

__all__ = ["Opened", "open_network"]


@dataclass(frozen=True)
class Opened:
    """Elastic space made from a network.

    `text` is the program of the space: the network's program, with numbers replaced by choices. `space` is the loaded
    space, and `full` is the architecture of this space that equals the network. `opened` lists the new choices; `left`
    lists the numbers that did not become choices, with the reasons.

    Examples:
        >>> opened = archir.open_network("fixed.arch", "widths")
        >>> opened.save("elastic.arch").name
        'elastic.full.json'
    """

    text: str
    space: Space
    full: Architecture
    opened: tuple[ElasticChoice, ...]
    left: tuple[ElasticChoice, ...]

    def __repr__(self) -> str:
        from archir.utils.counts import count_noun

        return f"<Opened: {count_noun(len(self.opened), 'choice')}, {len(self.left):,} left; {self.space!r}>"

    def save(self, path: str | Path) -> Path:
        """Write the program to `path`, and the architecture that equals the network to `NAME.full.json` beside it.

        Returns the path of the architecture file. Raises ArchError if the program's imports cannot be resolved from the
        new folder, or if the architecture file exists and was not written by archir (A0809).
        """
        from archir.language.elaboration.elaborate import elaborate

        file = Path(path)
        elaborate(self.text, str(file), folder=file.resolve().parent, net=self.space.name)
        full_path = file.with_name(f"{file.stem}.full.json")
        with staged_output(file) as draft:
            draft.write_text(self.text, "utf-8")
            draft.with_name(full_path.name).write_text(self.full.to_json(self.space.graph.parameters), "utf-8")
        return full_path


def open_network(path: str | Path, choose: str = ",".join(KINDS), *, where: str | None = None) -> Opened:
    """Create an elastic space from a network by turning numbers of its program into choices.

    Every architecture is checked, and the network is proved to be the largest one.

    Args:
        path: The program: `"net.arch"`, or `"nets.arch:name"`.
        choose: Comma-separated kinds of numbers that become choices: `widths`, `depths`, `heads`, `kernels`, `ratios`.
            Each kind may be followed by fractions of the trained value or, for kernels, by sizes:
            `"widths=0.5,0.75,1,kernels=3,5"`. With `operators`, calls with weights get alternatives: no operation, or a
            separable convolution.
        where: Pattern of the scopes that are changed, by default all.

    Returns:
        The space, its program, and its largest architecture.

    Raises:
        ArchError: A3211 (invalid `choose`), A3212 (no number can become a choice), A3213 (the program has choices
            already), A3214 (the network is not the largest architecture of the result), A3230 (no scope matches
            `where`), A3231 (no consistent set of choices was found in 200 attempts), and errors in the file.

    Examples:
        >>> opened = archir.open_network("fixed.arch", "widths,kernels")
        >>> opened.space.size, len(opened.opened)
        (..., ...)
    """
    from archir.language.elastic.elastic_space import make_elastic
    from archir.spaces.space import Space

    if not isinstance(path, str | Path):
        raise TypeError(f"expected the path of a program, such as `net.arch`, got {type(path).__name__}")
    file, net = split_net(str(path))
    text, folder = read_source(file)
    result = make_elastic(text, choose, file, folder=folder, net=net, where=where)
    space = Space(result.graph)
    full = space.decode([result.full[choice.path] for choice in space.choices])
    return Opened(result.text, space, full, result.opened, result.left)
