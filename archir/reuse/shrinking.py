"""Shrinks a trained network: writes a recipe for a space whose largest architecture is that network.

The recipe has ordinary phases. `full` measures the unmodified network. Then `elastic` trains the space's shared
weights, with the network as teacher; without such training, a phase `shared` takes its place, which only shares the
network's weights. `search` looks for an architecture within the budget, `cut` extracts it, and `tuned` trains it
further.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from archir.diagnostics.errors import ArchError, fail
from archir.equivalence.canonical import canonical_hash
from archir.language.elaboration.files import split_net
from archir.recipes.spaces import files_of, load_space
from archir.reuse.specializing import evolution
from archir.runs import Run
from archir.runs.folder import RECIPE, SPACE
from archir.spaces.completion import largest
from archir.utils import toml
from archir.utils.files import sha256
from archir.utils.settings import Amount, Count, Seed, Settings

FULL, SHARED, ELASTIC, SEARCH, CUT, TUNED = "full", "shared", "elastic", "search", "cut", "tuned"
TEACHER = "distillation"
"""Kind of the objective for distillation from the full network."""


class Plan(Settings):
    """Settings for shrinking a network."""

    data: str = "digits"
    objective: dict[str, Any] = Field(default_factory=lambda: {"kind": "classification"})
    refit: Count = 512
    """Number of samples for merging removed channels into kept ones, before any training."""
    elastic: Amount = 0
    """Number of epochs for training the space's shared weights; 0 refits them instead of training."""
    epochs: Count = 10
    """Number of epochs for training the selected architecture."""
    trials: Count = 100
    """Number of architectures that the search tries."""
    min_budget_fraction: float = Field(default=0.9, ge=0, le=1)
    """Minimum cost of the architectures to try, as a fraction of the budget."""
    samples: Count | None = None
    """Number of validation samples on which each architecture is scored. Default: all."""
    lr: float = Field(default=1e-3, gt=0, le=1000)
    batch: Count = 64
    validation: float = Field(default=0.1, gt=0, lt=1)
    """Fraction of the training samples by which architectures are selected; shared weights are not trained on them."""
    shift: Amount = 0
    """Maximum random translation of images in pixels, vertical and horizontal."""
    flip: bool = False
    """Flip each image horizontally with probability 0.5."""
    teach: Literal["beside", "alone", "none"] = "beside"
    """Use of the full network as a teacher: in addition to the data's targets (`beside`), instead of them (`alone`),
    or not at all (`none`)."""
    temperature: float = Field(default=2.0, gt=0, le=1e3)
    """Divisor of the full network's logits; values above 1 give more weight to unlikely classes."""
    recalibrate: Amount | None = None
    """Number of batches for measuring the batch-norm statistics of extracted architectures; 0 keeps the existing
    statistics.

    Default: 4 during the search, 16 afterwards.
    """
    norms: Literal["batch", "frozen"] = "batch"
    """Batch norms in training: `batch` normalises by the statistics of the batch; `frozen` keeps the running
    statistics unchanged."""
    order: str = "energy"
    """Importance measure by which channels and heads are sorted before any are removed; `none` keeps their order."""
    seed: Seed = 0
    threads: int | None = None


def prepare(net: Path, space: Path, weights: Path, budget: str, plan: Plan, folder: Path) -> Path:
    """Write the recipe, and the program files of the net and the space, into a folder; return the recipe's path.

    `net` and `space` are files, optionally with `:NET`; their imports must be in their folders or below. Raises
    ArchError: A2224 (the net has choices or is not the largest architecture of the space), and errors in the
    files or the budget.
    """
    names = {}
    for role, path in (("net", net), ("space", space)):
        file, net_name = split_net(str(path))
        home = Path(file).resolve().parent
        for name, text in files_of(Path(file).name, home).items():
            target = folder / role / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
        names[role] = f"{role}/{Path(file).name}" + (f":{net_name}" if net_name else "")
    full, supernet_space = load_space(names["net"], folder, {}), load_space(names["space"], folder, {})
    if full.choices:
        raise fail("A2224", f"`{full.name}` has choices: only a single network can be shrunk")
    max_network = supernet_space.specialize(largest(supernet_space))
    if canonical_hash(max_network) != canonical_hash(full.graph):
        text = f"the largest architecture of `{supernet_space.name}` is not `{full.name}`: its weights would not fit"
        raise fail("A2224", text, None, f"archir diff {net} {space} says how they differ")
    supernet_space.where(budget).check_bounds()
    recipe = _recipe(names, weights.resolve(), budget, plan)
    path = folder / RECIPE
    path.write_text(toml.dump_toml(recipe), "utf-8")
    return path


def is_run_of(run: Run, recipe: Path, weights: Path) -> bool:
    """Return True if a run was started with the given recipe, which `prepare` wrote.

    Raises ArchError (A2224) if the recipe is the same but a program or the weights have changed since.
    """
    if run.content(RECIPE) != recipe.read_bytes():
        return False
    for role in ("net", "space"):
        for path in sorted((recipe.parent / role).rglob("*.arch")):
            name = path.relative_to(recipe.parent)
            if run.content(f"{SPACE}/{name.as_posix()}") != path.read_bytes():
                raise _changed_error(run, f"`{name.relative_to(role)}`")
    copies = [entry.sha256 for name, entry in run.entries.items() if name.startswith("start/")]
    if sha256(weights) not in copies:
        raise _changed_error(run, f"`{weights.name}`")
    return True


def _changed_error(run: Run, what: str) -> ArchError:
    text = f"{run.folder} was started with another {what} than the current one"
    return fail("A2224", text, None, "use a new folder, or remove this one")


def _recipe(names: Mapping[str, str], weights: Path, budget: str, plan: Plan) -> dict[str, Any]:
    """Return the recipe as a dictionary. `names` are the paths of net and space relative to its folder."""
    augment = {"shift": plan.shift, "flip": plan.flip}
    augmented = any(augment.values())
    teacher = {"kind": TEACHER, "teacher": names["net"], "weights": str(weights),
    "form": {"multilabel": "labels", "regression": "numbers"}.get(str(plan.objective.get("kind")), "classes"),
               "temperature": plan.temperature, "remember": not augmented}  # fmt: skip
    distillation: dict[str, Any] = {"also": [teacher]} if plan.teach != "none" else {}
    if plan.teach == "alone":
        distillation["objective"] = plan.objective | {"weight": 0.0}
    optimizer = {"kind": "adamw", "lr": plan.lr, "weight_decay": 0.01, "warmup_epochs": 0.5, "clip": 1.0}
    start = {"weights": str(weights)}
    # networks are usually shrunk with the data they were trained on; docs/shrink.md discusses the consequences
    ordered_start = start | {"allow_validation_overlap": True} | ({"order": plan.order} if plan.order != "none" else {})
    steps, measured = {"batch": plan.batch}, {} if plan.recalibrate is None else {"recalibrate": plan.recalibrate}
    within = {"where": budget} | ({"min_budget_fraction": plan.min_budget_fraction} if "<" in budget else {})
    if plan.elastic:
        shared_start: dict[str, Any] = {"weights": ELASTIC}
        first = {
            "name": ELASTIC,
            "strategy": "spos",
            "start": ordered_start,
            "weights": optimizer,
            **distillation,
            "training": steps | {"epochs": plan.elastic, "norms": plan.norms},
            "options": within | {"drawn": 2, "uniform": "architectures", "evaluate_every": plan.elastic},
        }
    else:
        shared_start = {"weights": SHARED, "refit": plan.refit}
        first = {"name": SHARED, "strategy": "share", "start": ordered_start, "training": steps}
    phases: list[dict[str, Any]] = [
        {"name": FULL, "space": names["net"], "strategy": "inherit", "start": start, "options": {"recalibrate": 0}},
        first,
        {"name": SEARCH, "strategy": "evolution", "start": shared_start, "training": steps,
         "options": evolution(plan.trials, images=plan.samples, **measured) | within},
        {"name": CUT, "strategy": "inherit", "start": {"architecture": SEARCH, **shared_start}, "training": steps,
         "options": measured},
        {"name": TUNED, "strategy": "train", "start": {"architecture": SEARCH, "weights": CUT}, **distillation,
         "weights": optimizer, "training": steps | {"epochs": plan.epochs, "norms": plan.norms}},
    ]  # fmt: skip
    data = {"source": plan.data, "weights": 1 - plan.validation} | ({"augment": augment} if augmented else {})
    recipe = {"title": "a smaller network", "space": names["space"], "seed": plan.seed, "export": "each"}
    recipe |= {"threads": plan.threads} if plan.threads is not None else {}
    return {**recipe, "data": data, "objective": plan.objective, "phase": phases}
