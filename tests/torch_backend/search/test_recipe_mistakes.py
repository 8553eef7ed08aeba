"""Mistakes in recipes are said with their line, before anything is made."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import annotated_types
import pytest
from click.testing import CliRunner
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import archir
from archir import backends
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.recipes.parsing import parse
from archir.recipes.recipe import Phase, Recipe
from archir.search.registry import STRATEGIES as TRIAL_STRATEGIES
from archir.utils.settings import Settings
from archir_torch.lowering.devices import resolve_device
from archir_torch.objectives import OBJECTIVES
from archir_torch.search.job import STRATEGIES
from archir_torch.search.preparation import begin_search
from archir_torch.search.single import Settings as TrainSettings
from tests.torch_backend.searches import strategy

NET = """
net tiny(width = 2) {
    input image: f32[1, 8, 8]
    output logits = image |> conv(width) |> choose op(relu, gelu) |> global_avg_pool |> linear(10)
}
"""
RECIPE = """space = "tiny.arch"
seed = 0
[data]
limit = 40
[[phase]]
name = "search"
strategy = "spos"
training = { epochs = 1, batch = 16 }
[[phase]]
name = "best"
strategy = "evolution"
start = { weights = "search" }
[phase.options]
preset = "spos"
population = 4
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiny.arch").write_text(NET)
    return tmp_path


MISTAKES = [
    ("seed = 0", "sede = 0", "there is no `sede`\n    sede = 0\n    ^^^^^^^^\n  hint: did you mean `seed`?"),
    ("seed = 0", "seed = -1", "2:1: error[A1109]: `seed` is -1: it should be greater than or equal to 0"),
    ("seed = 0", "seed = 99999999999999999999", "`seed` is 99999999999999999999: it should be less than"),
    ('name = "best"', 'name = "search"', "10:1: error[A1109]: two phases are named `search`"),
    ("seed = 0", "opset = 3", "2:1: error[A09"),
    ("limit = 40", "limits = 40", "4:1: error[A1109]: there is no `data.limits`"),
    ("limit = 40", 'source = "gone.npz"', "4:1: error[A1101]"),
    ("epochs = 1", "epoch = 1", "8:14: error[A1109]: phase `search`: there is no `training.epoch`"),
    ("epochs = 1", "epoch = 1", "hint: did you mean `epochs`?"),
    ('weights = "search"', 'weights = "search", seen = true', "hint: `seen` is `allow_validation_overlap` now"),
    ('preset = "spos"', "use = 0.9", "there is no `use`\n    use = 0.9\n    ^^^^^^^^^\n  hint: `use` is `min_budget_"),
    ('strategy = "spos"', 'strategy = "pc_darts"\noptions.hold = 1', "hint: `hold` is `alpha_warmup_epochs` now"),
    ('strategy = "spos"', 'strategy = "pc_darts"\nhold = 1', "hint: `hold` is `options.alpha_warmup_epochs` now"),
    ('strategy = "spos"', 'strategy = "spos"\nseen = true', "`seen` is `start.allow_validation_overlap` now"),
    ('strategy = "spos"', 'strategy = "spos"\ntrials = 3', "8:1: error[A1109]: phase `search`: there is no `trials`"),
    ('strategy = "spos"', 'strategy = "spos"\ntrials = 3', "An option of the strategy is `options.trials`"),
    ('strategy = "spos"', 'strategy = "spos"\nmilestones = [3]', "hint: did you mean `weights.milestones`? An option"),
    ('strategy = "spos"', 'strategy = "spos"\nsamples = 3', "hint: an option of the strategy is `options.samples`"),
    ("epochs = 1", "epochs = 1.5", "8:14: error[A1109]: phase `search`: `training.epochs` is 1.5: it"),
    ("epochs = 1", "epochs = 1000000000", "`training.epochs` is 1000000000: it should be less than"),
    ('strategy = "spos"', 'strategy = "spso"', "7:1: error[A2202]: phase `search`: there is no strategy `spso`"),
    ('strategy = "spos"', 'strategy = "spos"\nweights.lr = inf', "8:1: error[A1109]: phase `search`: `weights.lr`"),
    ('strategy = "spos"', 'strategy = "spos"\nweights.lr = nan', "8:1: error[A1109]: phase `search`: `weights.lr` is"),
    ('strategy = "spos"', 'strategy = "spos"\nweights.lr = 1e308', "8:1: error[A1109]: phase `search`: `weights.lr`"),
    ('strategy = "spos"', 'strategy = "spos"\nweights.kind = "adm"', "hint: did you mean `adam`?"),
    ('strategy = "spos"', 'strategy = "spos"\nopen = ["opp"]', "8:1: error[A2203]: `opp` names no choice"),
    ('strategy = "spos"', 'strategy = "spos"\nfixed.opp = 1', "8:1: error[A2203]: `opp` names no choice"),
    ('strategy = "spos"', 'strategy = "spos"\nobjective = { kind = "clasification" }', "8:15: error[A1901]"),
    ('strategy = "spos"', 'strategy = "spos"\nobjective.smooth = 1', "8:1: error[A1109]: phase `search`: there is no"),
    ('space = "tiny.arch"', 'space = "tniy.arch"', "1:1: error[A0801]"),
    (
        'space = "tiny.arch"',
        'space = "tiny.arch"\nparameters.widht = 3',
        "2:1: error[A0203]: net `tiny` has no parameter `widht`\n    parameters.widht = 3\n    ^^^^^^^^^^^^^^^^^^^^\n"
        "  hint: did you mean `width`?",
    ),
    ('strategy = "spos"', 'strategy = "spos"\nparameters.depth = 3', "8:1: error[A0203]: net `tiny` has no parameter"),
    ('weights = "search"', 'weights = "serach"', "12:11: error[A1109]"),
    ("population = 4", "popluation = 4", "15:1: error[A1109]: phase `best`: there is no `popluation`"),
    ("population = 4", "population = 10000000", "15:1: error[A1109]: phase `best`: `population` is 10000000"),
    ("population = 4", 'where = "mac <= 3"', "15:1: asked for here"),
    ('strategy = "spos"', 'strategy = "spos"\noptions.where = "mac <= 3"', "8:1: asked for here"),
    ('strategy = "spos"', 'strategy = "darts"\noptions.where = "params <= 3"', "8:1: asked for here"),
    ('strategy = "spos"', 'strategy = "replace_one"\noptions.where = "params < 3K"', "scores all alternatives"),
    ("population = 4", 'executor = "proceses"', "15:1: error[A2601]"),
    ("population = 4", "popultion_size = 4", "hint: did you mean `population`?"),
    ("population = 4", "order = 2", "hint: `order` is an option of "),
    ("population = 4", "epochs = 2", "hint: did you mean `training.epochs`?"),
    ('strategy = "spos"', 'strategy = "SPOS"', "hint: did you mean `spos`?"),
    ('strategy = "spos"', 'strategy = "spos"\nweights.kind = "AdamW"', "hint: did you mean `adamw`?"),
    ("epochs = 1", "lr = 1", "hint: did you mean `weights.lr`?"),
    ("epochs = 1", "batch_size = 1", "hint: did you mean `batch`?"),
    ("limit = 40", "augment.padding = 4", "hint: did you mean `shift`?"),
    ("limit = 40", 'name = "digits"', "hint: did you mean `source`?"),
    ("limit = 40", "epochs = 4", "hint: did you mean `phase.training.epochs`?"),
    ("limit = 40", "seed = 4", "hint: `seed` belongs outside `data`"),
    ("seed = 0", 'device = "gpu"', "hint: the command line has the device: `archir search RECIPE --device cuda`"),
    ("population = 4", "cores = inf", "15:1: error[A1109]: phase `best`: `cores` is inf"),
]  # fmt: skip


TABLES = ("training", "weights", "alphas", "augment", "derive", "start", "data")
"""Tables of a phase."""


@pytest.mark.parametrize("table", TABLES)
def test_misspelled_or_misplaced_settings_get_hint(table: str) -> None:
    """Each setting of a phase's tables, whose name is written otherwise, or that stands in another one of them."""
    fields = {name: set(model_of(name).model_fields) for name in TABLES}
    for field in fields[table]:
        spelled = {field.upper(), field.replace("_", "-"), field.replace("_", "")} - fields[table]
        for other in spelled:
            assert hint(f"{table}.{other} = 0") == f"did you mean `{field}`?"
        for away in {*TABLES} - {one for one in TABLES if field in fields[one]}:
            found = hint(f"{away}.{field} = 0")
            places = [f"`{one}.{field}`" for one in TABLES if field in fields[one]]
            places += [f"`{field}`"] * (field in Phase.model_fields or field in model_of(away).model_fields)
            assert any(place in found for place in places), (away, field, found)


def model_of(table: str) -> type[BaseModel]:
    annotation = Phase.model_fields[table].annotation
    parts = [part for outer in (annotation, *get_args(annotation)) for part in (outer, *get_args(outer))]
    (found,) = {part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)}
    return found


def hint(line: str) -> str:
    with pytest.raises(ArchError) as caught:
        parse(f'space = "a.arch"\n[[phase]]\nname = "one"\nstrategy = "spos"\n{line}\n')
    return next(str(one.hint) for one in caught.value.diagnostics if "there is no" in one.message)


@pytest.mark.parametrize(("right", "wrong", "said"), MISTAKES)
def test_recipe_errors_show_file_and_line(folder: Path, right: str, wrong: str, said: str) -> None:
    assert RECIPE.count(right) == 1
    (folder / "r.toml").write_text(RECIPE.replace(right, wrong))
    with pytest.raises(ArchError) as caught:
        begin_search(folder / "r.toml", folder / "run", {}, "cpu")
    assert said in str(caught.value), caught.value
    assert "r.toml:" in str(caught.value)
    assert not (folder / "run").exists()


DARTS = """space = "tiny.arch"
data.limit = 40
[[phase]]
name = "search"
strategy = "darts"
training = { epochs = 2, batch = 16 }
"""
IN_VAIN = [
    (
        'derive = { exclude = ["rellu"] }',
        "7:23: error[A2204]: phase `search`: `derive.exclude` has `rellu`, but no searched choice has such",
        "hint: did you mean `relu`? There are `gelu` and `relu`",
    ),
    (
        'derive = { limit = { labels = ["gelu", "skip"], most = 0 } }',
        "7:40: error[A2204]: phase `search`: `derive.limit.labels` has `skip`, but no",
        "hint: there are `gelu` and `relu`",
    ),
    (
        "derive = { limit = { most = 0 } }",
        "7:12: error[A2204]: phase `search`: `derive.limit.labels` has `skip_connect`",
    ),
    (
        'fixed.op = "rellu"',
        "A2204]: `op` has no alternative 'rellu'",
        "7:1: asked for here",
        "There are `relu` and `gelu`",
    ),
    (
        "options.alpha_warmup_epochs = 2",
        "7:1: error[A1109]: phase `search`: with `alpha_warmup_epochs = 2`, none of 2 epochs trains architecture "
        "parameters",
        "hint: `alpha_warmup_epochs` must be less than `training.epochs`: options.alpha_warmup_epochs = 1",
    ),
    (
        "options.temperature = [5.0, 1.0]",
        "7:1: error[A1109]: phase `search`: `darts` uses no noise, so `temperature` has no effect",
        "hint: remove it; `gdas` and `snas` use it",
    ),
    (
        '[[phase]]\nname = "b"\nstrategy = "spos"\n[phase.options]\nwhere = "params >= 30"\nmin_budget_fraction = 0.9',
        "12:1: error[A1109]: phase `b`: `min_budget_fraction` is a fraction of upper bounds, "
        'but `where = "params >= 30"` has no upper bound',
        'hint: remove `min_budget_fraction`, or bound a cost from above: where = "macs <= 0.5x"',
    ),
    (
        '[[phase]]\nname = "b"\nstrategy = "spos"\nderive = { exclude = ["relu"] }',
        "10:1: error[A1109]: phase `b`: `spos` trains no architecture parameters, so it takes no `derive`",
        "hint: strategies that do are `darts`, ",
    ),
    (
        '[[phase]]\nname = "b"\nstrategy = "random"\nalphas.lr = 0.1',
        "10:1: error[A1109]: phase `b`: `random` trains no architecture parameters, so it takes no `alphas`",
    ),
    (
        '[[phase]]\nname = "b"\nstrategy = "random"\n'
        'options = { objectives = ["nawsot:max"], scorer = { kind = "proxies", proxies = ["nawsot"] } }',
        "10:82: error[A1110]: there is no proxy `nawsot`",
        "hint: did you mean `naswot`?",
    ),
]
"""Settings that would do nothing, and what is said of them."""


@pytest.mark.parametrize("wrong", IN_VAIN, ids=lambda wrong: wrong[0])
def test_rejects_settings_without_effect(folder: Path, wrong: tuple[str, ...]) -> None:
    (folder / "r.toml").write_text(DARTS + wrong[0])
    with pytest.raises(ArchError) as caught:
        begin_search(folder / "r.toml", folder / "run", {}, "cpu")
    for said in wrong[1:]:
        assert said in str(caught.value), caught.value
    assert len(caught.value.diagnostics) == 1


LACKING = [
    ("", "12:1: error[A2210]: phase `b` has no supernet to score with", 'strategy = "evolution"\n    ^^^'),
    (
        'start = { weights = "darts" }',
        "13:11: error[A2210]: phase `b` has no supernet to score with",
        'start.weights = "..." names a phase that trains a supernet: spos, sandwich or fair',
    ),
    (
        'start = { architecture = "shared", weights = "shared" }',
        "13:11: error[A2207]: phase `b`: `shared` has no architecture to start from",
        'hint: start.architecture = "darts" names a phase with architecture',
    ),
    (
        'start = { trials = "darts", weights = "shared" }',
        "13:11: error[A2207]: phase `b`: `darts` has no trials to start from",
        "hint: strategies with trials are `bananas`, `bayesian`, ",
    ),
    (
        'options = { scorer = { kind = "predictor" } }',
        "13:13: error[A2211]: phase `b` has no trials to fit a predictor to",
        'hint: start.trials = "..." names a phase that tried candidates',
    ),
    ('start.weights = "shared"\nopen = []', "14:1: error[A2208]: `op` of `tiny` is neither searched nor fixed"),
    (
        'start.weights = "shared"\ntraining.sharding = "full"',
        "14:1: error[A1109]: phase `b`: `evolution` cannot shard weights",
    ),
    (
        'strategy = "darts"\ntraining.sharding = "full"',
        "13:1: error[A1109]: phase `b`: `darts` cannot shard weights; `training.sharding` is for `train`",
    ),
    ('strategy = "train"', "12:1: error[A2205]: phase `b` trains one architecture, but `tiny` has many"),
    ('strategy = "inherit"', "12:1: error[A2210]: phase `b` has no architecture, or no weights, to inherit"),
    (
        'strategy = "share"',
        "12:1: error[A2210]: phase `b` has no weights to share",
        "hint: name them with start.weights",
    ),
    ('strategy = "finalists"', "12:1: error[A2213]: phase `b` has no trials with `accuracy` to choose from"),
    (
        'strategy = "darts"\noptions = { penalty = { cost = "mac" } }',
        "13:25: error[A1604]: the expected value of cost `mac` cannot be computed",
        "hint: did you mean `macs`?",
    ),
    (
        'strategy = "darts"\nfixed = { "*" = "largest" }',
        "13:1: error[A2215]: phase `b` has no architecture parameters: there is nothing to search",
        "hint: without `open`, all choices that `fixed` does not name are searched: name fewer choices in `fixed`",
    ),
    (
        'start.weights = "shared"\noptions = { scorer = { kind = "table" } }',
        "14:24: error[A2253]: phase `b` is scored by a table, but the recipe names none",
    ),
    (
        'strategy = "train"\nstart.architecture = "./runs/found"',
        "13:1: error[A1109]: phase `b` starts from the architecture of `./runs/found`, which is not an earlier phase",
        "hint: only weights can come from another run; `archir train SPACE --arch ./runs/found/best.json` trains what",
    ),
    (
        'strategy = "spos"\ntraining.drop_path = "linear"',
        "13:1: error[A1109]: phase `b`: supernets keep the constant",
    ),
    ('strategy = "sandwich"\noptions.first = ["@edge"]', "13:1: error[A2203]: `@edge` names no choice of"),
    ('strategy = "sandwich"\noptions.size = "mcas"', "13:1: error[A1604]: there is no cost `mcas`", "mean `macs`?"),
]
"""What the second phase says, and what is said of it before the first is trained."""
BEFORE = """space = "tiny.arch"
data.limit = 40
[[phase]]
name = "darts"
strategy = "darts"
training.epochs = 1
[[phase]]
name = "shared"
strategy = "spos"
[[phase]]
name = "b"
strategy = "evolution"
"""


@pytest.mark.parametrize("wrong", LACKING, ids=lambda wrong: wrong[0])
def test_missing_phase_inputs_are_rejected_before_training(folder: Path, wrong: tuple[str, ...]) -> None:
    text = BEFORE.replace('strategy = "evolution"\n', "") if wrong[0].startswith("strategy") else BEFORE
    (folder / "r.toml").write_text(text + wrong[0])
    with pytest.raises(ArchError) as caught:
        begin_search(folder / "r.toml", folder / "run", {}, "cpu")
    for said in wrong[1:]:
        assert f"r.toml:{said}" in str(caught.value) if said[0] in "1" else said in str(caught.value), caught.value
    assert len(caught.value.diagnostics) == 1


SECOND = """space = "tiny.arch"
data.limit = 40
[[phase]]
name = "any"
strategy = "random"
options = { trials = 2, objectives = ["naswot:max"], scorer = { kind = "proxies" } }
[[phase]]
name = "b"
strategy = "finalists"
start.trials = "any"
"""


def test_errors_during_run_show_recipe_line(folder: Path) -> None:
    (folder / "r.toml").write_text(SECOND)
    with pytest.raises(ArchError, match=r"recipe.toml:9:1: error\[A2213\].*\n    strategy = .finalists."):
        archir.run(folder / "r.toml", folder / "run", device="cpu")


LACKING_NOTHING = [
    'start.weights = "shared"',
    'start = { architecture = "darts", weights = "shared" }\nopen = []',
    'options.scorer.kind = "proxies"\noptions.objective = "naswot:max"',
    'options.scorer.kind = "training"',
    'strategy = "random"',
    'strategy = "exact"\noptions.minimize = "macs"',
    'strategy = "train"\nfixed.op = "gelu"',
    'strategy = "inherit"\nstart = { architecture = "darts", weights = "shared" }',
]


@pytest.mark.parametrize("right", LACKING_NOTHING)
def test_phase_with_all_inputs_starts(folder: Path, right: str) -> None:
    text = BEFORE.replace('strategy = "evolution"\n', "") if right.startswith("strategy") else BEFORE
    (folder / "r.toml").write_text(text + right)
    begin_search(folder / "r.toml", folder / "run", {}, "cpu").run.close()


@pytest.mark.parametrize("name", ["darts", "gdas", "snas", "spos", "sandwich", "fair", "train", "random"])
def test_phase_outcomes_match_declared_gives(name: str) -> None:
    more: dict[str, Any] = {"fixed": {"*": "largest"}} if name == "train" else {}
    outcome = strategy(name, **more).outcome()
    found = {what for what in ("alphas", "architecture", "weights", "supernet") if getattr(outcome, what)}
    gives = STRATEGIES[name].gives
    assert gives is not None
    assert found == gives - {"trials"}


def test_all_strategies_declare_gives() -> None:
    assert [name for name, kind in STRATEGIES.items() if kind.gives is None] == []


def test_rejects_default_alpha_warmup_longer_than_training(folder: Path) -> None:
    (folder / "r.toml").write_text(DARTS.replace('"darts"', '"pc_darts"'))
    with pytest.raises(
        ArchError, match=r"6:14: error\[A1109\].*with `alpha_warmup_epochs = 15` by default, none of 2 epochs"
    ):
        begin_search(folder / "r.toml", folder / "run", {}, "cpu")


WITH_EFFECT = [
    'derive = { exclude = ["gelu"], limit = { labels = ["relu"], most = 0 } }',
    '[[phase]]\nname = "b"\nstrategy = "spos"\nfixed.op = "gelu"',
    "options.alpha_warmup_epochs = 1.5",
    '[[phase]]\nname = "b"\nstrategy = "snas"\ntraining.epochs = 1\noptions.temperature = [5.0, 1.0]',
    '[[phase]]\nname = "b"\nstrategy = "spos"\noptions = { where = "params <= 3M", min_budget_fraction = 0.1 }',
]


@pytest.mark.parametrize("right", WITH_EFFECT)
def test_accepts_settings_with_effect(folder: Path, right: str) -> None:
    (folder / "r.toml").write_text(DARTS + right)
    begin_search(folder / "r.toml", folder / "run", {}, "cpu").run.close()


INHERITED = [
    ("limit = 40", 'source = "nowhere:f"', "4:1: error[A3101]"),
    ("limit = 40", 'source = "gone.npz"', "4:1: error[A1101]"),
    ("limit = 40", "augment.also = [{ kind = 'gone' }]", "4:19: error[A2219]"),
    ("[data]", "[objective]\nkind = 'gone'\n[data]", "4:1: error[A1901]"),
    ("[data]", "[objective]\nkind = 'nowhere:f'\n[data]", "4:1: error[A3101]"),
    ("[data]", "[objective]\nsmooth = 1\n[data]", "4:1: error[A1109]: phase `search`: there is no `smooth`"),
    ("[data]", "[objective]\nkind = 'regression'\n[data]", "r.toml:3:1: asked for here"),
]
"""Mistakes in settings that the first phase inherits, although it has settings of its own in the same table."""


@pytest.mark.parametrize(("right", "wrong", "said"), INHERITED)
def test_mistakes_in_inherited_settings_are_shown_where_they_stand(
    folder: Path, right: str, wrong: str, said: str
) -> None:
    text = RECIPE.replace('strategy = "spos"', 'strategy = "spos"\ndata = { weights = 0.5 }')
    (folder / "r.toml").write_text(text.replace(right, wrong))
    with pytest.raises(ArchError) as caught:
        begin_search(folder / "r.toml", folder / "run", {}, "cpu")
    assert said in str(caught.value), caught.value


def test_a_phase_s_own_setting_is_shown_in_the_phase(folder: Path) -> None:
    text = RECIPE.replace('strategy = "spos"', 'strategy = "spos"\ndata = { weights = 0.25 }')
    (folder / "r.toml").write_text(text)
    with pytest.raises(ArchError, match=r"(?s)A2214.*`weights = 0.5`, not 0.25") as caught:
        begin_search(folder / "r.toml", folder / "run", {}, "cpu")
    assert "r.toml:8:10: error" in str(caught.value), caught.value


def test_unmodified_recipe_starts(folder: Path) -> None:
    (folder / "r.toml").write_text(RECIPE)
    begin_search(folder / "r.toml", folder / "run", {}, "cpu").run.close()


@pytest.mark.parametrize("wrong", MISTAKES[:3], ids=lambda wrong: wrong[2][:30])
def test_check_recipe_rejects_mistakes_that_search_rejects(folder: Path, wrong: tuple[str, str, str]) -> None:
    (folder / "r.toml").write_text(RECIPE.replace(*wrong[:2]))
    with pytest.raises(ArchError, match=re.escape(wrong[2])):
        archir.check_recipe(folder / "r.toml")


def test_check_recipe_lists_phases_and_leaves_no_files(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "r.toml").write_text(RECIPE + TRAINED)
    before, temporary = sorted(folder.rglob("*")), tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    found = archir.check_recipe(folder / "r.toml", overrides={"search.fixed.op": '"gelu"'})
    assert [(name, one["strategy"], one["architectures"]) for name, one in found.items()] == [
        ("search", "spos", 1), ("best", "evolution", 2), ("retrain", "train", 1)
    ]  # fmt: skip
    assert sorted(folder.rglob("*")) == before
    assert not list(temporary.iterdir())
    said = CliRunner().invoke(main, ["search", str(folder / "r.toml"), "--check"])
    assert (said.exit_code, said.output.splitlines()[:2]) == (
        0, ["search: spos, tiny, 2 architectures", "best: evolution, tiny, 2 architectures"]
    )  # fmt: skip
    bounded = RECIPE + 'where = "macs <= 1.5x"\n'
    (folder / "r.toml").write_text(bounded)
    said = CliRunner().invoke(main, ["search", str(folder / "r.toml"), "--check"])
    assert "best: evolution, tiny, at most 2 architectures" in said.output
    assert "--check needs a recipe" in CliRunner().invoke(main, ["search", "--resume", "run", "--check"]).output


TRAINED = """
[[phase]]
name = "retrain"
strategy = "train"
start = { architecture = "best" }
"""


def test_all_recipe_mistakes_are_reported_together() -> None:
    text = RECIPE.replace("seed = 0", "sede = 0").replace("epochs = 1", "epoch = 1").replace('"evolution"', "3")
    with pytest.raises(ArchError) as caught:
        parse(text)
    assert sorted(one.span.line for one in caught.value.diagnostics if one.span) == [2, 8, 11]


def search(folder: Path, *arguments: str) -> str:
    (folder / "r.toml").write_text(RECIPE)
    result = CliRunner().invoke(main, ["search", str(folder / "r.toml"), "-o", str(folder / "run"), *arguments])
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert not (folder / "run").exists()
    return result.stderr


def test_a_setting_of_the_command_line_is_shown_with_a_caret(folder: Path) -> None:
    said = search(folder, "--set", "search.training.epcohs=2")
    assert "command line:1:1: error[A1109]: phase `search`: there is no `training.epcohs`\n" in said
    assert "    search.training.epcohs=2\n    ^^^" in said
    assert "did you mean `epochs`?" in said
    assert "command line:1:1: error[A1109]: `seed` is not a table" in search(folder, "--set", "seed.x=1")
    assert "command line:1:1: error[A1109]: phase `best`: `population` is 'many'" in search(
        folder, "--set", "best.options.population=many"
    )


def test_missing_tensorboard_error_shows_install_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archir.runs.tensorboard.find_spec", lambda name: None)
    said = search(folder, "--set", "tensorboard=true")
    assert "error[A2602]: TensorBoard is not installed\n    tensorboard=true\n" in said
    assert "pip install 'archir[tensorboard]'" in said


def test_override_table_error_points_at_command_line(folder: Path) -> None:
    (folder / "r.toml").write_text(DARTS + 'fixed.op = "relu"\n')
    with pytest.raises(ArchError, match=r"command line:1:1: asked for here\n    search.fixed="):
        begin_search(folder / "r.toml", folder / "run", {"search.fixed": '{ op = "rellu" }'}, "cpu")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("training.epochs=1", "hint: settings of a phase are `PHASE.KEY`, such as `search.training.epochs`; there "),
        ("phase.best.training.epochs=1", "such as `best.training.epochs`; there are `search` and `best`"),
        ("phase.1.training.epochs=1", "`phase` is not a table\n"),
        ("phase.1.training.epochs=1", "such as `search.training.epochs`; there are `search` and `best`\n"),
        ("phases.best.weights=1", "such as `search.training.epochs`; there are `search` and `best`\n"),
        ("epochs=1", "such as `search.training.epochs`; there are `search` and `best`\n"),
        ("strategy=random", "such as `search.strategy`; there are `search` and `best`\n"),
        ("serch.training.epochs=1", "hint: did you mean `search.training.epochs`?\n"),
        ("bst.training.epochs=1", "hint: did you mean `best.training.epochs`?\n"),
        ("dta.source=digits", "hint: did you mean `data`?\n"),
        ("data.sorce=digits", "hint: did you mean `source`?\n"),
    ],
)  # fmt: skip
def test_unknown_override_hint_names_phase_key(setting: str, said: str) -> None:
    with pytest.raises(ArchError) as caught:
        parse(RECIPE, overrides=dict([setting.split("=")]))
    rendered = f"{caught.value}\n"
    assert said in rendered, rendered


NO_GPU = "cuda" if resolve_device(None) == "cpu" else "cuda:99"


@pytest.mark.parametrize("device", [NO_GPU, "cuda:99", "gpu", "meta", "cuda:-1", "cuda:" + "9" * 5000])
def test_missing_device_error_leaves_no_folder(folder: Path, device: str) -> None:
    assert search(folder, "--device", device).count("error[A1505]") == 1
    (folder / "net.arch").write_text(NET.replace("choose op(relu, gelu)", "relu"))
    arguments = ["train", str(folder / "net.arch"), "-p", "width=2", "-o", str(folder / "trained"), "--device", device]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stderr.count("error[A1505]")) == (1, 1)
    assert not (folder / "trained").exists()


def test_an_executor_with_nothing_to_do_is_refused(folder: Path) -> None:
    (folder / "tries.toml").write_text(RECIPE[: RECIPE.index('[[phase]]\nname = "best"')])
    result = CliRunner().invoke(main, ["search", str(folder / "tries.toml"), "--executor", "processes:2"])
    assert (result.exit_code, "A2601" in result.stderr) == (1, True)


# every number has bounds


def kinds(annotation: Any) -> Iterator[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from kinds(field.annotation)
    for inner in get_args(annotation):
        yield from kinds(inner)


ROOTS: list[type[BaseModel]] = [
    Recipe, TrainSettings,
    *(kind.options for kind in STRATEGIES.values()), *(kind.options for kind in TRIAL_STRATEGIES.values()),
    *(kind.model for kind in OBJECTIVES.values()),
]  # fmt: skip
SETTINGS = sorted({kind for root in ROOTS for kind in kinds(root)}, key=lambda kind: (kind.__module__, kind.__name__))


@pytest.mark.parametrize("kind", SETTINGS, ids=lambda kind: kind.__name__)
def test_every_number_is_finite_and_has_bounds(kind: type[Settings]) -> None:
    assert issubclass(kind, Settings)
    assert kind.model_config.get("allow_inf_nan") is False
    for name, field in kind.model_fields.items():
        for numbers in loose(field):
            raise AssertionError(f"{kind.__name__}.{name} has no bounds: {numbers}")


def loose(field: FieldInfo) -> Iterator[Any]:
    """The numbers of a setting that are not bounded on both sides."""

    def look(annotation: Any, limits: list[Any]) -> Iterator[Any]:
        if hasattr(annotation, "__metadata__"):
            limits = [*limits, *(part for one in annotation.__metadata__ for part in getattr(one, "metadata", [one]))]
            annotation = annotation.__origin__
        if annotation in (int, float):
            below = any(isinstance(one, annotated_types.Le | annotated_types.Lt) for one in limits)
            above = any(isinstance(one, annotated_types.Ge | annotated_types.Gt) for one in limits)
            if not (below and above):
                yield annotation
        elif "Literal" not in str(annotation):
            for inner in get_args(annotation):
                yield from look(inner, limits)

    yield from look(field.annotation, list(field.metadata))


def test_pattern_without_such_an_alternative_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "space.arch").write_text("""
    net n {
        input image: f32[1, 8, 8]
        x = image
        for i in 0..5 { x = x |> conv(choose width(4, 8)) }
        output y = x |> global_avg_pool |> linear(10)
    }
    """)
    (tmp_path / "recipe.toml").write_text("""
    space = "space.arch"
    [[phase]]
    name = "train"
    strategy = "train"
    fixed = { "width*" = 16 }
    """)
    with pytest.raises(ArchError, match=r"A2204.*`width\[0\]` and 4 more choices have no alternative 16") as error:
        backends.get("torch").check_recipe(tmp_path / "recipe.toml", overrides={}, device=None, trust_code=False)
    assert len(error.value.diagnostics) == 1
