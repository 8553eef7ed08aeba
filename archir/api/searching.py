"""Training and searching: networks trained, recipes run, weights shared, candidates asked for and scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from archir import backends
from archir.api.loading import graph_of, space_of
from archir.ir.graph import Graph

if TYPE_CHECKING:
    from archir.reuse.columns import Trials
    from archir.search.candidate import MultiTrial
    from archir.spaces.architecture import Architecture
    from archir.spaces.scores import Scores
    from archir.spaces.space import Space
    from archir.tabular.table import Results
    from archir_torch.lowering.module import Network  # noqa: TID251  (types, never imported)
    from archir_torch.search.single import Progress, Result  # noqa: TID251
    from archir_torch.supernet.network import SuperNetwork  # noqa: TID251
    from archir_torch.training.loop import Watch  # noqa: TID251

__all__ = [
    "apart", "check_recipe", "extract", "read_scores", "results", "resume", "run", "score", "scorer", "scores",
    "specialize", "strategy", "supernet", "train", "trials",
]  # fmt: skip


def train(
    graph: Graph,
    *,
    data: Any = "digits",
    settings: Mapping[str, Any] | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    device: str | None = None,
    progress: Progress | bool = False,
    weights: str | Path | None = None,
    names: str | Path | None = None,
    threads: int | None = None,
) -> tuple[Network, Result]:
    """Train a network without choices: the module, and what was measured.

    `data` is a source by its name or its path, or what Python has: a pair of arrays, a dataset, parts by name
    (docs/data.md). Images of files are resized to the net's input [C, H, W]. `settings` are the
    options of `archir train` (docs/commands.md), such as `{"epochs": 5, "lr": 1e-3, "seed": 0}`. In a `folder`,
    checkpoints are kept, and with `resume` a training that was stopped goes on. `device` is by default a GPU where
    there is one; `progress` is told of steps and epochs, or with `progress=True` there is a bar of them. Training
    begins with new weights, or with those of a safetensors file, `weights`; the file `names` says what they are called
    there (docs/search.md). `threads` are those of the CPU. Raises ArchError (A11xx, A0902, A2220).
    """
    from archir.backends import naming

    torch, kept = backends.get("torch"), None if folder is None else Path(folder)
    with _training(progress) as told:
        return torch.train(
            graph_of(graph), data=data, settings=settings, folder=kept, resume=resume, device=device, progress=told,
            start=None if weights is None else Path(weights), names=None if names is None else naming.read(Path(names)),
            threads=threads,
        )  # fmt: skip


def _training(progress: Progress | bool) -> AbstractContextManager[Progress | None]:
    from archir.api.progress import TrainingProgress

    return TrainingProgress() if progress is True else nullcontext(progress or None)


def _watching(watch: Watch | bool) -> AbstractContextManager[Watch | None]:
    from archir.api.progress import SearchProgress

    return SearchProgress() if watch is True else nullcontext(watch or None)


def run(
    recipe: str | Path,
    folder: str | Path,
    *,
    overrides: Mapping[str, str] | None = None,
    device: str | None = None,
    executor: str | None = None,
    watch: Watch | bool = False,
) -> Mapping[str, Any]:
    """Run a recipe in a new folder; a summary of what it came to, which the folder has as `summary.json`, too.

    `overrides` replace settings: `{"search.training.epochs": "2"}`; `device` is by default a GPU where there is one;
    `executor` is who scores candidates, such as `processes:4` (docs/executors.md); `watch` is told of phases, steps
    and epochs, or with `watch=True` there are bars of them. Raises ArchError; `Interrupted` when it was stopped.
    """
    with _watching(watch) as told:
        return backends.get("torch").search(
            Path(recipe), Path(folder), overrides=overrides, device=device, executor=executor, watch=told
        )


def check_recipe(
    recipe: str | Path,
    *,
    overrides: Mapping[str, str] | None = None,
    device: str | None = None,
    executor: str | None = None,
    trust_code: bool = False,
) -> Mapping[str, Any]:
    """Check a recipe, its spaces and its data as `run` does before it trains anything, and leave no file.

    No module is imported that the recipe names, unless you `trust_code`: phases that need one which is not imported
    are not checked, and `not_looked_at` has its name.

    By name of a phase: its `strategy`, the name of its `space`, and among how many `architectures` it searches: one, if
    it searches none, and at most so many, where costs are bounded or an earlier phase fixes more. `overrides`, `device`
    and `executor` are those of `run`. Raises ArchError.
    """
    return backends.get("torch").check_recipe(
        Path(recipe), overrides=overrides, device=device, executor=executor, trust_code=trust_code
    )


def resume(
    folder: str | Path,
    *,
    overrides: Mapping[str, str] | None = None,
    fall_back: bool = False,
    device: str | None = None,
    executor: str | None = None,
    watch: Watch | bool = False,
) -> Mapping[str, Any]:
    """Go on with a search that was stopped, exactly where it was; a summary of what it came to.

    `overrides` extend it: options of phases that try candidates, such as `{"evolve.options.trials": "200"}`. What was
    tried is kept, and the phases after it begin anew. With `fall_back`, a damaged checkpoint is left for the one before
    it. `device`, `executor` and `watch` are those of `run`, and may be others than before.

    Raises ArchError, of the code A2216 for overrides that a run cannot go on with; `Interrupted` when it was stopped
    again.
    """
    with _watching(watch) as told:
        return backends.get("torch").search(
            None, Path(folder), resume=True, fall_back=fall_back, overrides=overrides, device=device,
            executor=executor, watch=told,
        )  # fmt: skip


def specialize(
    run: str | Path,
    where: Sequence[str],
    folder: str | Path,
    *,
    trials: int = 100,
    samples: int | None = None,
    device: str | None = None,
    executor: str | None = None,
    watch: Watch | bool = False,
) -> Mapping[str, Any]:
    """A network within each of some bounds, all with the weights of one supernet, in a new folder; a summary.

    The `run` trained the supernet; `RUN:PHASE` says which, if it has several. `where` are bounds such as
    `"macs <= 0.5x and params < 1M"`, a text for each network; `0.5x` is half of the most in the space. For each, so
    many `trials` are scored on the run's samples for validation, or as many `samples` of them; what is reported is
    measured on those that are held out. A folder in which the same was begun is gone on with. `device`, `executor` and
    `watch` are those of `run`. Raises ArchError, of the code A2207 for a run without a supernet; `Interrupted`.
    """
    from archir.reuse import specializing
    from archir.runs import Run, manifest

    path = Path(folder)
    with TemporaryDirectory() as draft:
        options = specializing.evolution(trials, images=samples)
        recipe = specializing.prepare(str(run), where, options, Path(draft))
        begun = (path / manifest.NAME).exists() and Run.open(path).content("recipe.toml") == recipe.read_bytes()
        with _watching(watch) as told:
            return backends.get("torch").search(
                None if begun else recipe, path, resume=begun, device=device, executor=executor, watch=told
            )


def trials(folder: str | Path, phase: str | None = None) -> Trials:
    """What a search tried, of one phase or of all: columns of one length, such as `scores.accuracy`, `costs.macs` and
    `choices.PATH`, with a row for each trial; `to_frame()` makes a data frame of them.

    The search may still be going on. Raises ArchError (A1207) if nothing was tried in a phase of this name.
    """
    from archir.reuse.columns import columns

    return columns(Path(folder), phase)


def supernet(space: Space, *, seed: int = 0, sharing: Literal["heads", "leading"] = "heads") -> SuperNetwork:
    """A space as one module with shared weights: `model(x, architecture)`, x being [N, ...].

    The `seed` draws the weights. A smaller attention has the first channels of each head, or with `sharing="leading"`
    the first channels of all. Raises ArchError (A0904).
    """
    return backends.get("torch").supernet(space_of(space).graph, seed=seed, sharing=sharing)


def extract(model: SuperNetwork, architecture: Architecture) -> Network:
    """An architecture's own module with copies of the weights that it has in a supernet."""
    return backends.get("torch").extract(model, architecture)


def score(
    graph: Graph, proxy: str, *, seed: int = 0, data: str = "digits", batch: int = 64, device: str = "cpu"
) -> float:
    """The score of an untrained network by a zero-cost proxy, such as `naswot` or `synflow`; more is better.

    The `seed` draws weights and a minibatch of `batch` images of the source `data`, which is scored on `device`.
    `scorer` is for many networks. Raises ArchError (A1110, A1111).
    """
    return scorer([proxy], seed=seed, data=data, batch=batch, device=device)(graph_of(graph))[proxy]


def scorer(
    proxies: Sequence[str], *, seed: int = 0, data: str = "digits", batch: int = 64, device: str = "cpu"
) -> Callable[[Graph], dict[str, float]]:
    """A function from a network to its scores by name, on the same minibatch for all networks of one input size.

    `seed`, `data`, `batch` and `device` are those of `score`. Raises ArchError (A1110).
    """
    return backends.get("torch").scorer(proxies, seed=seed, data=data, batch=batch, device=device)


def scores(
    space: Space,
    *,
    trials: str | Path | None = None,
    logits: str | Path | None = None,
    supernet: str | Path | None = None,
    cost: str | None = None,
    proxy: str | None = None,
    function: Callable[[Architecture], float] | None = None,
    score: str = "accuracy",
    pairs: bool = False,
    samples: int | None = None,
) -> Scores:
    """Scores of a space's alternatives that add up to an architecture's, from one source; more is better.

    `trials` is a run that tried architectures, or `RUN:PHASE`: a model is fitted to their `score`, with `pairs` one of
    pairs of choices. `logits` is a run of a differentiable search. Of the others, each alternative is put alone into
    the largest architecture: with the weights of the run that trained a `supernet`, on so many `samples` for
    validation; by the opposite of a `cost`; by a zero-cost `proxy`; by any `function` of yours.
    `scores.write(path, space)` writes the file. Raises ArchError (A1110, A1604, A2207, A3323, A3324).
    """
    from archir.scoring import sources

    given = {
        "trials": trials,
        "logits": logits,
        "supernet": supernet,
        "cost": cost,
        "proxy": proxy,
        "function": function,
    }
    space_of(space)
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise TypeError(f"scores have one source: {', '.join(given)}")
    match named[0]:
        case "trials":
            return sources.of_trials(str(trials), space, score, pairs)
        case "logits":
            return sources.of_logits(str(logits), space)
        case "supernet":
            return _replaced(space, str(supernet), score, samples)
        case "cost":
            return sources.of_cost(space, str(cost))
        case "proxy":
            name, scored = str(proxy), scorer([str(proxy)])
            return sources.of_function(space, lambda one: scored(space.specialize(one))[name], {"proxy": name})
        case _:
            assert function is not None
            return sources.of_function(space, function, {})


def _replaced(space: Space, source: str, score: str, samples: int | None) -> Scores:
    """Scores by a supernet's weights: a search that tries all replacements, in a folder that is not kept."""
    from archir.reuse import specializing
    from archir.scoring import sources

    with TemporaryDirectory() as draft:
        options = {} if samples is None else {"scorer": {"kind": "inherited", "images": samples}}
        recipe = specializing.one_by_one(source, options, Path(draft))
        backends.get("torch").search(recipe, Path(draft) / "run")
        return sources.of_trials(str(Path(draft) / "run"), space, score)


def read_scores(path: str | Path, space: Space) -> Scores:
    """The scores that a file has, of this space. Raises ArchError (A3322)."""
    from archir.spaces.scores import read

    return read(Path(path), space_of(space))


def apart(space: Space) -> Space:
    """The same space, whose architectures are told apart by what is chosen: searches try networks that compute the
    same, too. That is for tables of results, in which they have rows of their own (docs/results.md)."""
    from archir.search.apart import apart as told

    return told(space_of(space))


def results(path: str | Path, space: Space, *, map: str | Path | None = None, measures: Sequence[str] = ()) -> Results:
    """What a table says of a space's architectures: `found(architecture)` are its measures, and `found.scored(batch)`
    what a strategy is told of a batch (docs/results.md).

    The table is a `.npz`, `.csv` or `.parquet` file; `map` says which of its columns are which choices and measures, by
    default the `.toml` beside it of the same name. Of several `measures`, those named. Raises ArchError (A2251, A2252,
    A11xx), and for architectures without a row A2250.
    """
    from archir.tabular.table import results as read

    return read(Path(path), None if map is None else Path(map), space_of(space), measures)


def strategy(name: str, space: Space, options: Mapping[str, Any] | None = None, *, seed: int = 0) -> MultiTrial:
    """A strategy that tries many architectures, by name: `random`, `evolution`, `nsga2`... (docs/multi.md).

    `ask()` gives candidates, `tell(...)` takes their scores. `options` are the strategy's, such as `{"trials": 100}`;
    the `seed` decides what is drawn. Raises ArchError (A2504) for a name that there is not, and (A1109) for options
    that cannot be.
    """
    from archir.search.registry import create

    return create(name, space_of(space), options, seed)
