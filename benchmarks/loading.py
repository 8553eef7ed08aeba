"""Measure images per second: archir's batches and `torch.utils.data.DataLoader` with two workers, on JPEGs in Parquet.

python benchmarks/loading.py [--data FOLDER] [--images 20000] [--to FILE]

Both decode, normalise, shift by up to 4 pixels and mirror images, in shuffled batches of 128. DataLoader does so image
by image, as is usual; archir decodes in threads, only once if all images fit in memory, and augments whole batches. By
default 1,000 images of noise are written 20 times over; `--data` names a folder with `train-*.parquet` of the Hugging
Face hub, such as CIFAR-10. The figures are kept in `benchmarks/results/loading_cpu.txt`.
"""

from __future__ import annotations

import argparse
import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import torch.nn.functional as F
from measure import Table, machine, medians
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from archir.recipes.augmentation import Augment
from archir_torch.data import load, pixels
from archir_torch.training.feed import Feed

BATCH, SIZE = 128, 32
RESULTS = Path(__file__).resolve().parent / "results" / "loading_cpu.txt"


class PlainDataset(Dataset[tuple[Tensor, int]]):
    """A data set in the usual style of torch."""

    def __init__(self, folder: Path, count: int) -> None:
        table = pq.read_table(sorted(folder.glob("train-*.parquet"))[0])
        (image,) = [name for name in table.column_names if name.startswith("im")]
        self.files = [file["bytes"] for file in table[image].to_pylist()[:count]]
        self.labels = table["label"].to_pylist()[:count]
        self.mean, self.std = torch.full((3, 1, 1), 0.47), torch.full((3, 1, 1), 0.25)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        decoded = np.array(Image.open(io.BytesIO(self.files[row])).convert("RGB"))
        image = torch.from_numpy(decoded).permute(2, 0, 1).float().div(255)
        padded = F.pad((image - self.mean) / self.std, (4, 4, 4, 4))
        down, right = torch.randint(0, 9, (2,)).tolist()
        image = padded[:, down : down + SIZE, right : right + SIZE]
        return image.flip(2) if torch.rand(()) < 0.5 else image, self.labels[row]


def write_noise(folder: Path, count: int) -> None:
    """Write JPEGs of smooth noise in ten classes, in row groups of 1,000."""
    rng = np.random.default_rng(0)
    files = []
    for small in rng.integers(0, 256, (1000, 8, 8, 3), np.uint8):
        file = io.BytesIO()
        Image.fromarray(small).resize((SIZE, SIZE), Image.Resampling.BICUBIC).save(file, "jpeg", quality=95)
        files.append({"bytes": file.getvalue(), "path": None})
    rows = [files[row % 1000] for row in range(count)]
    table = pa.table({"image": rows, "label": [row % 10 for row in range(count)]})
    pq.write_table(table, folder / "train-0.parquet", row_group_size=1000)
    pq.write_table(table.slice(0, 100), folder / "test-0.parquet")


def compare_loaders(folder: Path, count: int, rounds: int) -> Table:
    """Return the table of both loaders, which take turns."""
    by_hand = PlainDataset(folder, count)
    loader = DataLoader(by_hand, BATCH, shuffle=True, num_workers=2, persistent_workers=True)
    feeds, epochs = {}, dict.fromkeys(("decoded each time", "decoded once"), 0)
    stored_limit = pixels.MAX_STORED_BYTES
    for name, limit in (("decoded each time", 0), ("decoded once", stored_limit)):
        pixels.MAX_STORED_BYTES = limit
        data = load(f"parquet:{folder}", (3, SIZE, SIZE), limit=count)
        feeds[name] = Feed(data.train, BATCH, seed=0, augment=Augment(shift=4, flip=True))
    pixels.MAX_STORED_BYTES = stored_limit

    def epoch(name: str) -> None:
        begin, epochs[name] = epochs[name] * feeds[name].steps, epochs[name] + 1
        assert sum(len(feeds[name].batch(begin + step)) for step in range(feeds[name].steps)) > count - BATCH

    candidates: dict[str, Any] = {"DataLoader, 2 workers": lambda: sum(len(images) for images, _ in loader)}
    candidates |= {f"archir, {name}": lambda name=name: epoch(name) for name in feeds}
    times = medians(candidates, rounds)
    table = Table(
        f"batches of {BATCH} of {count:,} JPEGs of {SIZE} x {SIZE} pixels", ["what", "images a second", "ratio"]
    )
    first = next(iter(times.values()))
    for name, time in times.items():
        table.add(name, f"{1000 * count / time:,.0f}", f"{first / time:.2f}")
    return table


def run(quick: bool, folder: Path | None = None, count: int = 20_000) -> Table:
    """Return the table; with `quick`, of few images."""
    count, rounds = (2000, 1) if quick else (count, 5)
    with tempfile.TemporaryDirectory() as scratch:
        if folder is None:
            write_noise(Path(scratch), count)
        return compare_loaders(folder or Path(scratch), count, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--to", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = run(False, arguments.data, arguments.images)
    print(table)
    arguments.to.write_text(f"{machine('cpu')}\n\n{table}\n")


if __name__ == "__main__":
    main()
