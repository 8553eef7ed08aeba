"""Settings of recipes: what a search does, phase by phase, in TOML.

space = "darts.arch:darts"          # path from the recipe's folder
[parameters]                        # of the net
[data]                              # training data
[objective]                         # what is minimised
[[phase]]                           # in order of execution
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from archir.diagnostics.work import MAX_COUNT, MAX_THREADS
from archir.recipes.training import Augment, Optimizer, Training
from archir.utils.settings import Amount, Count, ListAsTuple, Seed, Settings

NAME = r"^[A-Za-z0-9][\w-]*$"


class DataSettings(Settings):
    """Data of a phase. `source` is the name of a data source (see `archir.data`)."""

    source: str = "digits"
    limit: int | None = Field(default=None, ge=2, le=10**12)
    """Maximum number of samples of the training part, and of the held-out part."""
    classes: int | None = Field(default=None, ge=2, le=MAX_COUNT)
    """Number of classes to keep, which the seed samples."""
    weights: float = Field(default=0.5, gt=0, lt=1)
    """Fraction of the training samples on which a search trains weights; it chooses by the others."""
    augment: Augment = Augment()


def is_external(name: str) -> bool:
    """True if the name of initial weights is a file or another run, rather than an earlier phase."""
    return "/" in name or name.endswith(".safetensors")


class Start(Settings):
    """What a phase takes over from earlier phases, which are given by name."""

    alphas: str | None = None
    """Phase whose final architecture parameters are the initial ones of this phase."""
    architecture: str | None = None
    """Phase whose architecture this phase trains; a search takes its fixed choices from it."""
    weights: str | None = None
    """Phase whose weights are loaded where names and shapes agree; from a supernet, an architecture's part of them.

    A path with `/` is another run: `runs/other`, or `runs/other:PHASE`. A path that ends in `.safetensors` is a file:
    `teacher.safetensors`.
    """
    trials: str | None = None
    """Phase whose trials and their scores are used."""
    allow_validation_overlap: bool = False
    """Allow weights that were trained on samples by which this search chooses."""
    map: str | None = None
    """File that maps weight names of a file to those of the network (see `archir.backends.weight_names`).

    The file must then hold all weights of the network, with the right shapes, and no others.
    """

    order: str | None = None
    """Measure of importance by which channels, groups and heads of the initial weights are sorted, most important
    first.

    The network computes the same afterwards. The weights of a supernet are those of its largest architecture.
    """
    refit: Count | None = None
    """Number of samples for merging removed channels into kept ones when an architecture is taken out of a supernet.

    They are used to predict the removed channels from the kept ones; the prediction is added to the weights that read
    them, so that the architecture nearly computes what the largest one does.
    """

    @model_validator(mode="after")
    def _require_weights(self) -> Start:
        """Check that options of initial weights are given only with initial weights."""
        if self.map is not None and not (self.weights or "").endswith(".safetensors"):
            raise ValueError("`map` needs a file of weights: set `weights` to a path ending in .safetensors")
        if self.order is not None and self.weights is None:
            raise ValueError("`order` needs weights to start from: set `weights`")
        if self.allow_validation_overlap and self.weights is None:
            raise ValueError("`allow_validation_overlap` needs weights to start from: set `weights`")
        if self.refit is not None and self.weights is None:
            raise ValueError("`refit` needs weights to start from: set `weights`")
        return self

    @property
    def phases(self) -> dict[str, str]:
        """Names of the phases, runs or files that are taken over, by setting."""
        names = {name: getattr(self, name) for name in ("alphas", "architecture", "weights", "trials")}
        return {name: value for name, value in names.items() if value is not None}


class SkipLimit(Settings):
    """Maximum number of alternatives with certain labels in a cell (Chen et al. 2019, P-DARTS, section 3.3; Liang et
    al. 2019, DARTS+, section 3.2).

    The cell of a choice is its path up to the first dot.
    """

    labels: Annotated[tuple[str, ...], ListAsTuple] = ("skip_connect",)
    most: Amount = 2
    stop: bool = False
    """Stop the search as soon as the derived architecture would exceed the limit."""


class Derive(Settings):
    """Derivation of an architecture from architecture parameters (see `archir.spaces.derive`)."""

    exclude: Annotated[tuple[str, ...], ListAsTuple] = ()
    """Labels of alternatives that are never derived, such as those of zero operations."""
    limit: SkipLimit | None = None


class Evaluate(Settings):
    """Table of results in which candidates are looked up instead of being trained (see `archir.tabular`)."""

    table: str
    """A `.npz`, `.csv` or `.parquet` file; the path starts in the recipe's folder."""
    map: str | None = None
    """TOML file that assigns columns to choices and measures; by default, the table's path with the suffix `.toml`."""
    measures: Annotated[tuple[str, ...], ListAsTuple] = ()
    """Measures to read, by default all; candidates are compared by the first one."""


class Phase(Settings):
    """A phase: a strategy and its settings. `options` are specific to the strategy."""

    name: str = Field(pattern=NAME)
    strategy: str
    space: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the net, which override those of the recipe."""
    data: DataSettings | None = None
    augment: Augment | None = None
    """Augmentation that replaces the one in `data`."""
    objective: dict[str, Any] = Field(default_factory=lambda: {"kind": "classification"})
    also: Annotated[tuple[dict[str, Any], ...], ListAsTuple] = ()
    """Additional objectives, each with a `weight`; their losses are added."""
    open: Annotated[tuple[str, ...], ListAsTuple] | None = None
    """Choices to search, as patterns of their paths (`stage[*].op`) or tags (`@edges`).

    By default all choices that `fixed` does not name.
    """
    fixed: dict[str, Any] = Field(default_factory=dict)
    """Labels of choices that are not searched, by patterns as in `open`; later patterns override earlier ones.

    `"largest"` and `"smallest"` are the most and the least expensive alternative. They override `start.architecture`.
    """
    start: Start = Start()
    evaluate: Evaluate | None = None
    """Table that scores candidates unless `options.scorer` is set."""
    training: Training = Training()
    weights: Optimizer = Optimizer()
    alphas: Optimizer = Optimizer(kind="adam", lr=3e-4, betas=(0.5, 0.999), weight_decay=1e-3, schedule="constant")
    derive: Derive = Derive()
    options: dict[str, Any] = Field(default_factory=dict)


def _require_phase(phases: tuple[Phase, ...]) -> tuple[Phase, ...]:
    """Check that there is at least one phase."""
    if not phases:
        raise ValueError("a recipe needs at least one phase")
    return phases


class Recipe(Settings):
    """A search: a space, data, and the phases to run."""

    space: str
    """File of the space, from the recipe's folder, optionally with `:net`."""
    title: str = ""
    plugins: Annotated[tuple[str, ...], ListAsTuple] = ()
    """Modules that register names used in the recipe; they may lie in the recipe's folder."""
    seed: Seed = 0
    parameters: dict[str, Any] = Field(default_factory=dict)
    data: DataSettings = DataSettings()
    objective: dict[str, Any] = Field(default_factory=lambda: {"kind": "classification"})
    """Objective of the phases that have none of their own."""
    evaluate: Evaluate | None = None
    """Table of results of the phases that have none of their own."""
    phase: Annotated[tuple[Phase, ...], ListAsTuple, AfterValidator(_require_phase)]
    threads: int | None = Field(default=None, ge=1, le=MAX_THREADS)
    """Number of CPU threads, by default torch's own number.

    Small networks are often faster with one thread. Runs are reproducible to the bit only with the same number of
    threads.
    """
    export: bool | Literal["each"] = True
    """Write the last trained network as a verified ONNX model; with `"each"`, write every trained network below
    `networks/`."""
    opset: int | None = Field(default=None, ge=1, le=MAX_COUNT)
    tensorboard: bool = False
    """Also write the figures of epochs for TensorBoard, below `tensorboard/`."""

    @model_validator(mode="before")
    @classmethod
    def _inherit_objective(cls, settings: Any) -> Any:
        """Give phases without an objective the objective of the recipe."""
        if (
            not isinstance(settings, dict)
            or "objective" not in settings
            or not isinstance(settings.get("phase"), list | tuple)
        ):
            return settings
        default = {"objective": settings["objective"]}
        return settings | {
            "phase": [default | phase if isinstance(phase, dict) else phase for phase in settings["phase"]]
        }

    def evaluate_of(self, phase: Phase) -> Evaluate | None:
        """Return the table of a phase, by default the recipe's."""
        return phase.evaluate or self.evaluate

    def data_of(self, phase: Phase) -> DataSettings:
        """Return the data settings of a phase: its own settings, and the recipe's for those it omits."""
        own = phase.data
        if own is None:
            return self.data
        return self.data.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})
