"""Models of the libraries that people take theirs from: imported, written, equal, and back by their own names.

They are tested where these libraries are installed; `benchmarks/imports.py` has a hundred, the soak those of it.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import archir
from archir import backends
from archir.backends.imports import program_of, to_source_tensors
from archir.equivalence.canonical import canonical_hash
from benchmarks.imports import Case, cases, names, randomise_statistics, stabilise_norms

MISSING = [name for name in ("timm", "torchvision", "transformers") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

FEW = ("torchvision squeezenet1_1", "transformers GPT2LMHeadModel")


@cache
def known() -> dict[str, Case]:
    return {case.name: case for case in cases()}


@pytest.mark.parametrize("name", [one if one in FEW else pytest.param(one, marks=pytest.mark.soak) for one in names()])
def test_library_model_import_equals_module(name: str) -> None:
    case = known()[name]
    module = case.make().eval()
    randomise_statistics(module)
    stabilise_norms(module, case.example)
    imported = archir.from_torch(module, case.example)  # which compares them
    program = program_of(imported)
    graph = archir.loads(program.text).graph
    assert canonical_hash(graph) == canonical_hash(imported.graph)
    assert backends.get("torch").compare(module, graph, program.weights, case.example, seed=1) <= 1e-5
    state = module.state_dict()
    for source, array in to_source_tensors(program.weights, program.sources, program.leftover).items():
        np.testing.assert_array_equal(array, state[source].numpy())


def test_tied_weights_come_back_by_all_their_names() -> None:
    """GPT-2's head is the table of its embedding: what goes in is what comes back, and torch takes it."""
    case = known()["transformers GPT2LMHeadModel"]
    module = case.make().eval()
    program = program_of(archir.from_torch(module, case.example))
    back = to_source_tensors(program.weights, program.sources, program.leftover)
    assert {"transformer.wte.weight", "lm_head.weight"} <= back.keys()
    assert back.keys() == module.state_dict().keys()
    case.make().load_state_dict({name: torch.from_numpy(array) for name, array in back.items()})


LARGE = """
import resource
import torch
from torch import nn
import archir

def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

archir.save_import(archir.from_torch(nn.Linear(4, 4), torch.zeros(1, 4)), "small.arch")
before = peak()
layers = [nn.Sequential(nn.Linear(2048, 2048), nn.ReLU()) for _ in range(24)]
archir.save_import(archir.from_torch(nn.Sequential(*layers), torch.zeros(1, 2048)), "large.arch")
print(peak() - before)
"""


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="memory is told in other units")
def test_import_memory_stays_below_twice_model_size(tmp_path: Path) -> None:
    """The module's own weights are among it."""
    run = subprocess.run([sys.executable, "-c", LARGE], cwd=tmp_path, capture_output=True, text=True, check=True)
    params = archir.cost(archir.load(tmp_path / "large.arch").graph).params
    assert params > 100_000_000
    assert int(run.stdout) < 2 * 4 * params
