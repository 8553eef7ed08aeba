"""Recipe settings: what a search does, phase by phase, in TOML.

space = "darts.arch:darts"          # path relative to the recipe's folder
[parameters]                        # of the net
[data]                              # training data
[objective]                         # what is minimised
[[phase]]                           # in order of execution
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from archir.data.resizing import Interpolation, Resizing
from archir.diagnostics.work import MAX_COUNT, MAX_THREADS
from archir.recipes.augmentation import Augment, AugmentSettings
from archir.recipes.training import AlphasOptimizer, Optimizer, Training
from archir.utils.settings import Amount, Count, ListAsTuple, Seed, Settings

NAME = r"^[A-Za-z0-9][\w-]*$"


class DataSettings(Settings):
    """Data of a phase. `source` is the name of a data source (see `archir.data`)."""

    source: str = "digits"
    limit: int | None = Field(default=None, ge=2, le=10**12)
    """Maximum number of samples in the training part, and in the held-out part."""
    classes: int | None = Field(default=None, ge=2, le=MAX_COUNT)
    """Number of classes to keep; they are sampled with the seed."""
    split: Literal["samples", "classes"] = "samples"
    """What is held out: samples of every class, as the source says, or the samples of the second half of the classes.

    With `classes`, training samples are those of the first half of the classes, and only `retrieval` can be measured.
    """
    weights: float = Field(default=0.5, gt=0, lt=1)
    """Fraction of the training samples on which a search trains weights; the rest select architectures."""
    center_crop: float = Field(default=1.0, ge=0.1, le=1)
    """Share of the shorter side of an image that the net sees, at the centre; the rest is cut off.

    ImageNet's usual evaluation is 0.875: of an image with a shorter side of 256 pixels, 224 x 224.
    """
    interpolation: Interpolation = "bilinear"
    augment: AugmentSettings = Augment()

    @property
    def resizing(self) -> Resizing:
        """How images are resized to the net's input."""
        return Resizing(self.center_crop, self.interpolation)


SPLITTING = ("limit", "classes", "split", "weights")
"""Data settings that decide, with the source and the seed, which samples train weights, select and are held out."""


def is_external(name: str) -> bool:
    """Return True if initial weights are named by a file or another run, and not by an earlier phase."""
    return "/" in name or name.endswith(".safetensors")


class Start(Settings):
    """Results of earlier phases from which a phase starts; the earlier phases are given by name."""

    alphas: str | None = None
    """Phase whose final architecture parameters initialise those of this phase."""
    architecture: str | None = None
    """Phase whose architecture this phase trains; a search takes the outcomes of its fixed choices from it."""
    weights: str | None = None
    """Phase whose weights initialise those with the same names and shapes.

        If that phase trained a supernet, the weights that the architecture uses are extracted. A path containing `/`
        refers to another run: `runs/other` or `runs/other:PHASE`. A path ending in `.safetensors` is a weights file:
        `teacher.safetensors`.
    """
    trials: str | None = None
    """Phase whose trials and scores are used."""
    allow_validation_overlap: bool = False
    """Allow initial weights that were trained on the samples by which this search selects architectures."""
    map: str | None = None
    """File that maps weight names in the weights file to those of the network (see `archir.backends.weight_names`).

    The weights file must then have exactly the weights of the network, with the right shapes.
    """

    order: str | None = None
    """Importance measure by which channels, groups and heads of the initial weights are sorted, most important
    first.

    The network still computes the same function. For a supernet, the weights are those of its largest
    architecture.
    """
    refit: Count | None = None
    """Number of samples for merging removed channels into kept ones when an architecture is extracted from a
        supernet.

        If set, the removed channels are predicted from the kept ones by least squares on these samples. The prediction
        is
        folded into the weights that read the removed channels, so that the extracted architecture approximates the
        largest one.
    """

    @model_validator(mode="after")
    def _require_weights(self) -> Start:
        """Reject options on initial weights if no initial weights are set."""
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
        """Names of the phases, runs or files from which the phase starts, by the setting that names them."""
        names = {name: getattr(self, name) for name in ("alphas", "architecture", "weights", "trials")}
        return {name: value for name, value in names.items() if value is not None}


class SkipLimit(Settings):
    """Maximum number of alternatives per cell that have certain labels (Chen et al. 2019, P-DARTS, section 3.3;
    Liang et al. 2019, DARTS+, section 3.2).

    The cell of a choice is the part of its path before the first dot.
    """

    labels: Annotated[tuple[str, ...], ListAsTuple] = ("skip_connect",)
    most: Amount = 2
    stop: bool = False
    """Stop the search as soon as the derived architecture would exceed the limit."""


class Derive(Settings):
    """How to derive an architecture from architecture parameters (see `archir.spaces.derive`)."""

    exclude: Annotated[tuple[str, ...], ListAsTuple] = ()
    """Labels of alternatives that are never derived, such as zero operations."""
    limit: SkipLimit | None = None


class Evaluate(Settings):
    """Benchmark table in which candidates are looked up instead of being trained (see `archir.tabular`)."""

    table: str
    """A `.npz`, `.csv` or `.parquet` file; the path is relative to the recipe's folder."""
    map: str | None = None
    """TOML file that assigns table columns to choices and measures. Default: the table's path with the suffix
    `.toml`."""
    measures: Annotated[tuple[str, ...], ListAsTuple] = ()
    """Measures to read (default: all); candidates are compared by the first measure."""


class Phase(Settings):
    """A phase: a strategy with its settings. `options` are specific to the strategy."""

    name: str = Field(pattern=NAME)
    strategy: str
    space: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the net; they override those in the recipe's top-level `parameters`."""
    data: DataSettings | None = None
    augment: AugmentSettings | None = None
    """Augmentation; it replaces the one in `data`."""
    objective: dict[str, Any] = Field(default_factory=lambda: {"kind": "classification"})
    also: Annotated[tuple[dict[str, Any], ...], ListAsTuple] = ()
    """Additional objectives, each with a `weight`. All losses are added."""
    open: Annotated[tuple[str, ...], ListAsTuple] | None = None
    """Choices to search, as path patterns (`stage[*].op`) or tags (`@edges`).

    Default: all choices that match no pattern in `fixed`.
    """
    fixed: dict[str, Any] = Field(default_factory=dict)
    """Labels for choices that are not searched, by pattern as in `open`; later patterns override earlier ones.

    `"largest"` and `"smallest"` select the outcomes of the most and of the least expensive architecture (in
    MACs). `fixed` overrides `start.architecture`.
    """
    start: Start = Start()
    evaluate: Evaluate | None = None
    """Benchmark table that scores candidates, unless `options.scorer` is set."""
    training: Training = Training()
    weights: Optimizer = Optimizer()
    alphas: AlphasOptimizer = AlphasOptimizer()
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
    """File of the space, relative to the recipe's folder; `:NET` may be appended."""
    title: str = ""
    plugins: Annotated[tuple[str, ...], ListAsTuple] = ()
    """Python modules that register names used in the recipe; they may be in the recipe's folder."""
    seed: Seed = 0
    parameters: dict[str, Any] = Field(default_factory=dict)
    data: DataSettings = DataSettings()
    objective: dict[str, Any] = Field(default_factory=lambda: {"kind": "classification"})
    """Objective for phases that set none."""
    evaluate: Evaluate | None = None
    """Benchmark table for phases that set none."""
    phase: Annotated[tuple[Phase, ...], ListAsTuple, AfterValidator(_require_phase)]
    threads: int | None = Field(default=None, ge=1, le=MAX_THREADS)
    """Number of CPU threads. Default: torch's own default.

    Small networks are often faster with one thread. Runs are bit-for-bit reproducible only with the same number
    of threads.
    """
    export: bool | Literal["each"] = True
    """Export the last trained network as a verified ONNX model; with `"each"`, export every trained network to
    `networks/`."""
    opset: int | None = Field(default=None, ge=1, le=MAX_COUNT)
    tensorboard: bool = False
    """Also write per-epoch metrics to TensorBoard files, in `tensorboard/`."""

    @model_validator(mode="before")
    @classmethod
    def _inherit_objective(cls, settings: Any) -> Any:
        """Give the recipe's objective to phases that set none."""
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
        """Return the benchmark table for a phase: its own, or else the recipe's."""
        return phase.evaluate or self.evaluate

    def data_of(self, phase: Phase) -> DataSettings:
        """Return the data settings for a phase: its own, and the recipe's for those that it omits."""
        own = phase.data
        if own is None:
            return self.data
        return self.data.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})
