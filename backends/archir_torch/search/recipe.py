"""Recipes: what a search does, phase by phase, as TOML says it.

space = "darts.arch:darts"          # beside the recipe
[parameters]                        # of the net
[data]                              # what is trained on
[[phase]]                           # one after the other
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from archir.base import toml
from archir.base.errors import ArchError, Diagnostic, fail, suggest
from archir.base.files import read_bytes
from archir.base.settings import MOST, MOST_THREADS, Amount, Seed
from archir.base.toml import Document
from archir_torch.training.settings import Augment, Many, Optimizer, Settings, Training, parsed

NAME = r"^[A-Za-z0-9][\w-]*$"


class DataSettings(Settings):
    """Which images. `source` is what `archir_torch.data.load` takes."""

    source: str = "digits"
    limit: int | None = Field(default=None, ge=2, le=10**12)
    """At most so many images of the training part, and of the held-out part."""
    classes: int | None = Field(default=None, ge=2, le=MOST)
    """So many classes, drawn by the seed."""
    weights: float = Field(default=0.5, gt=0, lt=1)
    """The part of the training images that weights see in a search; what chooses sees the others."""
    augment: Augment = Augment()


class Start(Settings):
    """What a phase takes over from earlier ones, by their names."""

    alphas: str | None = None
    """Its architecture parameters start as those of this phase ended."""
    architecture: str | None = None
    """The architecture of this phase: what `train` trains; in a search, what choices that are not open are."""
    weights: str | None = None
    """Weights of the same name and shape; of a supernet, an architecture's part."""
    trials: str | None = None
    """What this phase tried, and what came of it."""


class SkipLimit(Settings):
    """How many alternatives with certain labels a cell may have (Chen et al. 2019, P-DARTS, section 3.3; Liang et al.
    2019, DARTS+, section 3.2). A cell is what comes before the first point of a choice's path."""

    labels: Annotated[tuple[str, ...], Many] = ("skip_connect",)
    most: Amount = 2
    stop: bool = False
    """Whether the search stops as soon as more would be derived."""


class Derive(Settings):
    """How an architecture is derived from architecture parameters (see `archir.search.spaces.derive`)."""

    exclude: Annotated[tuple[str, ...], Many] = ()
    """Labels of alternatives that are not derived, such as those of zeros."""
    limit: SkipLimit | None = None


class Phase(Settings):
    """A phase: a strategy and what it needs. `options` are the strategy's own."""

    name: str = Field(pattern=NAME)
    strategy: str
    space: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Of the net, beside and before those of the recipe."""
    data: DataSettings | None = None
    augment: Augment | None = None
    """Instead of the data's."""
    objective: dict[str, Any] = Field(default_factory=lambda: {"kind": "classification"})
    also: Annotated[tuple[dict[str, Any], ...], Many] = ()
    """Objectives that are added, each with a `weight`."""
    open: Annotated[tuple[str, ...], Many] = ("*",)
    """Choices that are searched, as patterns of their paths (`stage[*].op`) or tags (`@edges`)."""
    fixed: dict[str, Any] = Field(default_factory=dict)
    """Labels of choices that are not open, by patterns as in `open`, later ones before earlier ones; `"largest"` and
    `"smallest"` are what costs most and least. They come before those of `start.architecture`."""
    start: Start = Start()
    training: Training = Training()
    weights: Optimizer = Optimizer()
    alphas: Optimizer = Optimizer(kind="adam", lr=3e-4, betas=(0.5, 0.999), weight_decay=1e-3, schedule="constant")
    derive: Derive = Derive()
    options: dict[str, Any] = Field(default_factory=dict)


def _some(phases: tuple[Phase, ...]) -> tuple[Phase, ...]:
    if not phases:
        raise ValueError("a search has at least one phase")
    return phases


class Recipe(Settings):
    """A search."""

    space: str
    """The file of the space, from the folder of the recipe, and maybe `:net`."""
    title: str = ""
    seed: Seed = 0
    parameters: dict[str, Any] = Field(default_factory=dict)
    data: DataSettings = DataSettings()
    phase: Annotated[tuple[Phase, ...], Many, AfterValidator(_some)]
    threads: int | None = Field(default=None, ge=1, le=MOST_THREADS)
    """Threads on the CPU, by default as many as torch takes. Small networks are often faster with one; and runs are the
    same to the bit for the same number."""
    export: bool = True
    """Whether the last network that was trained is written as ONNX, and verified."""
    opset: int | None = Field(default=None, ge=1, le=MOST)

    def data_of(self, phase: Phase) -> DataSettings:
        """The images of a phase: what its own settings leave out is as the recipe's say."""
        own = phase.data
        if own is None:
            return self.data
        return self.data.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})


@dataclass(frozen=True)
class Written:
    """A recipe, and the text that it is written in."""

    recipe: Recipe
    document: Document


def read(path: Path, overrides: Mapping[str, str] | None = None) -> Written:
    """The recipe of a file, some of whose settings are replaced (see `archir.base.toml.overridden`).

    Raises ArchError: A2201 (it cannot be read), A1109 (it cannot be).
    """
    try:
        text = read_bytes(path, 4 * toml.MOST_CHARACTERS).decode().replace("\r\n", "\n")
    except (OSError, ValueError) as error:
        raise fail("A2201", f"cannot read the recipe {path}: {getattr(error, 'strerror', None) or error}") from None
    return parse(text, str(path), overrides)


def parse(text: str, name: str = "<recipe>", overrides: Mapping[str, str] | None = None) -> Written:
    """The recipe of a text. Raises ArchError (A2201, A1109) with everything that is wrong, and where."""
    document = toml.read(text, name, "A2201")
    found = _made(document)  # an override mends no recipe
    if overrides:
        document = toml.overridden(document, overrides, "A1109")
        found = _made(document)
    return Written(found, document)


def _made(document: Document) -> Recipe:
    def whose(path: tuple[str | int, ...]) -> tuple[str, tuple[str | int, ...]]:
        match path:
            case ("phase", int(number), _, *_):
                return f"phase `{document.data['phase'][number].get('name', number + 1)}`: ", path[2:]
        return "", path

    recipe = parsed(Recipe, document.data, whose, document.span)
    _check_order(recipe, document)
    return recipe


def _check_order(recipe: Recipe, document: Document) -> None:
    """Raise ArchError (A1109) for phases of one name, and for those that start from what is no earlier one."""
    problems = []
    known: list[str] = []
    for number, phase in enumerate(recipe.phase):
        for what, name in phase.start:
            if name is not None and name not in known:
                problem = f"phase `{phase.name}` starts from the {what} of `{name}`, which is no earlier phase"
                span = document.span(("phase", number, "start", what))
                problems.append(Diagnostic("A1109", problem, span, suggest(name, known)))
        if phase.name in known:
            span = document.span(("phase", number, "name"))
            problems.append(Diagnostic("A1109", f"two phases are named `{phase.name}`", span))
        known.append(phase.name)
    if problems:
        raise ArchError(*problems)
