"""Phases that start from weights of another run, or of a file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import archir
from archir import backends
from archir.diagnostics.errors import ArchError
from archir.recipes.external_files import DATA_KEY
from archir.runs import Run
from archir_torch import BACKEND as TORCH
from archir_torch.lowering.weights import read_weights
from tests.soak import with_soak
from tests.torch_backend.tried import RECIPE, recipe, trials_of

HEAD = RECIPE[: RECIPE.index("[[phase]]")].replace("[data]", "export = false\n\n[data]", 1)
SUPERNET = HEAD + RECIPE[RECIPE.index("[[phase]]") : RECIPE.index('[[phase]]\nname = "evolve"')]
EVOLVE = RECIPE[RECIPE.index('[[phase]]\nname = "evolve"') : RECIPE.index('[[phase]]\nname = "plane"')]
TRAIN = """
[[phase]]
name = "tune"
strategy = "train"
space = "plain.arch"
start = { weights = "WEIGHTS" }
training = { epochs = 1, batch = 32 }
weights = { lr = 1e-30 }
"""
PLAIN = """
net plain {
    input x: f32[1, 8, 8]
    output logits = x |> conv(8) |> batch_norm |> relu |> global_avg_pool |> linear(10)
}
"""


def search(folder: Path, text: str, seed: int = 0) -> Run:
    path = recipe(folder, text.replace("threads = 1", f"threads = 1\nseed = {seed}", 1))
    (folder / "plain.arch").write_text(PLAIN)
    backends.get("torch").search(path, folder / "run", device="cpu")
    return Run.open(folder / "run")


def evolve(weights: str) -> str:
    return HEAD + EVOLVE.replace('weights = "supernet"', f'weights = "{weights}"')


@pytest.fixture(scope="module")
def supernet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that trained a supernet."""
    folder = tmp_path_factory.mktemp("supernet")
    search(folder, SUPERNET)
    return folder / "run"


@pytest.mark.parametrize("which", with_soak(["", ":supernet"], [":supernet"]))
def test_borrowed_supernet_gives_trials_of_single_run_search(which: str, supernet: Path, tmp_path: Path) -> None:
    """It is what it would be in one run, and stays when the other one is gone."""
    other = Path(shutil.copytree(supernet, tmp_path / "other"))
    run = search(tmp_path / "own", evolve(f"../other{which}"))
    both = search(tmp_path / "both", SUPERNET + EVOLVE)
    assert trials_of(run, "evolve") == trials_of(both, "evolve")
    assert run.content("start/evolve.safetensors") == both.content("phases/supernet/weights.safetensors")
    shutil.rmtree(other)
    backends.get("torch").search(
        None, run.folder, resume=True, overrides={"evolve.options.generations": "5"}, device="cpu"
    )
    assert len(Run.open(run.folder).phase("evolve").trials()) > len(trials_of(both, "evolve"))


def test_training_starts_from_weights_of_file(tmp_path: Path) -> None:
    """What is trained at a rate of next to nothing stays as it was."""
    given = archir.compile(archir.loads(PLAIN).graph, seed=7).state_dict()
    save_file(given, tmp_path / "start.safetensors")
    run = search(tmp_path, HEAD + TRAIN.replace("WEIGHTS", "start.safetensors"))
    trained, _ = read_weights(run.folder / "phases" / "tune" / "weights.safetensors")
    learned = [name for name in given if "running" not in name]
    assert len(learned) == 5
    assert all(trained[name].allclose(given[name], rtol=0, atol=1e-20) for name in learned)


def test_name_map_loads_weights_with_foreign_names(tmp_path: Path) -> None:
    """A map says which they are; run and map stay whole without the files. What does not fit is refused at once."""
    given = archir.compile(archir.loads(PLAIN).graph, seed=7).state_dict()
    theirs = {f"theirs.{name.replace('batch_norm', 'bn')}": tensor for name, tensor in given.items()}
    tracked = torch.tensor(3)
    (tmp_path / "names.toml").write_text(
        '"batch_norm.*" = "theirs.bn.*"\n"conv.*" = "theirs.conv.*"\n"linear.*" = "theirs.linear.*"\n"" = "*_tracked"\n'
    )
    text = HEAD + TRAIN.replace('"WEIGHTS"', '"start.safetensors", map = "names.toml"')
    save_file({**theirs, "theirs.bn_tracked": tracked, "over": tracked + 1}, tmp_path / "start.safetensors")
    del theirs["theirs.linear.bias"]
    with pytest.raises(ArchError, match=r"start.safetensors has 1 weights too many: `over`"):
        search(tmp_path, text)
    theirs["theirs.bn.bias"] = torch.zeros(3)
    save_file({**theirs, "theirs.bn_tracked": tracked}, tmp_path / "start.safetensors")
    with pytest.raises(ArchError, match=r"(?s)lacks 1 weights: `linear.bias`.*`batch_norm.bias`, has shape \[3\], not"):
        search(tmp_path, text)
    assert not (tmp_path / "run").exists()
    theirs |= {f"theirs.{name}": given[name] for name in ("linear.bias",)} | {
        "theirs.bn.bias": given["batch_norm.bias"]
    }
    save_file({**theirs, "theirs.bn_tracked": tracked}, tmp_path / "start.safetensors")
    run = search(tmp_path, text)
    trained, _ = read_weights(run.folder / "phases" / "tune" / "weights.safetensors")
    assert all(trained[name].allclose(given[name], rtol=0, atol=1e-20) for name in given if "running" not in name)
    (tmp_path / "names.toml").write_text('"conv.weight" = "none"\n')
    shutil.rmtree(run.folder)
    with pytest.raises(ArchError, match=r"(?s)names.toml:1:1.*A2220"):
        search(tmp_path, text)
    with pytest.raises(ArchError, match=r"(?s)A1109.*`map` needs a file of weights"):
        search(tmp_path, text.replace("start.safetensors", "./run"))


def test_start_weights_of_later_phase_are_checked_before_training(tmp_path: Path) -> None:
    """Shapes that do not fit are said before anything was trained, and no run is left."""
    given = archir.compile(archir.loads(PLAIN).graph, seed=7).state_dict()
    save_file({**given, "linear.bias": torch.zeros(3)}, tmp_path / "start.safetensors")
    (tmp_path / "names.toml").write_text('"conv.*" = "conv.*"\n')
    first = TRAIN.replace("tune", "first").replace('start = { weights = "WEIGHTS" }\n', "")
    later = TRAIN.replace('"WEIGHTS"', '"start.safetensors", map = "names.toml"')
    with pytest.raises(ArchError, match=r"(?s)A0902.*`linear.bias`, has shape \[3\], not \[10\]"):
        search(tmp_path, HEAD + first + later)
    assert not (tmp_path / "run").exists()


def test_fixed_sets_architecture_of_inherit_and_train_rejects_open(supernet: Path, tmp_path: Path) -> None:
    """`fixed` says the architecture, over what a phase found; there is nothing to open."""
    held = """
[[phase]]
name = "held"
strategy = "STRATEGY"
start = { weights = "SUPERNET" }
fixed = { "*" = "smallest", "width" = 8 }
training = { epochs = 1, batch = 95 }
""".replace("SUPERNET", str(supernet))
    held = HEAD + held
    run = search(tmp_path, held.replace("STRATEGY", "inherit"))
    assert json.loads(run.content("phases/held/architecture.json"))["choices"]["width"] == 8
    with pytest.raises(ArchError, match=r"(?s)A1109.*`train` searches nothing, so it takes no `open`"):
        search(tmp_path / "open", (held + 'open = ["width"]\n').replace("STRATEGY", "train"))


def test_rejects_weight_files_trained_on_validation_samples(tmp_path: Path) -> None:
    """A search does not choose by samples that a file's weights were trained on, directly or before."""
    module = archir.compile(archir.loads(PLAIN).graph, seed=7)
    TORCH.save(module, tmp_path / "seen.safetensors", {DATA_KEY: json.dumps(["other.npz", "digits"])})
    TORCH.save(module, tmp_path / "unknown.safetensors")
    searched = HEAD + TRAIN.replace('"train"', '"sandwich"').replace("plain.arch", "elastic.arch")
    with pytest.raises(ArchError, match=r"A2214.*`tune` starts from `seen.safetensors`, which was trained") as caught:
        search(tmp_path, searched.replace("WEIGHTS", "seen.safetensors"))
    assert str(caught.value.diagnostics[0].hint).count("; `allow_validation_overlap = true` in `start` allows it") == 1
    search(
        tmp_path,
        searched.replace('weights = "WEIGHTS"', 'allow_validation_overlap = true, weights = "seen.safetensors"'),
    )
    shutil.rmtree(tmp_path / "run")
    for name, said in (("seen", "other.npz, digits"), ("unknown", "unknown: the file does not say")):
        run = search(tmp_path, HEAD + TRAIN.replace("WEIGHTS", f"{name}.safetensors"))
        assert f"starts from</th><td>{said}<" in run.content("report.html").decode()
        shutil.rmtree(run.folder)


@pytest.mark.parametrize(
    ("weights", "seed", "said"),
    [
        ("../nowhere/run", 0, "A1801|A1802"),
        ("RUN:retrain", 0, r"(?s)A2207.*no weights to start from.*there: `supernet`"),
        ("./none.safetensors", 0, r"(?s)A2207.*there is no such file"),
        ("./broken.safetensors", 0, "A0905"),
        ("RUN", 1, "A2214.*splits the samples differently: `seed`"),
    ],
)
def test_rejects_unusable_start_weights(weights: str, seed: int, said: str, supernet: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.safetensors").write_bytes(b"no weights")
    with pytest.raises(ArchError, match=said):
        search(tmp_path, evolve(weights.replace("RUN", str(supernet))), seed)
    assert not (tmp_path / "run").exists()


def test_rejects_start_weights_of_a_run_that_splits_by_sample(supernet: Path, tmp_path: Path) -> None:
    text = evolve(str(supernet)).replace("[data]", '[data]\nsplit = "classes"')
    with pytest.raises(ArchError, match=r"A2214.*splits the samples differently: `split`"):
        search(tmp_path, text)


def test_rejects_search_from_run_trained_on_validation_samples(tmp_path: Path) -> None:
    """A network that was trained on all training images starts no search on them; a training may start from it."""
    trained = search(tmp_path / "whole", HEAD + TRAIN.replace('start = { weights = "WEIGHTS" }\n', ""))
    with pytest.raises(ArchError, match=r"A2214.*was trained on all training images"):
        search(tmp_path / "own", evolve(str(trained.folder)))
    search(tmp_path / "tuned", HEAD + TRAIN.replace("WEIGHTS", str(trained.folder)))
