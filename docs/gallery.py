"""Draw the pictures of docs/gallery.md, and write the page.

python docs/gallery.py [NAME ...]

Each picture is made by the command that the page shows under it. With names, only these pictures are drawn again. The
imported networks are models of timm.
"""

from __future__ import annotations

import argparse
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from archir.cli import main as archir

DOCS = Path(__file__).resolve().parent
ROOT, FOLDER, PAGE = DOCS.parent, DOCS / "pictures" / "gallery", DOCS / "gallery.md"
INTRODUCTION = """# Gallery

Cells, blocks and networks as `archir show` draws them; [Pictures](pictures.md) explains what the parts mean. Each
picture is made by the command below it, and all of them by `python docs/gallery.py`.
"""


@dataclass(frozen=True)
class Picture:
    """A picture of the gallery: title, what it shows, and what follows `archir show`.

    `model` names a model of timm, `MODULE:FUNCTION`, that is imported as `FILE.arch` first.
    """

    title: str
    text: str
    arguments: str
    model: str = ""

    def commands(self, output: str) -> list[str]:
        """Return the commands that draw the picture into a file."""
        file = self.arguments.partition(" ")[0]
        first = [f"archir import --torch {self.model} --input 3x224x224 -o {file}"] if self.model else []
        return [*first, f"archir show {self.arguments} -o {output}"]


CELLS, BLOCKS, NETWORKS = "Cells", "Blocks", "Networks"
PICTURES: dict[str, dict[str, Picture]] = {
    CELLS: {
        "darts": Picture(
            "DARTS, the space", "Each node takes two of the results before it, each through one of seven operations.",
            "examples/darts/darts.arch:darts --block normal",
        ),
        "darts_v2": Picture(
            "DARTS, the cell that was found", "The normal cell of the paper (second order).",
            "examples/darts/darts.arch:darts --arch examples/darts/darts_v2.json --block normal",
        ),
        "nas_bench_201": Picture(
            "NAS-Bench-201", "Each of the six edges of the cell has one of five operations.",
            "examples/nas_bench_201/nas_bench_201.arch --block searched",
        ),
        "nasnet": Picture(
            "NASNet", "A random cell: five nodes combine two earlier results, each through one of thirteen operations.",
            "examples/zoo/nasnet.arch --seed 0 --block normal",
        ),
        "enas": Picture(
            "ENAS", "A random cell: five nodes, as in NASNet, with five operations.",
            "examples/zoo/enas_micro.arch --seed 0 --block normal",
        ),
        "nos": Picture(
            "Neural operator search", "Nodes combine features, gates and dynamic kernels by `calibrate`.",
            "examples/nos/nos.arch:nos --block normal",
        ),
    },
    BLOCKS: {
        "trionet": Picture(
            "TrioNet", "Convolution, local attention or axial attention, of several sizes.",
            "examples/trionet/trionet.arch --block searched",
        ),
        "glit": Picture(
            "GLiT", "A layer with global and local heads.", "examples/glit/search.arch:levels --block layer"
        ),
        "llama": Picture(
            "Llama 3", "A layer of the space in which Puzzle shrinks it.", "examples/llama/llama3.arch --block layer"
        ),
    },
    NETWORKS: {
        "resnet50": Picture("ResNet-50", "Imported from timm.", "resnet50.arch", "timm.models.resnet:resnet50"),
        "swin": Picture(
            "Swin-T", "Imported from timm.", "swin.arch", "timm.models.swin_transformer:swin_tiny_patch4_window7_224",
        ),
    },
}  # fmt: skip
"""The pictures by section and name."""


def drawn(picture: Picture) -> str:
    """Return a picture as SVG, drawn by its commands in the root of the repository."""
    with tempfile.TemporaryDirectory() as folder:
        for command in picture.commands(f"{folder}/picture.svg"):
            words = [str(Path(folder, word)) if "/" not in word and word.endswith(".arch") else word
                     for word in shlex.split(command)[1:]]  # fmt: skip
            words = [str(ROOT / word) if word.startswith("examples/") else word for word in words]
            result = CliRunner().invoke(archir, words, catch_exceptions=False)
            if result.exit_code:
                raise SystemExit(f"{command}\n{result.output}")
        return Path(folder, "picture.svg").read_text("utf-8")


def page() -> str:
    """Return the text of the page."""
    parts = [INTRODUCTION]
    for section, pictures in PICTURES.items():
        parts.append(f"## {section}\n")
        for name, picture in pictures.items():
            commands = "\n".join(picture.commands(f"{name}.svg"))
            parts.append(
                f"### {picture.title}\n\n{picture.text}\n\n![{picture.title}](pictures/gallery/{name}.svg)\n\n"
                f"```\n{commands}\n```\n"
            )
    return "\n".join(parts)


def main(names: Sequence[str]) -> None:
    """Draw the pictures with these names, or all of them, and write the page."""
    FOLDER.mkdir(exist_ok=True)
    for pictures in PICTURES.values():
        for name, picture in pictures.items():
            if not names or name in names:
                (FOLDER / f"{name}.svg").write_text(drawn(picture), "utf-8")
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="pictures to draw [default: all]")
    main(parser.parse_args().names)
