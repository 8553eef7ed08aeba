"""The plugin examples of the documentation work end to end: operation, strategy, scorer, objective, data."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from archir.cli import main
from archir.diagnostics.errors import Interrupted
from archir.runs import Run
from tests.conftest import ROOT
from tests.documents import snippets, unpack
from tests.plugins import forgotten

PAGE = ROOT / "docs" / "plugins.md"
MOST_LINES = 15

SUPERNET = """\
space = "net.arch"
plugins = ["my_onnx"]
data = { source = "digits", limit = 100 }
threads = 1

[[phase]]
name = "supernet"
strategy = "spos"
training = { epochs = 1, batch = 50 }

[[phase]]
name = "search"
strategy = "evolution"
start = { weights = "supernet" }
options = { population = 2, trials = 2 }

[[phase]]
name = "retrain"
strategy = "train"
start = { architecture = "search" }
training = { epochs = 1, batch = 50 }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    unpack(PAGE, tmp_path)
    monkeypatch.chdir(tmp_path)
    with forgotten(tmp_path):
        yield tmp_path


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, list(arguments), catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


def test_examples_are_short() -> None:
    files = [one for one in snippets(PAGE, "python") if one.file is not None]
    assert len(files) >= 5
    for one in files:
        written = [line for line in one.text.splitlines() if line.strip()]
        assert len(written) <= MOST_LINES, one.file


def test_an_operation_is_trained_and_exported(folder: Path) -> None:
    """Its lowering to ONNX is asked for, by name, where it is not given."""
    run("train", "net.arch", "--seed", "0", "-o", "run", "--epochs", "1", "--plugin", "my_ops")
    said = run("export", "run", "-o", "net.onnx", "--plugin", "my_ops", code=1)
    assert "A0904" in said
    assert "the onnx backend has no lowering of `squareplus`" in said
    assert not (folder / "net.onnx").exists()
    run("export", "run", "-o", "net.onnx", "--plugin", "my_onnx")
    run("verify", "net.onnx")


def test_a_trained_operation_is_unknown_without_its_plugin(folder: Path) -> None:
    with forgotten(folder):
        run("compile", "net.arch", "--seed", "0", "--to", "torch", "-o", "net.py", "--plugin", "my_ops")
        run("train", "net.arch", "--seed", "0", "-o", "run", "--epochs", "1", "--plugin", "my_ops")
    said = run("export", "run", "-o", "net.onnx", code=1)
    assert "there is no operation `squareplus`" in said
    assert "`--plugin MODULE`" in said


def test_an_operation_is_searched_in_a_supernet(folder: Path) -> None:
    (folder / "supernet.toml").write_text(SUPERNET)
    run("search", "supernet.toml", "-o", "run")
    summary = json.loads((folder / "run" / "summary.json").read_text())
    assert summary["onnx"]["relative"] < 1e-4
    assert json.loads((folder / "run" / "environment.json").read_text())["plugins"] == ["my_onnx"]


NEAREST = {"width": 8}
"""What has about as many parameters as the scorer of the page wants: 162."""


@pytest.mark.parametrize("executor", ["local", pytest.param("processes:1", marks=pytest.mark.soak)])
def test_plugin_strategy_and_scorer_run_in_recipe(folder: Path, executor: str) -> None:
    """Workers import them, too."""
    run("search", "lean.toml", "-o", "run", "--executor", executor)
    assert json.loads((folder / "run" / "best.json").read_text())["choices"] == NEAREST


def test_resume_requires_plugins_of_run(folder: Path) -> None:
    inputs = {name: (folder / name.rpartition("/")[2]).read_text() for name in ("lean.toml", "space/net.arch")}
    inputs = {"recipe.toml": inputs["lean.toml"], "space/net.arch": inputs["space/net.arch"], "overrides.json": "{}"}
    with Run.create(folder / "run", "lean", inputs, {"plugins": ["my_ops"]}):
        pass
    plugins = ["--plugin", "my_scorer", "--plugin", "my_search"]
    said = run("search", "--resume", "run", *plugins, code=1)
    assert "[A3105]: the run needs plugins that are not loaded: `my_ops`" in said
    extended = ["--set", "search.options.trials=5"]
    with forgotten(folder):
        refused = printed(run("search", "--resume", "run", *extended, code=1))
        assert refused[:4] == ["--resume", "run", *extended]
    with forgotten(folder):
        run("search", *printed(run("search", "--resume", "run", code=1)))
    assert json.loads((folder / "run" / "best.json").read_text())["choices"] == NEAREST


def printed(said: str) -> list[str]:
    """The arguments of `archir search` in a message."""
    found = re.search(r"`(.*archir search .*?)`", said)
    assert found is not None, said
    before, _, arguments = found[1].partition("archir search ")
    sys.path += before.strip().replace("'", "").removeprefix("PYTHONPATH=").split(os.pathsep)
    return shlex.split(arguments)


OWN = """
space = "net.arch"
export = false
{settings}

[[phase]]
name = "search"
strategy = "random"
{objective}
training = {{ batch = 4 }}
options = {{ objectives = ["naswot:max"], trials = 2, scorer = {{ kind = "proxies", proxies = ["naswot"] }} }}
"""
MINE = """
import numpy as np
from archir_torch.objectives.classification import Classification

def data():
    return np.random.default_rng(0).normal(size=(40, 8)).astype("f"), np.arange(40) % 2

class Loss(Classification):
    pass
"""
SMALL = "net net {\n input x: f32[8]\n output y = x |> linear(choose width(4, 8)) |> relu |> linear(2)\n}\n"


@pytest.mark.parametrize(
    ("settings", "objective"),
    [
        ('data = { source = "mine:data" }', ""),
        ('plugins = ["mine"]\ndata = { source = "mine:data" }', 'objective = { kind = "mine:Loss" }'),
    ],
)
def test_printed_resume_command_works_with_own_modules(
    folder: Path, monkeypatch: pytest.MonkeyPatch, settings: str, objective: str
) -> None:
    """After an interruption, and after a refusal for lack of the modules; the recipe lies in another folder."""
    beside = folder / "a project"
    beside.mkdir()
    for name, text in (("net.arch", SMALL), ("mine.py", MINE)):
        (beside / name).write_text(text)
    (beside / "own.toml").write_text(OWN.format(settings=settings, objective=objective))
    from archir_torch.search import run as searching

    def stopped(*_: object) -> None:
        raise Interrupted("search was stopped after 0 trials")

    with forgotten(folder), monkeypatch.context() as patched:
        patched.setattr(searching, "_run_phase", stopped)
        said = run("search", str(beside / "own.toml"), "-o", "run", code=130)
    with forgotten(folder):
        refused = run("search", "--resume", "run", code=1)
        assert "[A3105]" in refused
        assert printed(refused) == ["--resume", "run", "--plugin", "mine"]
        other = run("search", "--resume", "run", "--data", "digits", "--plugin", "mine", code=1)
        assert "A3101" in other  # a module beside the recipe is found by the command of the interruption
    with forgotten(folder):
        run("search", *printed(said))
    assert len(Run.open("run").phase("search").trials()) == 2


def test_resume_imports_plugin_data_source(folder: Path) -> None:
    for name, text in (("net.arch", SMALL), ("mine.py", MINE)):
        (folder / name).write_text(text)
    recipe = OWN.format(settings='data = { source = "mine:data" }', objective="")
    inputs = {"recipe.toml": recipe, "space/net.arch": SMALL, "overrides.json": "{}"}
    with Run.create(folder / "run", "own", inputs, {"plugins": ["mine"]}):
        pass
    said = run("search", "--resume", "run", "--data", "digits", "--plugin", "mine", code=1)
    assert "[A2216]: the run cannot be resumed with these settings: `data` cannot change after the start" in said
    with forgotten(folder):
        run("search", "--resume", "run", "--data", "mine:data")
    assert len(Run.open("run").phase("search").trials()) == 2


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"my_search", ', "", "A2202"),
        (', "my_scorer"', "", "A2218"),
        ('"my_ops", ', "", "A0201"),
        ("target = 150.0", 'target = "many"', "lean.toml:13:39: error[A1109]: phase `search`: scorer `lean`: `target`"),
        ("my_search", "my_serch", "did you mean `my_search`?"),
    ],
)
def test_missing_plugin_entry_is_reported_before_search_starts(
    folder: Path, before: str, after: str, said: str
) -> None:
    text = (folder / "lean.toml").read_text()
    assert before in text
    (folder / "lean.toml").write_text(text.replace(before, after))
    assert said in run("search", "lean.toml", "-o", "run", code=1)
    assert not (folder / "run").exists()


STRIPES = """\
space = "net.arch"
plugins = ["my_ops", "my_loss", "my_measure", "my_data", "my_augment"]
export = false
data = { source = "stripes:60", augment = { also = [{ kind = "dim", most = 0.3 }] } }
threads = 1

[[phase]]
name = "search"
strategy = "random"
objective = { kind = "margin", measures = ["confident"] }
training = { epochs = 1, batch = 20 }
options = { trials = 2, objectives = ["confident:max"], scorer = { kind = "training" } }
"""


@pytest.mark.parametrize("kind", ["margin", "my_loss:Margin"])
def test_plugin_objective_measure_and_data_run_in_recipe(folder: Path, kind: str) -> None:
    text = STRIPES.replace('"margin"', f'"{kind}"')
    text = text.replace('"my_loss", ', "") if ":" in kind else text
    (folder / "stripes.toml").write_text(text)
    run("search", "stripes.toml", "-o", "run")
    found = json.loads((folder / "run" / "summary.json").read_text())["phases"]["search"]
    assert {"validation_confident", "validation_accuracy", "validation_loss"} <= found.keys()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"margin"', '"margn"', "10:15: error[A1901]: there is no objective `margn`\n"),
        ('"margin"', '"my_loss:Magrin"', "`my_loss` has no `Magrin`"),
        ('"margin"', '"my_los:Margin"', "A3101"),
        ('["confident"]', '["confidnet"]', "A1904"),
        ('["confident"]', '["confidnet"]', "did you mean `confident`?"),
        ('"stripes:60"', '"strips:60"', "A1101"),
        ('"dim"', '"dom"', "stripes.toml:4:55: error[A2219]: there is no augmentation `dom`"),
        ("most = 0.3", "most = -1.0", "stripes.toml:4:69: error[A1109]: augmentation `dim`: `most` is -1.0"),
        ('"stripes:60"', '"stripes:many"', "my_data.py:9:34: error[A3106]: the plugin `my_data` failed: ValueError"),
    ],
)
def test_invalid_plugin_entry_is_reported_before_search_starts(
    folder: Path, before: str, after: str, said: str
) -> None:
    assert before in STRIPES
    (folder / "stripes.toml").write_text(STRIPES.replace(before, after))
    assert said in run("search", "stripes.toml", "-o", "run", code=1)
    assert not (folder / "run").exists()


def test_failed_search_without_results_leaves_no_folder(folder: Path) -> None:
    """What is only found when a phase begins: that an option names no choice, or that too little was tried."""
    (folder / "train.toml").write_text(
        SUPERNET[: SUPERNET.index("[[phase]]")] + '[[phase]]\nname = "a"\nstrategy = "sandwich"\n'
        'options = { first = ["nothing"] }\n'
    )
    assert "A2203" in run("search", "train.toml", "-o", "run", code=1)
    assert not (folder / "run").exists()
    late = SUPERNET.replace('"train"', '"evolution"').replace('architecture = "search"', 'trials = "search"')
    (folder / "late.toml").write_text(
        late + 'options = { population = 2, trials = 2, scorer = { kind = "predictor" } }\n'
    )
    assert "A2211" in run("search", "late.toml", "-o", "run", code=1)
    assert (folder / "run" / "manifest.json").exists(), "a supernet was trained by then"


def test_check_reports_fractional_dimensions_of_plugin_operation(folder: Path) -> None:
    """`check` sees them, where the operation stands."""
    (folder / "halving.py").write_text(
        "from dataclasses import dataclass\nfrom archir.ir.op import Free\n\n\n@dataclass(frozen=True)\n"
        "class Halved(Free):\n    def infer(self, x):\n        return x.with_dims(x.channels / 2, *x.spatial)\n"
    )
    (folder / "half.arch").write_text(
        "net half {\n    input x: f32[3, 8, 8]\n    output y = x |> conv(choose c(4, 6)) |> halved\n}\n"
    )
    said = run("check", "half.arch", "--plugin", "halving", code=1)
    assert "half.arch:3:45" in said
    assert "dimensions are whole numbers" in said
