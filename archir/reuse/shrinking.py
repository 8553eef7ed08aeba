"""A trained network made smaller: as a recipe whose space has it for its largest architecture.

The phases are ordinary ones: the network is measured as it is (`full`), the space's weights are trained with it for a
teacher (`elastic`), or shared as they are (`shared`), a budget is searched (`search`), what was found is taken out
(`cut`) and trained on (`tuned`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from archir.diagnostics.errors import ArchError, fail
from archir.equivalence.canonical import canonical_hash
from archir.language.elaboration.files import split
from archir.recipes.spaces import files_of, load_space
from archir.reuse.specializing import RECIPE, evolution
from archir.runs import Run
from archir.spaces.partial import largest
from archir.utils import toml
from archir.utils.files import sha256
from archir.utils.settings import Amount, Count, Seed, Settings

FULL, SHARED, ELASTIC, SEARCH, CUT, TUNED = "full", "shared", "elastic", "search", "cut", "tuned"
TEACHER = "distillation"


class Plan(Settings):
    """How a network is made smaller."""

    data: str = "digits"
    objective: dict[str, Any] = Field(default_factory=lambda: {"kind": "classification"})
    refit: Count = 512
    """Samples by which what is left out is merged into what is kept, before anything is trained."""
    elastic: Amount = 0
    """Epochs in which the space's weights are trained, in place of that."""
    epochs: Count = 10
    """Epochs in which what was found is trained on."""
    trials: Count = 100
    """Architectures that are tried."""
    use: float = Field(default=0.9, ge=0, le=1)
    """The part of the budget that they cost at least."""
    samples: Count | None = None
    """Samples that each of them is scored on; all for validation by default."""
    lr: float = Field(default=1e-3, gt=0, le=1000)
    batch: Count = 64
    validation: float = Field(default=0.1, gt=0, lt=1)
    """The part of the training samples by which architectures are chosen; shared weights do not see it."""
    shift: Amount = 0
    """Pixels by which images are shifted at most, up or down and left or right."""
    flip: bool = False
    """Whether half of the images are mirrored, left to right."""
    teach: Literal["beside", "alone", "none"] = "beside"
    """Whether the full network teaches: beside the targets of the data, in place of them, or not at all."""
    temperature: float = Field(default=2.0, gt=0, le=1e3)
    """What the full network's logits are divided by: above 1, more is learnt of classes that are not likely."""
    recalibrate: Amount | None = None
    """Batches on which statistics of norms are measured anew for what is cut out; 4 in the search and 16 afterwards by
    default. With 0 they stay as they are."""
    norms: Literal["batch", "frozen"] = "batch"
    """Whether batch norms keep their statistics while what was found is trained."""
    order: str = "energy"
    """The measure of importance by which channels and heads are ordered before any are left out; `none` leaves them."""
    seed: Seed = 0
    threads: int | None = None


def prepare(net: Path, space: Path, weights: Path, budget: str, plan: Plan, folder: Path) -> Path:
    """Write the recipe into a folder, with the files of the net and of a space; the recipe's path.

    Both are files, maybe with `:NET`; imports stay below their folders. Raises ArchError: A2224 (the net has choices,
    or is not the largest architecture of the space), and what is wrong with files or the budget.
    """
    names = {}
    for role, path in (("net", net), ("space", space)):
        file, inside = split(str(path))
        home = Path(file).resolve().parent
        for name, text in files_of(Path(file).name, home).items():
            target = folder / role / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
        names[role] = f"{role}/{Path(file).name}" + (f":{inside}" if inside else "")
    full, opened = load_space(names["net"], folder, {}), load_space(names["space"], folder, {})
    if full.choices:
        raise fail("A2224", f"`{full.name}` has choices: what is shrunk is one network")
    most = opened.specialize(largest(opened))
    if canonical_hash(most) != canonical_hash(full.graph):
        text = f"the largest architecture of `{opened.name}` is not `{full.name}`: its weights would not fit"
        raise fail("A2224", text, None, f"archir diff {net} {space} says how they differ")
    opened.where(budget).prove()
    recipe = _recipe(names, weights.resolve(), budget, plan)
    path = folder / RECIPE
    path.write_text(toml.written(recipe), "utf-8")
    return path


def begun(run: Run, recipe: Path, weights: Path) -> bool:
    """Whether a run is of a recipe that `prepare` wrote. Raises ArchError (A2224) if it is, and of other files."""
    if run.content(RECIPE) != recipe.read_bytes():
        return False
    for role in ("net", "space"):
        for path in sorted((recipe.parent / role).rglob("*.arch")):
            name = path.relative_to(recipe.parent)
            if run.content(f"space/{name.as_posix()}") != path.read_bytes():
                raise _changed(run, f"`{name.relative_to(role)}`")
    copies = [one.sha256 for name, one in run.files.manifest.files.items() if name.startswith("start/")]
    if sha256(weights) not in copies:
        raise _changed(run, f"`{weights.name}`")
    return True


def _changed(run: Run, what: str) -> ArchError:
    text = f"{run.folder} was begun with another {what} than there is now"
    return fail("A2224", text, None, "name a new folder, or remove this one")


def _recipe(names: Mapping[str, str], weights: Path, budget: str, plan: Plan) -> dict[str, Any]:
    augment = {"shift": plan.shift, "flip": plan.flip}
    augmented = any(augment.values())
    teacher = {"kind": TEACHER, "teacher": names["net"], "weights": str(weights), "form": _form(plan.objective),
               "temperature": plan.temperature, "remember": not augmented}  # fmt: skip
    learns: dict[str, Any] = {"also": [teacher]} if plan.teach != "none" else {}
    if plan.teach == "alone":
        learns["objective"] = plan.objective | {"weight": 0.0}
    optimizer = {"kind": "adamw", "lr": plan.lr, "weight_decay": 0.01, "warmup_epochs": 0.5, "clip": 1.0}
    given = {"weights": str(weights)}
    # a network is mostly made smaller with the data that it was trained on: docs/shrink.md says what that means
    ordered = given | {"seen": True} | ({"order": plan.order} if plan.order != "none" else {})
    steps, measured = {"batch": plan.batch}, {} if plan.recalibrate is None else {"recalibrate": plan.recalibrate}
    within = {"where": budget} | ({"use": plan.use} if "<" in budget else {})
    if plan.elastic:
        home: dict[str, Any] = {"weights": ELASTIC}
        first = {
            "name": ELASTIC,
            "strategy": "spos",
            "start": ordered,
            "weights": optimizer,
            **learns,
            "training": steps | {"epochs": plan.elastic, "norms": plan.norms},
            "options": within | {"drawn": 2, "uniform": "architectures", "evaluate_every": plan.elastic},
        }
    else:
        home = {"weights": SHARED, "refit": plan.refit}
        first = {"name": SHARED, "strategy": "share", "start": ordered, "training": steps}
    phases: list[dict[str, Any]] = [
        {"name": FULL, "space": names["net"], "strategy": "inherit", "start": given, "options": {"recalibrate": 0}},
        first,
        {"name": SEARCH, "strategy": "evolution", "start": home, "training": steps,
         "options": evolution(plan.trials, images=plan.samples, **measured) | within},
        {"name": CUT, "strategy": "inherit", "start": {"architecture": SEARCH, **home}, "training": steps,
         "options": measured},
        {"name": TUNED, "strategy": "train", "start": {"architecture": SEARCH, "weights": CUT}, **learns,
         "weights": optimizer, "training": steps | {"epochs": plan.epochs, "norms": plan.norms}},
    ]  # fmt: skip
    data = {"source": plan.data, "weights": 1 - plan.validation} | (
        {"augment": augment} if any(augment.values()) else {}
    )
    found = {"title": "a smaller network", "space": names["space"], "seed": plan.seed, "export": "each"}
    found |= {"threads": plan.threads} if plan.threads is not None else {}
    return {**found, "data": data, "objective": plan.objective, "phase": phases}


def _form(objective: Mapping[str, Any]) -> str:
    """What the teacher's predictions are, by the objective's kind."""
    return {"multilabel": "labels", "regression": "numbers"}.get(str(objective.get("kind")), "classes")
