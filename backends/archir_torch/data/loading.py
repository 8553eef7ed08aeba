"""From the name of a source to images as a network takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from archir.base.errors import fail
from archir_torch.data import digits, folder, hub, idx, npz, parquet
from archir_torch.data.choosing import held_out, limited, some_classes
from archir_torch.data.encoded import Raw, settled
from archir_torch.data.pixels import normalised, statistics
from archir_torch.data.source import Source
from archir_torch.data.split import Data, Split


def load(
    source: str, size: Sequence[int], *, seed: int = 0, limit: int | None = None, classes: int | None = None,
    weights: float = 0.5,
) -> Data:  # fmt: skip
    """The images of a source, as large as a net's input [C, H, W].

    `source` is `digits`, a file ending in .npz or .parquet, a folder of IDX or Parquet files or with a folder of images
    for each class, or what is meant by `npz:PATH`, `idx:DIR`, `parquet:PATH`, `images:DIR`, `hf:NAME`. Where it does
    not say what is held out, a fifth of every class is, the same whatever the seed. Of `classes` so many are drawn, and
    used alone; `limit` is the most images of either part; of the training part, `weights` is the share of what weights
    see in a search: all three by the seed. Raises ArchError (A11xx).
    """
    wanted = _image(size)
    parts, names = _parts(source, wanted)
    if classes is not None:
        numbers = some_classes(names, classes, seed)
        names = tuple(names[number] for number in numbers)
        parts = [part.of_classes(numbers) for part in parts]
    if any(len(part.rows) == 0 for part in parts):
        raise fail("A1113", f"no image of `{source}` is left to train on, or to hold out")
    chosen = [part.chosen(limited(part.labels, limit, seed)) for part in parts]
    raw = [settled(part.pixels, part.rows) for part in chosen]
    mean, std = statistics(raw[0], wanted)
    train, rest = (
        Split(normalised(pixels, wanted, mean, std), part.labels, part.rows)
        for pixels, part in zip(raw, chosen, strict=True)
    )
    return Data(train, rest, names, tuple(mean.flatten().tolist()), tuple(std.flatten().tolist()), weights, seed)


def origin(source: str) -> str:
    """Where the images of a source are, however it is named: two sources with one origin have the same images."""
    prefix, colon, rest = source.partition(":")
    form, name = (prefix, rest) if colon and prefix in _FORMS else ("", source)
    name = name.partition("#")[0] if form in ("", "parquet", "hf") else name
    if form == "hf" or source == "digits":
        return source.partition("#")[0]
    try:
        return str(Path(name).resolve())
    except (OSError, ValueError):  # no path at all, which whoever reads it says
        return name


def minibatch(source: str, size: Sequence[int], count: int, *, seed: int = 0) -> Split:
    """`count` images drawn from the training part of a source with a seed, as large as a net's input [C, H, W].

    They are normalised by the mean and deviation of the source's own pixels; only what is drawn is made as large.
    Raises ArchError (A11xx).
    """
    wanted = _image(size)
    train = _parts(source, wanted)[0][0]
    if not 2 <= count <= len(train.rows):
        raise fail("A1111", f"a minibatch of `{source}` has 2 to {len(train.rows)} images, not {count}")
    drawn = torch.randperm(len(train.rows), generator=torch.Generator().manual_seed(seed))[:count]
    whole = settled(train.pixels, train.rows)
    mean, std = statistics(whole, (wanted[0], *_own(train.pixels)))
    images = normalised(whole[drawn], wanted, mean, std)
    return Split(images, train.labels[drawn], train.rows[drawn])


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some rows of raw pixels, and their labels."""

    pixels: Raw
    rows: Tensor
    labels: Tensor

    def chosen(self, rows: Tensor) -> _Rows:
        return _Rows(self.pixels, self.rows[rows], self.labels[rows])

    def of_classes(self, numbers: Tensor) -> _Rows:
        """Those of some classes, which are numbered anew."""
        kept = self.chosen(torch.isin(self.labels, numbers).nonzero().flatten())
        return replace(kept, labels=torch.searchsorted(numbers, kept.labels))


def _image(size: Sequence[int]) -> tuple[int, int, int]:
    channels, height, width = size
    if channels not in (1, 3):
        raise fail("A1103", f"the net's input has {channels} channels; images have 1 or 3")
    return channels, height, width


def _own(pixels: Raw) -> tuple[int, int]:
    """Height and width of raw pixels."""
    height, width = pixels.shape[2:] if isinstance(pixels, Tensor) else pixels.size[1:]
    return height, width


def _parts(source: str, size: tuple[int, int, int]) -> tuple[list[_Rows], tuple[str, ...]]:
    """The rows to train on and those that are held out, and the names of the classes."""
    found = _read(source, size)
    train = found.train
    if found.held_out is None:
        return [_Rows(train.pixels, rows, train.labels[rows]) for rows in held_out(train.labels)], found.classes
    whole = [_Rows(part.pixels, torch.arange(len(part.labels)), part.labels) for part in (train, found.held_out)]
    return whole, found.classes


def _read(source: str, size: tuple[int, int, int]) -> Source:
    """A source by the form of its name."""
    if source == "digits":
        return digits.read()
    prefix, colon, rest = source.partition(":")
    form, name = (prefix, rest) if colon and prefix in _FORMS else (_form(Path(source)), source)
    return _FORMS[form](name, size)


def _form(path: Path) -> str:
    if path.suffix in (".npz", ".parquet"):
        return path.suffix[1:]
    if not path.is_dir():
        hint = (
            f"data is `digits`, a file ending in .npz or .parquet, a folder, or begins with {', '.join(_FORMS)} and `:`"
        )
        raise fail("A1101", f"there is no folder {path}", None, hint)
    if idx.present(path):
        return "idx"
    return "parquet" if parquet.present(path) else "images"


def _parquet(name: str, size: tuple[int, int, int]) -> Source:
    path, _, column = name.partition("#")
    return parquet.read(_existing(path), size, column or None)


def _hub(name: str, size: tuple[int, int, int]) -> Source:
    name, _, column = name.partition("#")
    return hub.read(name, size, column or None)


def _existing(name: str) -> Path:
    if not Path(name).exists():
        raise fail("A1101", f"there is no file or folder {name}")
    return Path(name)


_FORMS: dict[str, Callable[[str, tuple[int, int, int]], Source]] = {
    "npz": lambda name, _: npz.read(Path(name)),
    "idx": lambda name, _: idx.read(_existing(name)),
    "parquet": _parquet,
    "images": lambda name, size: folder.read(_existing(name), size),
    "hf": _hub,
}
"""How sources are read, by what their names begin with."""
