"""Recipes: what a search does, phase by phase, as TOML says it.

space = "darts.arch:darts"          # beside the recipe
[parameters]                        # of the net
[data]                              # what is trained on
[objective]                         # what is minimised
[[phase]]                           # one after the other
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from archir.diagnostics.work import MOST, MOST_THREADS
from archir.recipes.training import Augment, Optimizer, Training
from archir.utils.settings import Amount, Count, Many, Seed, Settings

NAME = r"^[A-Za-z0-9][\w-]*$"


class DataSettings(Settings):
    """Which images. `source` is the name of one (see `archir.data`)."""

    source: str = "digits"
    limit: int | None = Field(default=None, ge=2, le=10**12)
    """At most so many images of the training part, and of the held-out part."""
    classes: int | None = Field(default=None, ge=2, le=MOST)
    """So many classes, drawn by the seed."""
    weights: float = Field(default=0.5, gt=0, lt=1)
    """The part of the training images that weights see in a search; what chooses sees the others."""
    augment: Augment = Augment()


def elsewhere(name: str) -> bool:
    """Whether what a phase starts from is a file or a run, and no earlier phase."""
    return "/" in name or name.endswith(".safetensors")


class Start(Settings):
    """What a phase takes over from earlier ones, by their names."""

    alphas: str | None = None
    """Its architecture parameters start as those of this phase ended."""
    architecture: str | None = None
    """The architecture of this phase: what `train` trains; in a search, what choices that are not open are."""
    weights: str | None = None
    """Weights of the same name and shape; of a supernet, an architecture's part. With a `/`, another run's:
    `runs/other`, or `runs/other:PHASE`; or those of a file, `teacher.safetensors`."""
    trials: str | None = None
    """What this phase tried, and what came of it."""
    seen: bool = False
    """Whether it is known, and meant, that these weights were trained on samples that choose in this search."""
    map: str | None = None
    """A file that says which weights of a file are which of the network (see `archir.backends.naming`): all of the
    network's must be in the file, of the right shapes, and no others."""

    order: str | None = None
    """A measure of importance: the network whose weights these are computes the same with its channels, groups and
    heads in the order of it, the most important first. Of a supernet that is the largest one."""
    refit: Count | None = None
    """So many samples tell what the channels that an architecture of a supernet keeps say of those that it leaves out;
    that is added to the weights that read them, so that it computes nearly what the largest one does."""

    @model_validator(mode="after")
    def _of_weights(self) -> Start:
        if self.map is not None and not (self.weights or "").endswith(".safetensors"):
            raise ValueError("`map` names the weights of a file: `weights` is none")
        if self.order is not None and self.weights is None:
            raise ValueError("`order` is for `weights` to start from, and there are none")
        if self.seen and self.weights is None:
            raise ValueError("`seen` is of `weights` to start from, and there are none")
        if self.refit is not None and self.weights is None:
            raise ValueError("`refit` is for `weights` to start from, and there are none")
        return self

    @property
    def phases(self) -> dict[str, str]:
        """What is taken over by name: from a phase, or of `weights` from elsewhere."""
        found = {name: getattr(self, name) for name in ("alphas", "architecture", "weights", "trials")}
        return {name: given for name, given in found.items() if given is not None}


class SkipLimit(Settings):
    """How many alternatives with certain labels a cell may have (Chen et al. 2019, P-DARTS, section 3.3; Liang et al.
    2019, DARTS+, section 3.2). A cell is what comes before the first point of a choice's path."""

    labels: Annotated[tuple[str, ...], Many] = ("skip_connect",)
    most: Amount = 2
    stop: bool = False
    """Whether the search stops as soon as more would be derived."""


class Derive(Settings):
    """How an architecture is derived from architecture parameters (see `archir.spaces.derive`)."""

    exclude: Annotated[tuple[str, ...], Many] = ()
    """Labels of alternatives that are not derived, such as those of zeros."""
    limit: SkipLimit | None = None


class Evaluate(Settings):
    """A table of results that candidates are looked up in, instead of being trained (see `archir.scores`)."""

    table: str
    """A `.npz`, `.csv` or `.parquet` file, from the folder of the recipe."""
    map: str | None = None
    """Which of its columns are which choices and measures: TOML, by default of the table's name."""
    measures: Annotated[tuple[str, ...], Many] = ()
    """Those that are wanted, the first of which is what candidates are compared by; by default all."""


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
    open: Annotated[tuple[str, ...], Many] | None = None
    """Choices that are searched, as patterns of their paths (`stage[*].op`) or tags (`@edges`); by default all that
    `fixed` does not name."""
    fixed: dict[str, Any] = Field(default_factory=dict)
    """Labels of choices that are not open, by patterns as in `open`, later ones before earlier ones; `"largest"` and
    `"smallest"` are what costs most and least. They come before those of `start.architecture`."""
    start: Start = Start()
    evaluate: Evaluate | None = None
    """What scores candidates where `options.scorer` says nothing else."""
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
    plugins: Annotated[tuple[str, ...], Many] = ()
    """Modules that register what the recipe names; they may lie beside it."""
    seed: Seed = 0
    parameters: dict[str, Any] = Field(default_factory=dict)
    data: DataSettings = DataSettings()
    objective: dict[str, Any] = Field(default_factory=lambda: {"kind": "classification"})
    """That of phases which name no other."""
    evaluate: Evaluate | None = None
    """The same."""
    phase: Annotated[tuple[Phase, ...], Many, AfterValidator(_some)]
    threads: int | None = Field(default=None, ge=1, le=MOST_THREADS)
    """Threads on the CPU, by default as many as torch takes. Small networks are often faster with one; and runs are the
    same to the bit for the same number."""
    export: bool | Literal["each"] = True
    """Whether the last network that was trained is written as ONNX, and verified; `"each"`: all of them are, below
    `networks/`."""
    opset: int | None = Field(default=None, ge=1, le=MOST)

    @model_validator(mode="before")
    @classmethod
    def _handed_down(cls, given: Any) -> Any:
        """Phases without an objective have that of the recipe."""
        if not isinstance(given, dict) or "objective" not in given or not isinstance(given.get("phase"), list | tuple):
            return given
        usual = {"objective": given["objective"]}
        return given | {"phase": [usual | one if isinstance(one, dict) else one for one in given["phase"]]}

    def evaluate_of(self, phase: Phase) -> Evaluate | None:
        """The table of a phase, which is by default that of the recipe."""
        return phase.evaluate or self.evaluate

    def data_of(self, phase: Phase) -> DataSettings:
        """The images of a phase: what its own settings leave out is as the recipe's say."""
        own = phase.data
        if own is None:
            return self.data
        return self.data.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})
