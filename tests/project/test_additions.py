"""Adding an operation or other extension touches only the files that CONTRIBUTING.md lists."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import ROOT

PLACES = ("archir", "backends", "grammar")


class Addition(NamedTuple):
    """What is written, by file: a new one, or a line of a table, behind a text; and a program that uses it."""

    files: dict[str, tuple[str, str]]
    use: str


NEW = "a new file"
ADDITIONS = {
    "operation": Addition(
        {
            "archir/ops/halves.py": (
                NEW,
                "from dataclasses import dataclass\n\nfrom archir.ir.op import Free\n\n\n"
                "@dataclass(frozen=True)\nclass Halved(Free):\n    def infer(self, x):\n        return x\n",
            ),
            "backends/archir_torch/lowering/operations/halves.py": (
                NEW,
                "from archir.ops.halves import Halved\nfrom archir_torch.lowering.rules import lowers\n\n\n"
                "@lowers(Halved)\ndef halved(x):\n    return x / 2\n",
            ),
            "backends/archir_onnx/lowering/operations/halves.py": (
                NEW,
                "import numpy as np\n\nfrom archir.ops.halves import Halved\n"
                "from archir_onnx.lowering.rules import lowers\n\n\n"
                '@lowers(Halved)\ndef halved(g, op, x):\n    return g.node("Mul", x, g.constant(0.5, np.float32))\n',
            ),
        },
        'halved = archir.loads("net n { input x: f32[4]\\n output y = x |> halved }").graph\n'
        'archir.export(halved, "halved.onnx", archir.compile(halved))',
    ),
    "pass": Addition(
        {
            "archir/passes/same.py": (NEW, "def same(graph):\n    return graph\n"),
            "archir/passes/__init__.py": (
                "PASSES: dict[str, Pass] = {",
                '"same": lambda graph: __import__("archir.passes.same", fromlist=["same"]).same(graph), ',
            ),
        },
        'from archir.passes import run\nassert run(network, ["same"]) is network',
    ),
    "cost": Addition(
        {
            "archir/costs/calls.py": (
                NEW,
                "from archir.costs.symbolic import Rule\n\n\n"
                "def calls(graph):\n    return Rule(lambda op, *types: 1)\n",
            ),
            "archir/costs/rules.py": (
                "RULE_FACTORIES: dict[str, Callable[..., Rule]] = {\n",
                '    "calls": lambda graph: __import__("archir.costs.calls", fromlist=["calls"]).calls(graph),\n',
            ),
            "archir/language/elaboration/cost_names.py": (
                "COST_DEFAULTS: dict[str, dict[str, int | str | None]] = {\n",
                '    "calls": {},\n',
            ),
        },
        'assert space.cost([space.sample(0)], ["calls"])["calls"][0] > 0',
    ),
    "strategy that tries": Addition(
        {
            "archir/search/strategies/again.py": (
                NEW,
                "from archir.search.strategies.random import Random, RandomOptions\n"
                "from archir.search.registry import strategy\n\n\n"
                '@strategy("again", RandomOptions)\nclass Again(Random):\n    pass\n',
            )
        },
        'assert archir.strategy("again", space, {"trials": 2}).ask()',
    ),
    "strategy that trains": Addition(
        {
            "backends/archir_torch/strategies/softly.py": (
                NEW,
                "from archir_torch.strategies.relaxed import Options, Relaxed\n"
                "from archir_torch.search.job import strategy\n\n\n"
                '@strategy("softly", Options)\nclass Softly(Relaxed):\n    pass\n',
            )
        },
        'archir.run("softly.toml", "softly", device="cpu")',
    ),
    "objective": Addition(
        {
            "backends/archir_torch/objectives/doubled.py": (
                NEW,
                "from archir_torch.objectives.classification import Classification\n"
                "from archir_torch.objectives.objective import objective\n\n\n"
                '@objective("doubled")\n'
                "class Doubled(Classification):\n"
                "    def loss(self, outputs, batch, seed):\n        return 2 * super().loss(outputs, batch, seed)\n",
            ),
        },
        'from archir_torch.objectives import create\nassert create("doubled", {})',
    ),
    "source of images": Addition(
        {
            "archir/data/readers/first.py": (
                NEW,
                "from archir.data.readers import digits\n"
                "from archir.data.readers.source import source\n\n\n"
                '@source("first")\ndef read(rest, inputs):\n    return digits.read()\n',
            ),
        },
        'assert archir.score(network, "naswot", data="first:some", batch=4)',
    ),
    "proxy": Addition(
        {
            "backends/archir_torch/proxies/size.py": (
                NEW,
                "from archir_torch.proxies.registry import proxy\n\n\n"
                "@proxy\ndef size(trial):\n    return float(len(trial.graph))\n",
            )
        },
        'assert archir.score(network, "size", batch=4) == len(network)',
    ),
    "command": Addition(
        {
            "archir/cli/greet.py": (
                NEW,
                "import click\n\nfrom archir.cli.output import say\n\n\n"
                '@click.command("greet")\ndef greet_command():\n    """Greet."""\n    say("hello")\n',
            ),
            "archir/cli/commands.py": ('    "Write a space": {\n', '        "greet": ("greet", "Greet."),\n'),
        },
        "from click.testing import CliRunner\nfrom archir.cli import main\n"
        'assert CliRunner().invoke(main, ["greet"]).output == "hello\\n"',
    ),
}
SPACE = "net n { input x: f32[1, 8, 8]\n output y = x |> conv(choose w(4, 8)) |> relu |> flatten |> linear(10) }\n"
RECIPE = """
space = "n.arch"
[data]
source = "digits"
limit = 64
[[phase]]
name = "search"
strategy = "softly"
training = { epochs = 1, batch = 16 }
"""
PROGRAM = """
import archir
space = archir.load("n.arch")
network = space.specialize(space.sample(0))
"""

WITHOUT_COMPILER = """
import sys
assert "torch._dynamo" not in sys.modules, "torch's compiler takes as long to import as torch, and nothing compiled"
"""


def touched() -> dict[str, list[str]]:
    """The files that CONTRIBUTING.md says are touched, by what is added."""
    rows = re.findall(r"^\| an? ([\w ]+?) \| ((?:`[^`|]+`(?:, )?)+) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    return {name: re.findall(r"`([^`]+)`", files) for name, files in rows}


def test_paths_in_contributing_exist() -> None:
    named = re.findall(
        r"`((?:archir|backends|grammar|docs|tests|tools)/[\w/.]+)`", (ROOT / "CONTRIBUTING.md").read_text()
    )
    there = [one for one in named if not re.search(r"[A-Z]{3,}", one)]
    assert len(there) > 30
    assert not [one for one in there if not (ROOT / one).exists()]


@pytest.mark.parametrize("name", ADDITIONS)
def test_example_additions_touch_only_documented_files(name: str) -> None:
    said, done = touched()[name], [*ADDITIONS[name].files]
    assert len(said) == len(done)
    assert all(any(fnmatchcase(file, re.sub(r"[A-Z]{3,}", "*", one)) for one in said) for file in done)


def test_example_additions_pass_their_checks(tmp_path: Path) -> None:
    for place in PLACES:
        shutil.copytree(ROOT / place, tmp_path / place)  # what is compiled of files stays valid
    for addition in ADDITIONS.values():
        for name, (behind, text) in addition.files.items():
            file = tmp_path / name
            assert file.exists() == (behind != NEW)
            if behind == NEW:
                file.write_text(text)
            else:
                before = file.read_text()
                assert before.count(behind) == 1, f"{name} has no place for it"
                file.write_text(before.replace(behind, behind + text))
    (tmp_path / "n.arch").write_text(SPACE)
    (tmp_path / "softly.toml").write_text(RECIPE)
    program = "\n".join([PROGRAM, *(addition.use for addition in ADDITIONS.values()), WITHOUT_COMPILER])
    paths = os.pathsep.join(str(tmp_path / place) for place in ("", "backends", "grammar"))
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
