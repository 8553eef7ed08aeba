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
    from archir.search.ask_tell import Search
    from archir.spaces.architecture import Architecture
    from archir.spaces.scores import AdditiveScores
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

    Args:
        graph: The network.
        data: A data source: a name, a path, or a Python object such as a pair of arrays, a torch dataset, or a mapping
            from parts to data (docs/data.md). Image files are resized to the net's input [C, H, W].
        settings: Options of `archir train` (docs/commands.md), such as `{"epochs": 5, "lr": 1e-3, "seed": 0}`.
        folder: Folder for checkpoints.
        resume: Continue an interrupted training in `folder`.
        device: Device, by default a GPU if there is one.
        progress: Receives a call for every step and epoch; `True` shows a progress bar.
        weights: A safetensors file with initial weights, by default random ones.
        names: A file that maps the names of the network's weights to those in `weights` (docs/search.md).
        threads: Number of CPU threads.

    Returns:
        The module with the final weights, and a `Result` with the measures of every epoch.

    Raises:
        ArchError: A11xx (invalid data or settings), A0902 (the weights do not fit), A2220 (invalid name map).

    Examples:
        >>> module, result = archir.train(network, data="digits", settings={"epochs": 2})
        >>> len(result.history), 0 <= result.accuracy <= 1
        (2, True)
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

    Args:
        recipe: The recipe, a TOML file (docs/search.md).
        folder: The run folder to create.
        overrides: Settings that replace those of the recipe: `{"search.training.epochs": "2"}`.
        device: Device, by default a GPU if there is one.
        executor: Where candidates are scored, for example `processes:4` (docs/executors.md).
        progress: Receives a call for every phase, step and epoch; `True` shows progress bars.

    Returns:
        The summary of the results, which is also written to the folder as `summary.json`.

    Raises:
        ArchError: The recipe, its spaces or its data are invalid.
        Interrupted: The search was interrupted, after saving its state.

    Examples:
        >>> summary = archir.run("recipe.toml", "runs/small")
        >>> list(summary["phases"])
        ['supernet', 'search']
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

    Args:
        recipe: As for `run`.
        overrides: As for `run`.
        device: As for `run`.
        executor: As for `run`.
        trust_code: Import the modules that the recipe names. Otherwise, phases that depend on a module that is not
            imported are not checked, and `not_looked_at` lists these modules.

    Returns:
        A dictionary by phase name. Each entry has the `strategy`, the name of the `space`, and the number of
        `architectures` that the phase searches: 1 if it does not search, and an upper bound if costs are bounded or if
        an earlier phase fixes more choices.

    Raises:
        ArchError: Anything is invalid.

    Examples:
        >>> archir.check_recipe("recipe.toml")["search"]["strategy"]
        'evolution'
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

    Args:
        folder: Folder of the run.
        overrides: Changes of options of phases that try candidates, which extend the search, such as
            `{"evolve.options.trials": "200"}`: existing trials are kept, and later phases are run again.
        fall_back: Replace a damaged checkpoint by the previous one.
        device: As for `run`; it may differ from before.
        executor: As for `run`; it may differ from before.
        progress: As for `run`.

    Returns:
        The summary of the results.

    Raises:
        ArchError: In particular A2216, if the run cannot be resumed with these overrides.
        Interrupted: The search was interrupted again.

    Examples:
        >>> _ = archir.run("recipe.toml", "runs/small")
        >>> _ = archir.resume("runs/small", overrides={"search.options.trials": "12"})
        >>> len(archir.trials("runs/small")["trial"])
        12
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

    Args:
        run: Folder of the run that trained the supernet, or `RUN:PHASE` if it trained several.
        where: One text per network, which states its bounds, such as `"macs <= 0.5x and params < 1M"`; `0.5x` is half
            of the space's maximum.
        folder: Folder of the new run; if the same run was already started there, it is continued.
        trials: Number of architectures that are scored for each network.
        samples: Maximum number of validation samples to score on, by default all. The reported measures are from the
            held-out samples.
        device: As for `run`.
        executor: As for `run`.
        progress: As for `run`.

    Returns:
        The summary of the results.

    Raises:
        ArchError: In particular A2207, if the run has no supernet.
        Interrupted: The search was interrupted.

    Examples:
        >>> _ = archir.run("recipe.toml", "runs/small")
        >>> summary = archir.specialize("runs/small", ["macs <= 0.5x", "macs <= 0.8x"], "runs/two", trials=4)
        >>> len(summary["networks"])
        2
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

    Args:
        folder: Folder of the run, which may still be in progress.
        phase: Name of a phase, by default all.

    Returns:
        One row per trial; `to_frame()` converts it to a data frame.

    Raises:
        ArchError: A1207: `phase` does not exist or has no trials.

    Examples:
        >>> _ = archir.run("recipe.toml", "runs/small")
        >>> columns = archir.trials("runs/small", "search")
        >>> len(columns["scores.accuracy"])
        8
    """
    from archir.reuse.trial_columns import read_trials

    return read_trials(Path(folder), phase)


def supernet(space: Space, *, seed: int = 0, sharing: Literal["heads", "leading"] = "heads") -> SuperNetwork:
    """Create a supernet: a module for a whole space with shared weights.

    Args:
        space: The space.
        seed: Seed of the initial weights.
        sharing: Which channels of the full attention a narrower attention uses: the first channels of each head
            (`"heads"`), or the first channels over all heads (`"leading"`).

    Returns:
        The module, which is called as `model(x, architecture)` with x [N, ...].

    Raises:
        ArchError: A0904: an operation cannot be lowered.

    Examples:
        >>> import torch
        >>> model = archir.supernet(space)
        >>> model(torch.zeros(2, 1, 8, 8), space.sample(seed=1)).shape
        torch.Size([2, 10])
    """
    return backends.get("torch").supernet(require_space(space).graph, seed=seed, sharing=sharing)


def extract(model: SuperNetwork, architecture: Architecture) -> Network:
    """Return a standalone module for one architecture, with copies of the supernet weights that it uses.

    Args:
        model: The supernet.
        architecture: An architecture of its space.

    Returns:
        The module, which computes the same outputs as the supernet with this architecture.

    Examples:
        >>> import torch
        >>> model, images, architecture = archir.supernet(space).eval(), torch.randn(2, 1, 8, 8), space.sample(seed=1)
        >>> torch.equal(archir.extract(model, architecture).eval()(images), model(images, architecture))
        True
    """
    return backends.get("torch").extract(model, architecture)


def score(
    graph: Graph, proxy: str, *, seed: int = 0, data: str = "digits", batch: int = 64, device: str = "cpu"
) -> float:
    """Score an untrained network by a zero-cost proxy; a higher score is better.

    For many networks, use `scorer`.

    Args:
        graph: The network.
        proxy: Name of the proxy, such as `naswot` or `synflow` (docs/proxies.md).
        seed: Seed of the weights, which also selects the minibatch.
        data: Data source of the minibatch.
        batch: Number of images of the minibatch.
        device: Device that computes the score.

    Returns:
        The score.

    Raises:
        ArchError: A1110 (no such proxy), A1111 (the proxy or the minibatch does not suit the network).

    Examples:
        >>> archir.score(network, "naswot") > 0
        True
    """
    return scorer([proxy], seed=seed, data=data, batch=batch, device=device)(as_graph(graph))[proxy]


def scorer(
    proxies: Sequence[str], *, seed: int = 0, data: str = "digits", batch: int = 64, device: str = "cpu"
) -> Callable[[Graph], dict[str, float]]:
    """Return a function that scores networks by zero-cost proxies.

    Args:
        proxies: Names of proxies.
        seed: As for `score`.
        data: As for `score`.
        batch: As for `score`.
        device: As for `score`.

    Returns:
        A function that takes a graph and returns its scores by proxy name. All networks with the same input size are
        scored on the same minibatch.

    Raises:
        ArchError: A1110: a proxy does not exist.

    Examples:
        >>> scored = archir.scorer(["naswot", "synflow"])
        >>> list(scored(network))
        ['naswot', 'synflow']
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
) -> AdditiveScores:
    """Compute additive scores: one score per alternative, whose sum ranks architectures; a higher score is better.

    Exactly one source must be given: `trials`, `logits`, `supernet`, `cost`, `proxy` or `function`. For the last four,
    each alternative is substituted on its own into the largest architecture, and the resulting architecture is scored.

    Args:
        space: The space.
        trials: A run that tried architectures, or `RUN:PHASE`: an additive model is fitted to a measure of its trials.
        logits: A run of a differentiable search.
        supernet: A run that trained a supernet, with whose weights architectures are scored.
        cost: A cost, whose negative is the score.
        proxy: A zero-cost proxy.
        function: A function from architectures to numbers.
        score: The measure of the trials.
        pairs: Fit terms for pairs of choices as well.
        samples: Maximum number of validation samples to score on.

    Returns:
        The scores; `scores.write(path, space)` writes them to a file.

    Raises:
        TypeError: Not exactly one source is given.
        ArchError: A1110 (no such proxy), A1604 (no such cost), A2207 (the run has no supernet), A3323, A3324 (the run
            has no suitable trials or logits).

    Examples:
        >>> scores = archir.scores(space, cost="macs")
        >>> archir.optimize(space, maximize=scores).proved
        True
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


def _supernet_scores(space: Space, source: str, score: str, samples: int | None) -> AdditiveScores:
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


def read_scores(path: str | Path, space: Space) -> AdditiveScores:
    """Read the scores of a space's alternatives from a file.

    Args:
        path: The file.
        space: The space.

    Returns:
        The scores.

    Raises:
        ArchError: A3322: they are of another space.

    Examples:
        >>> archir.scores(space, cost="macs").write("scores.json", space)
        >>> archir.read_scores("scores.json", space).space
        'space'
    """
    from archir.spaces.scores import read

    return read(Path(path), require_space(space))


def without_dedup(space: Space) -> Space:
    """Return the same space without deduplication: searches treat equivalent architectures as separate.

    Use it with tables of results that have separate rows for architectures that compute the same (docs/results.md).

    Args:
        space: The space.

    Returns:
        The space without deduplication.

    Examples:
        >>> archir.without_dedup(space).size == space.size
        True
    """
    from archir.search.proposals import without_dedup as disable_dedup

    return disable_dedup(require_space(space))


def results(path: str | Path, space: Space, *, map: str | Path | None = None, measures: Sequence[str] = ()) -> Results:
    r"""Read a table with results of a space's architectures.

    Args:
        path: A `.npz`, `.csv` or `.parquet` file.
        space: The space.
        map: A TOML file that assigns columns to choices and measures, by default the table's path with the suffix
            `.toml`.
        measures: The measures to read, by default all.

    Returns:
        The table, which is callable: `results(architecture)` looks up the measures of an architecture, and
        `results.scored(batch)` the scores of a batch of candidates for a strategy's `tell` (docs/results.md).

    Raises:
        ArchError: A2251, A2252, A11xx (the table or the map is invalid); looking up an architecture without a row
            raises A2250.

    Examples:
        >>> from pathlib import Path
        >>> widths = archir.loads("net widths {\n input x: f32[4]\n output y = x |> linear(choose width(2, 4))\n}")
        >>> _ = Path("widths.csv").write_text("width,accuracy\n2,0.8\n4,0.9\n")
        >>> _ = Path("widths.toml").write_text('[choices]\nwidth = "width"\n[measures]\naccuracy = "accuracy"\n')
        >>> archir.results("widths.csv", widths)(widths.architecture({"width": 4}))
        {'accuracy': 0.9}
    """
    from archir.tabular.results import read_results as read

    return read(Path(path), None if map is None else Path(map), require_space(space), measures)


def strategy(name: str, space: Space, options: Mapping[str, Any] | None = None, *, seed: int = 0) -> Search:
    """Create a search strategy that tries many architectures.

    Args:
        name: Name of the strategy: `random`, `evolution`, `nsga2`, ... (docs/multi.md).
        space: The space to search.
        options: Options of the strategy, such as `{"trials": 100}`.
        seed: Seed of all random decisions.

    Returns:
        The strategy. Its `ask()` returns candidates, and `tell(...)` takes their scores.

    Raises:
        ArchError: A2504 (no such strategy), A1109 (invalid options).

    Examples:
        >>> search = archir.strategy("evolution", space, {"trials": 8, "population": 4})
        >>> len(search.ask()) > 0
        True
    """
    from archir.search.registry import create

    return create(name, require_space(space), options, seed)
