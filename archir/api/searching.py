"""Training and searching: training of networks, recipes, supernets, and strategies with an ask-and-tell interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from archir import backends
from archir.api.loading import as_graph, require_space
from archir.ir.graph import Graph

if TYPE_CHECKING:
    from archir.reuse.trial_columns import Trials
    from archir.search.candidate import MultiTrial
    from archir.spaces.architecture import Architecture
    from archir.spaces.scores import Scores
    from archir.spaces.space import Space
    from archir.tabular.results import Results
    from archir_torch.lowering.module import Network  # noqa: TID251  (types, never imported)
    from archir_torch.search.single import Progress, Result  # noqa: TID251
    from archir_torch.supernet.network import SuperNetwork  # noqa: TID251
    from archir_torch.training.loop import Callback  # noqa: TID251

__all__ = [
    "check_recipe",
    "extract",
    "read_scores",
    "results",
    "resume",
    "run",
    "score",
    "scorer",
    "scores",
    "specialize",
    "strategy",
    "supernet",
    "train",
    "trials",
    "without_dedup",
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
    """Train a network without choices.

    `graph` is the network. `data` is a data source: a name, a path, or a Python object such as a pair of arrays, a
    torch dataset, or a mapping from parts to data (docs/data.md); image files are resized to the net's input [C, H, W].
    `settings` are the options of `archir train` (docs/commands.md), such as `{"epochs": 5, "lr": 1e-3, "seed": 0}`.

    If `folder` is given, checkpoints are written there, and `resume` continues an interrupted training. `device` is by
    default a GPU if there is one; `threads` is the number of CPU threads. `progress` receives a call for every step and
    epoch; `True` shows a progress bar. Training starts from random weights or, if `weights` is given, from the weights
    in this safetensors file. If that file uses other weight names than the network, the file `names` maps the names of
    the network to those of the weights file (docs/search.md).

    Returns the module with the final weights, and a `Result` with the measures of every epoch. Raises ArchError: A11xx
    (invalid data or settings), A0902 (the weights do not fit), A2220 (invalid name map).
    """
    from archir.backends import weight_names

    torch, checkpoint_folder = backends.get("torch"), None if folder is None else Path(folder)
    with _training_progress(progress) as callback:
        return torch.train(
            as_graph(graph), data=data, settings=settings, folder=checkpoint_folder, resume=resume, device=device,
            progress=callback,
            start=None if weights is None else Path(weights),
            names=None if names is None else weight_names.read(Path(names)),
            threads=threads,
        )  # fmt: skip


def _training_progress(progress: Progress | bool) -> AbstractContextManager[Progress | None]:
    """Return the context manager that reports a training's progress; `True` selects a progress bar."""
    from archir.api.progress import TrainingProgress

    return TrainingProgress() if progress is True else nullcontext(progress or None)


def _search_progress(callback: Callback | bool) -> AbstractContextManager[Callback | None]:
    """Return the context manager that reports a search's progress; `True` selects progress bars."""
    from archir.api.progress import SearchProgress

    return SearchProgress() if callback is True else nullcontext(callback or None)


def run(
    recipe: str | Path,
    folder: str | Path,
    *,
    overrides: Mapping[str, str] | None = None,
    device: str | None = None,
    executor: str | None = None,
    progress: Callback | bool = False,
) -> Mapping[str, Any]:
    """Run a recipe in a new folder.

    `recipe` is a TOML file, and `folder` the run folder to create. `overrides` replace settings of the recipe:
    `{"search.training.epochs": "2"}`. `device` is by default a GPU if there is one. `executor` selects where candidates
    are scored, for example `processes:4` (docs/executors.md). `progress` receives a call for every phase, step and
    epoch; `True` shows progress bars.

    Returns the summary of the results, which is also written to the folder as `summary.json`. Raises ArchError if the
    recipe, its spaces or its data are invalid, and `Interrupted` if the search was interrupted, after saving its state.
    """
    with _search_progress(progress) as callback:
        return backends.get("torch").search(
            Path(recipe), Path(folder), overrides=overrides, device=device, executor=executor, progress=callback
        )


def check_recipe(
    recipe: str | Path,
    *,
    overrides: Mapping[str, str] | None = None,
    device: str | None = None,
    executor: str | None = None,
    trust_code: bool = False,
) -> Mapping[str, Any]:
    """Check a recipe with its spaces and data, as `run` does before training, without writing files.

    `recipe`, `overrides`, `device` and `executor` are as for `run`. Modules named in the recipe are imported only with
    `trust_code`. Otherwise, phases that depend on a module that is not imported are not checked, and `not_looked_at`
    lists these modules.

    Returns a dictionary by phase name. Each entry has the `strategy`, the name of the `space`, and the number of
    `architectures` that the phase searches: 1 if it does not search, and an upper bound if costs are bounded or if an
    earlier phase fixes more choices. Raises ArchError if anything is invalid.
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
    progress: Callback | bool = False,
) -> Mapping[str, Any]:
    """Continue an interrupted search exactly where it stopped.

    `folder` is the folder of the run. `overrides` extend the search by changing options of phases that try candidates,
    such as `{"evolve.options.trials": "200"}`: existing trials are kept, and later phases are run again. With
    `fall_back`, a damaged checkpoint is replaced by the previous one. `device`, `executor` and `progress` are as for
    `run` and may differ from those used before.

    Returns the summary of the results. Raises ArchError, in particular A2216 if the run cannot be resumed with these
    overrides, and `Interrupted` if the search was interrupted again.
    """
    with _search_progress(progress) as callback:
        return backends.get("torch").search(
            None, Path(folder), resume=True, fall_back=fall_back, overrides=overrides, device=device,
            executor=executor, progress=callback,
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
    progress: Callback | bool = False,
) -> Mapping[str, Any]:
    """Derive a network for each of several cost budgets from one supernet, with the supernet's weights.

    `run` is the folder of the run that trained the supernet, or `RUN:PHASE` if it trained several. `where` has one text
    per network, which states its bounds, such as `"macs <= 0.5x and params < 1M"`; `0.5x` is half of the space's
    maximum. For each network, `trials` architectures are scored on all of the run's validation samples, or on at most
    `samples` of them; the reported measures are from the held-out samples. `folder` is the folder of the new run; if
    the same run was already started there, it is continued. `device`, `executor` and `progress` are as for `run`.

    Returns the summary of the results. Raises ArchError, in particular A2207 if the run has no supernet, and
    `Interrupted` if the search was interrupted.
    """
    from archir.reuse import specializing
    from archir.runs import Run, manifest

    path = Path(folder)
    with TemporaryDirectory() as draft_folder:
        options = specializing.evolution(trials, images=samples)
        recipe = specializing.prepare(str(run), where, options, Path(draft_folder))
        is_started = (path / manifest.NAME).exists() and Run.open(path).content("recipe.toml") == recipe.read_bytes()
        with _search_progress(progress) as callback:
            return backends.get("torch").search(
                None if is_started else recipe,
                path,
                resume=is_started,
                device=device,
                executor=executor,
                progress=callback,
            )


def trials(folder: str | Path, phase: str | None = None) -> Trials:
    """Return the trials of a search as columns, such as `scores.accuracy`, `costs.macs` and `choices.PATH`.

    `folder` is the folder of the run, which may still be in progress; `phase` selects one phase, by default all. The
    result has one row per trial; `to_frame()` converts it to a data frame. Raises ArchError (A1207) if `phase` does not
    exist or has no trials.
    """
    from archir.reuse.trial_columns import read_trials

    return read_trials(Path(folder), phase)


def supernet(space: Space, *, seed: int = 0, sharing: Literal["heads", "leading"] = "heads") -> SuperNetwork:
    """Create a supernet: a module for a whole space with shared weights.

    It is called as `model(x, architecture)` with x [N, ...]. `seed` generates the initial weights. `sharing` selects
    which channels of the full attention a narrower attention uses: the first channels of each head (`"heads"`), or the
    first channels over all heads (`"leading"`). Raises ArchError (A0904) if an operation cannot be lowered.
    """
    return backends.get("torch").supernet(require_space(space).graph, seed=seed, sharing=sharing)


def extract(model: SuperNetwork, architecture: Architecture) -> Network:
    """Return a standalone module for one architecture, with copies of the supernet weights that it uses.

    `model` is the supernet, `architecture` an architecture of its space.
    """
    return backends.get("torch").extract(model, architecture)


def score(
    graph: Graph, proxy: str, *, seed: int = 0, data: str = "digits", batch: int = 64, device: str = "cpu"
) -> float:
    """Score an untrained network by a zero-cost proxy, such as `naswot` or `synflow`; a higher score is better.

    `graph` is the network and `proxy` the name of the proxy. `seed` generates the weights and selects a minibatch of
    `batch` images from the data source `data`; `device` computes the score. For many networks, use `scorer`. Raises
    ArchError: A1110 (no such proxy), A1111 (the proxy or the minibatch does not suit the network).
    """
    return scorer([proxy], seed=seed, data=data, batch=batch, device=device)(as_graph(graph))[proxy]


def scorer(
    proxies: Sequence[str], *, seed: int = 0, data: str = "digits", batch: int = 64, device: str = "cpu"
) -> Callable[[Graph], dict[str, float]]:
    """Return a function that scores networks by zero-cost proxies.

    `proxies` are the names of proxies; `seed`, `data`, `batch` and `device` are as for `score`. The function takes a
    graph and returns its scores by proxy name. All networks with the same input size are scored on the same minibatch.
    Raises ArchError (A1110) if a proxy does not exist.
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
    """Compute additive scores: one score per alternative, whose sum ranks architectures; a higher score is better.

    Exactly one source must be given. `trials` is a run that tried architectures, or `RUN:PHASE`: an additive model is
    fitted to the measure `score` of its trials; with `pairs`, the model also has terms for pairs of choices. `logits`
    is a run of a differentiable search. For all other sources, each alternative is substituted on its own into the
    largest architecture, and the resulting architecture is scored: with the weights of the run that trained a
    `supernet`, on at most `samples` validation samples; by the negative of a `cost`; by a zero-cost `proxy`; or by a
    `function` from architectures to numbers.

    Returns `Scores`; `scores.write(path, space)` writes them to a file. Raises TypeError unless exactly one source is
    given, and ArchError: A1110 (no such proxy), A1604 (no such cost), A2207 (the run has no supernet), A3323, A3324
    (the run has no suitable trials or logits).
    """
    from archir.scoring import sources

    sources_by_name = {
        "trials": trials,
        "logits": logits,
        "supernet": supernet,
        "cost": cost,
        "proxy": proxy,
        "function": function,
    }
    require_space(space)
    named = [name for name, value in sources_by_name.items() if value is not None]
    if len(named) != 1:
        raise TypeError(f"scores have one source: {', '.join(sources_by_name)}")
    match named[0]:
        case "trials":
            return sources.scores_from_run(str(trials), space, score, pairs)
        case "logits":
            return sources.scores_from_logits(str(logits), space)
        case "supernet":
            return _supernet_scores(space, str(supernet), score, samples)
        case "cost":
            return sources.scores_from_cost(space, str(cost))
        case "proxy":
            name, score_network = str(proxy), scorer([str(proxy)])
            return sources.scores_from_function(
                space, lambda architecture: score_network(space.specialize(architecture))[name], {"proxy": name}
            )
        case _:
            assert function is not None
            return sources.scores_from_function(space, function, {})


def _supernet_scores(space: Space, source: str, score: str, samples: int | None) -> Scores:
    """Score alternatives with a supernet's weights, by a search in a temporary folder.

    The search scores every architecture that differs from the largest one in a single choice.
    """
    from archir.reuse import specializing
    from archir.scoring import sources

    with TemporaryDirectory() as draft:
        options = {} if samples is None else {"scorer": {"kind": "inherited", "images": samples}}
        recipe = specializing.prepare_single_changes(source, options, Path(draft))
        backends.get("torch").search(recipe, Path(draft) / "run")
        return sources.scores_from_run(str(Path(draft) / "run"), space, score)


def read_scores(path: str | Path, space: Space) -> Scores:
    """Read the scores of a space's alternatives from the file `path`.

    Raises ArchError (A3322) if they are of another space.
    """
    from archir.spaces.scores import read

    return read(Path(path), require_space(space))


def without_dedup(space: Space) -> Space:
    """Return the same space without deduplication: searches treat equivalent architectures as separate.

    Use it with tables of results that have separate rows for architectures that compute the same (docs/results.md).
    """
    from archir.search.proposals import without_dedup as disable_dedup

    return disable_dedup(require_space(space))


def results(path: str | Path, space: Space, *, map: str | Path | None = None, measures: Sequence[str] = ()) -> Results:
    """Read a table with results of a space's architectures.

    `path` is a `.npz`, `.csv` or `.parquet` file. `map` is a TOML file that assigns columns to choices and measures, by
    default the table's path with the suffix `.toml`. `measures` lists the measures to read, by default all.

    Returns `Results`, which is callable: `results(architecture)` looks up the measures of an architecture, and
    `results.scored(batch)` the scores of a batch of candidates for a strategy's `tell` (docs/results.md). Raises
    ArchError: A2251, A2252, A11xx (the table or the map is invalid); looking up an architecture without a row raises
    A2250.
    """
    from archir.tabular.results import read_results as read

    return read(Path(path), None if map is None else Path(map), require_space(space), measures)


def strategy(name: str, space: Space, options: Mapping[str, Any] | None = None, *, seed: int = 0) -> MultiTrial:
    """Create a search strategy that tries many architectures: `random`, `evolution`, `nsga2`, ... (docs/multi.md).

    `name` is the strategy and `space` the space to search. `options` are the strategy's options, such as `{"trials":
    100}`; `seed` determines all random decisions. The strategy's `ask()` returns candidates, and `tell(...)` takes
    their scores. Raises ArchError: A2504 (no such strategy), A1109 (invalid options).
    """
    from archir.search.registry import create

    return create(name, require_space(space), options, seed)
