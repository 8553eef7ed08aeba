"""Errors about syntax from other languages point at the right line and suggest the archir spelling."""

from __future__ import annotations

import pytest

from archir.diagnostics.errors import ArchError
from archir.language.elaboration.elaborate import elaborate

IN_A_NET = """net tiny(width = 8) {{
    input image: f32[3, 8, 8]
    x = image
    {statement}
    output y = x
}}
"""

RANKS = {2: ("1d", "f32[8, 16]"), 3: ("", "f32[3, 8, 8]"), 4: ("3d", "f32[3, 8, 8, 8]")}
"""Ends of the names of operations on tensors of each rank."""


@pytest.mark.parametrize("family", ["conv", "max_pool", "avg_pool"])
@pytest.mark.parametrize("end", ["", "1d", "3d"])
@pytest.mark.parametrize("rank", RANKS)
def test_operation_of_wrong_rank_suggests_right_one(family: str, end: str, rank: int) -> None:
    right, given = RANKS[rank]
    call = f"{family}{end}({'4, ' * (family == 'conv')}3)"
    text = f"net n {{\n    input x: {given}\n    output y = x |> {call}\n}}\n"
    if end == right:
        elaborate(text)
        return
    with pytest.raises(ArchError) as caught:
        elaborate(text)
    (problem,) = caught.value.diagnostics
    assert problem.hint is not None
    batch = end == "" and rank == 4
    assert ("no axis for the batch" if batch else f"`{family}{right}` takes ") in problem.hint


STATEMENTS = {
    "x = x; y = x": "statements end with the line",
    "x = x |> conv(8, padding='valid')": 'strings are written "like this"',
    "x = x |> conv(8, padding=\u201cvalid\u201d)": 'strings are written "like this"',
    'x = x |> conv(8, padding=f"valid")': "strings are plain",
    "x = x |> conv(8 \u2013 3)": "this is a dash",
    "x = x |> relu // rectified": "comments begin with `#`",
    "x = x // rectified": "comments begin with `#`",
    "// rectified": "comments begin with `#`",
    "x = x /* rectified */": "comments begin with `#`",
    "/* rectified */": "comments begin with `#`",
    '"""Rectified."""': "comments begin with `#`",
    "x = x | relu": "write `|>` for a pipe",
    "x = x -> relu": "write `|>` for a pipe",
    "x = x >> relu": "write `|>` for a pipe",
    "x = x if width == 8 && width < 9 else x |> relu": "write `and`",
    "x = x if width == 8 || width < 9 else x |> relu": "write `or`",
    "x = x if !(width == 8) else x |> relu": "write `not`",
    "x = x if width <> 8 else x |> relu": "write `!=`",
    "x = x if width === 8 else x |> relu": "comparison is `==`",
    "x = x if width = 8 else x |> relu": "comparison is `==`",
    "x = x if width is 8 else x |> relu": "comparison is `==`",
    "x = x if width == 8": "`a if condition else b`",
    "x = width == 8 ? x : x |> relu": "`a if condition else b`",
    "if width = 8 { x = x |> relu }": "comparison is `==`",
    "require width = 8": "comparison is `==`",
    "if width == 8: x = x |> relu": "bodies stand in braces",
    "if width == 8": "bodies stand in braces",
    "if width == 8 { x = x } elif width == 3 { x = x |> relu }": "} else if",
    "if width == 8 { x = x } else width == 3 { x = x |> relu }": "} else if",
    "for i in 0..3:": "bodies stand in braces",
    "for i in 0:3 { x = x |> relu }": "a range is `0..3`",
    "for i in 0 to 3 { x = x |> relu }": "a range is `0..3`",
    "for i in 0...3 { x = x |> relu }": "`0..3` is 0, 1, 2",
    "for i in 0..=3 { x = x |> relu }": "`0..3` is 0, 1, 2",
    "for i = 0..3 { x = x |> relu }": "`for i in 0..3 { ... }`",
    "for (i in 0..3) { x = x |> relu }": "`for i in 0..3 { ... }`",
    "for i in range(3) { x = x |> relu }": "a range is `0..n`",
    "for i in 3 { x = x |> relu }": "write `0..n`",
    "while true { x = x |> relu }": "loops are `for i in 0..3 { ... }`",
    "repeat 3 times { x = x |> relu }": "`repeat 3 as i { ... }`",
    "x += x": "write `x = x + 1`",
    "x := x": "write `=` alone",
    "x == x": "comparisons stand in conditions",
    "x = x |> conv(8) + x": "`(x |> relu) + y`",
    "y = [x |> relu * 2]": "`(x |> relu) + y`",
    "x = x |> conv 8": "`conv(8)`",
    "k = choose k in (3, 5)": "`choose width(8, 16)`",
    "for (i, j) in [(1, 2)] { x = x |> relu }": "`for i, j in pairs { ... }`",
    "x = 1 - x": "write `-x + 1`",
    "x = x |> linear(8)": "`global_avg_pool`, `flatten` or `to_tokens`",
    'y = "width" + width': "`str` makes a string of a number",
    "xs = [x, x] * 3": "`[a for i in 0..3]`",
    "width++": "write `x = x + 1`",
    "let y = x": "write `x = ...`",
    "y := x": "write `=` alone: `y = x |> relu`",
    "y: int = 3": "values have no types",
    "y = z = x": "one value",
    "x |> relu": "a statement gives a value a name",
    "relu(x)": "a statement gives a value a name",
    "print(x)": "nothing to print",
    "assert width == 8": "`require condition`",
    "pass": "no such statement",
    "xs.append(x)": "nothing is changed in place",
    "x[0] = x": "nothing is changed in place",
    "def f(x) {": "outside of nets",
    "block f(x) { return x }": "outside of nets",
    "import std.gates": "at the top of the file",
    "const A = 3": "at the top of the file",
    "for = x": "`for` is a keyword",
    "f = lambda y: y |> relu": "write a `block`",
    "d = {1: x}": "no dictionaries",
    "y = x[0, 1]": "one index at a time",
    "y = x[0:3:2]": "no steps",
    "y = x |> conv(8 3)": "comma",
    "y = x |> conv(8 kernel=3)": "comma",
    "y = x |> conv(8, kernel: 3)": "`name=value`",
    "y = x |> conv(*[8, 3])": "write each",
    "y = x |> conv(2^3)": "a power is `2 ** 3`",
    "y = x |> scale(.5)": "write `0.5`",
    "y = x |> scale(5.)": "write `5.0`",
    "y = x @ x": "matmul",
    "y = x +": "a line goes on inside of brackets",
    "y = x \\": "a line goes on inside of brackets",
    "+ x": "a line goes on inside of brackets",
    "y = x |> choose op { a = relu, b = gelu }": "`name: value`",
    "y = x |> choose op { a => relu, b => gelu }": "`name: value`",
    'y = x |> choose op { "a": relu, "b": gelu }': "names",
    "y = x |> choose op { 3x3: relu }": "names",
    "y = x |> choose op [relu, gelu]": "write `choose width(8, 16)`",
    "y = x |> choose @tag op { a: relu }": "tags follow the label",
    "w = choose w in [8, 16]": "write `choose width(8, 16)`",
    "y = x |> conv(choose(8, 16))": "write a label",
    "y = match width { case 8 => x, else => x }": "`value => result`",
    "y = match width { 8: x, else: x }": "`value => result`",
    "y = match width { 8 => x, _ => x }": "`else => ...`",
    "y = match width { 8 => x, default => x }": "`else => ...`",
    "input more": "`input image: f32[3, 32, 32]`",
    "input more = 3": "`input image: f32[3, 32, 32]`",
    "input more: [3, 8, 8]": "`input image: f32[3, 32, 32]`",
    "input more: f32(3, 8, 8)": "`input image: f32[3, 32, 32]`",
    "input more: float32[3, 8, 8]": "did you mean `f32`?",
    "output x |> relu": "`output logits = x`",
    "return x": "`output logits = x`",
    "y = x.conv(8)": "`x |> conv`",
    "y = x.view(-1)": "write `reshape(shape)`",
    "y = x.size(0)": "write `x.shape`",
    "y = x.H": "write `x.height`",
    "y = x |> nn.Conv2d(8)": "did you mean `conv`?",
    "y = x |> Conv2d(8)": "did you mean `conv`?",
    "y = x |> ReLU": "did you mean `relu`?",
    "y = x |> BatchNorm2d": "did you mean `batch_norm`?",
    "y = x |> MaxPool2d(2)": "did you mean `max_pool`?",
    "y = x |> Linear(2)": "did you mean `linear`?",
    "y = x |> GELU": "did you mean `gelu`?",
    "y = x |> Softmax": "did you mean `softmax`?",
    "y = x |> Flatten": "did you mean `flatten`?",
    "y = x |> AdaptiveAvgPool2d": "global_avg_pool",
    "y = F.relu(x)": "write `relu`",
    "y = torch.cat(x, x)": "write `concat(a, b)`",
    "y = x |> interpolate(2)": "or `upsample(factor)`",
    "y = x |> conv_transpose2d(8)": "write `conv_transpose(channels, kernel, stride)`",
    "y = x |> conv(8, bias=False)": "write `false`",
    "y = None": "write `none`",
    "y = x |> se(4)": "`import std.gates`",
    "y = x |> gates.se(4)": "`import std.gates as gates`",
    "y = x |> std.gates.se(4)": "`import std.gates`",
    "y = x |> squeezd(4)": "`squeezed`, of `import std.gates`",
    "y = x |> conv(out_channels=8)": "did you mean `channels`?",
    "y = x |> conv(8, kernel_size=3)": "did you mean `kernel`?",
    "y = x |> conv(8, in_channels=3)": "drop it",
    "y = x |> dropout(p=0.5)": "did you mean `rate`?",
    "y = x |> softmax(dim=0)": "did you mean `axis`?",
    "y = x > relu": "`x |> relu`",
    "y = x + relu": "`x |> relu`",
    "y = [conv(8), relu]": "`x |> conv(...)`",
    "y = conv(8, x)": "`x |> conv(...)`",
    "y = x(3)": "`x |> relu`",
    "y = x |> 3": "`x * 2`",
    "ys = [relu, gelu](0)": "`items[0]`",
}  # fmt: skip

ITEMS = {
    "def f(x) { return x }": "did you mean `block`?",
    "class f(x) { return x }": "did you mean `block`?",
    "blok f(x) { return x }": "did you mean `block`?",
    "block f x { return x }": "`block name(x, width = 8) { ... }`",
    "block f(x):": "bodies stand in braces",
    "block f(x)": "bodies stand in braces",
    "block f(x) = x |> relu": "bodies stand in braces",
    "block f(x) -> tensor { return x }": "not declared",
    "block f(x: tensor) { return x }": "only inputs have types",
    "net f(width: int = 3) { }": "only inputs have types",
    "from std.gates import se": "write `import std.gates`",
    "import std.gates, std.resnet": "write `import std.gates`",
    "import std/gates": "write `import std.gates`",
    "import std.gate": "did you mean `std.gates`?",
    "import gates": "did you mean `std.gates`?",
    "import torch": "there are std.attention",
    "WIDTH = 8": "`const NAME = 8`",
    "let WIDTH = 8": "`const NAME = 8`",
    "output y = x": "statements stand in a net",
    "}": "closes no `{`",
}


def said(text: str) -> tuple[int, str]:
    with pytest.raises(ArchError) as caught:
        elaborate(text, "tiny.arch", net="tiny")
    problem = caught.value.diagnostics[0]
    assert problem.span is not None
    return problem.span.line, str(problem)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_foreign_statement_gets_hint_at_its_line(statement: str) -> None:
    line, text = said(IN_A_NET.format(statement=statement))
    assert STATEMENTS[statement] in text
    assert line == 4


@pytest.mark.parametrize("statement", ["x = 4 $ 3", "x = [1, $ 2]", "if x $ {", "x = match width { 8 => 2 $ }"])
def test_stray_character_gets_no_hint(statement: str) -> None:
    with pytest.raises(ArchError) as caught:
        elaborate(IN_A_NET.format(statement=statement))
    problem = caught.value.diagnostics[0]
    assert (problem.message, problem.hint) == ("unexpected `$`", None)


@pytest.mark.parametrize(
    ("statement", "hint"),
    {
        "output": "`output logits = x`",
        "output z: x": "`output logits = x`",
        "output z = x |> relu + x": "(x |> relu) + y",
        "output z = x $": None,
        "input z f32[3]": "`input image: f32[3, 32, 32]`",
        "input z: [3]": "`input image: f32[3, 32, 32]`",
        "input z: f32(3)": "`input image: f32[3, 32, 32]`",
        "input z: f32[3] = x": None,
    }.items(),
)
def test_input_and_output_lines_get_hint_about_their_error(statement: str, hint: str | None) -> None:
    with pytest.raises(ArchError) as caught:
        elaborate(IN_A_NET.format(statement=statement))
    found = caught.value.diagnostics[0].hint
    assert found is None if hint is None else hint in (found or "")


@pytest.mark.parametrize("item", ITEMS)
def test_foreign_top_level_item_gets_hint_at_its_line(item: str) -> None:
    line, text = said(f"const BEFORE = 1\n{item}\n\n{IN_A_NET.format(statement='')}")
    assert ITEMS[item] in text
    assert line == 2
