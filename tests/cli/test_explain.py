"""`archir explain`: pages of operations, blocks, keywords and diagnostic codes."""

from __future__ import annotations

import re

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

import archir
from archir.backends.lowering_sources import lowering_locations
from archir.cli import main
from archir.cli.commands import COMMANDS
from archir.diagnostics.explain import codes
from archir.ir.op import OPS, Composite
from archir.language.elaboration.module import Block
from archir.tools.lsp.hover import KEYWORDS
from archir.tools.lsp.lexer import tokenize
from archir.tools.mcp import examples
from archir.tools.mcp.explanations import explanation, list_topics, standard_libraries
from tests.conftest import ROOT
from tests.soak import with_soak

KNOWN = [name for name, op in OPS.items() if not op.internal and op.__module__.startswith("archir.")]
BLOCKS = [
    f"{library}.{name}"
    for library, module in standard_libraries().items()
    for name, value in module.names.items()
    if isinstance(value, Block)
]
FEW = {"conv", "add", "concat", "attention", "embedding", "calibrate", "expert_linear", "parameter", "where"}
FEW_BLOCKS = {"std.cells.stacked_cells", "std.cells.pairs", "std.gates.se", "std.recurrent.scan"}


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["explain", *arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.parametrize("name", with_soak([*KNOWN, *BLOCKS], FEW | FEW_BLOCKS))
def test_every_page_has_a_valid_formatted_example(name: str) -> None:
    text = explanation(name)
    called = name.rpartition(".")[2]
    (program,) = [found for found in re.findall(r"```arch\n(.*?)```", text, re.DOTALL) if "net example" in found]
    body = program.partition("net example")[2]
    assert called in [word.text for word in tokenize(body)]
    space = archir.loads(program)
    assert archir.format(program) == program
    if space.choices:
        assert f"in {space.size:,} architectures." in text
    else:
        cost = archir.cost(space.graph)
        assert f"and costs {cost.params:,} parameter" in text
        assert f" {cost.macs:,} multiply-accumulate" in text


def test_operation_page_shows_signature_cost_and_lowering() -> None:
    text = run("conv")
    assert "conv(x, channels, kernel=3, stride=1" in text
    assert "- `kernel`: integer or list of integers; default `3`\n" in text
    weights = 32 * 16 * 3 * 3
    told = f"{weights:,} parameters, {weights * 32 * 32:,} multiply-accumulates and 1 kernel."
    assert f"Gives `f32[32, 32, 32]`, and costs {told}" in text
    assert "It is lowered in `archir_torch/lowering/operations/conv.py:" in text


def test_lowering_locations_point_to_operation() -> None:
    for op in map(OPS.__getitem__, KNOWN):
        places = lowering_locations(op)
        assert len(places) == (0 if issubclass(op, Composite) else 2), op.name
        for place in places:
            file, _, line = place.rpartition(":")
            text = (ROOT / "backends" / file).read_text("utf-8").splitlines()
            assert re.search(rf"\b{op.__name__}\b", text[int(line) - 1]), op.name


def test_block_page_names_its_module_and_used_blocks() -> None:
    text = run("std.gates.se")
    assert "Defined in `std.gates`; import it with `import std.gates`." in text
    assert "It uses `global_avg_pool`," in text
    assert run("se") == text
    assert "block local_self_attention(" in run("std.attention")
    both = run("relu", "choose")
    assert both == f"{run('relu')}\n{run('choose')}"


def test_explain_without_argument_lists_all_topics() -> None:
    text = run()
    names = [line.split(" ")[0] for line in text.splitlines()]
    assert {*KNOWN, *KEYWORDS, *codes(), *(name.rpartition(".")[2] for name in BLOCKS)} <= set(names)
    assert all(said.strip() for found in list_topics().values() for _, said in found)
    prelu = "x where it is positive, elsewhere x times a learned slope for each channel (He et al. 2015)\n"
    assert f"prelu              {prelu}" in text


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("Conv2d", "did you mean `conv`?"),
        ("cat", "write `concat(a, b)`"),
        ("sep_cnv", "did you mean `sep_conv`?"),
        ("std.cell", "did you mean `std.cells`?"),
        ("requires", "did you mean `require`?"),
        ("A9999", "`archir explain` lists all"),
        ("search", "`archir search --help` explains it"),
        ("darts", "docs/search.md and docs/multi.md describe it; its settings: `order`"),
        ("distillation", "docs/objectives.md describes it; its settings: `teacher`"),
    ],
)
def test_near_names_are_suggested(wrong: str, hint: str) -> None:
    text = run(wrong, code=1)
    assert "error[A1201]" in text
    assert f"hint: {hint}" in text


def test_keywords_named_like_commands_are_explained() -> None:
    assert "import" in COMMANDS
    assert "`where` is also a keyword: which combinations" in run("where")
    assert run("import").startswith("`import`: imports blocks and constants")


def test_shell_completes_topic_names() -> None:
    complete = ShellComplete(main, {}, "archir", "_ARCHIR_COMPLETE")
    found = [one.value for one in complete.get_completions(["explain", "relu"], "sep_conv_")]
    assert found == ["sep_conv_3x3", "sep_conv_5x5", "sep_conv_7x7"]
    assert [one.value for one in complete.get_completions(["explain"], "std.ce")] == ["std.cells"]


def test_unknown_operation_has_no_example() -> None:
    assert examples._first_valid("nothing_of_this_name", [["x"], []], "") is None
    assert examples._first_valid("conv", [["x"], ["unknown"]], "") is None
