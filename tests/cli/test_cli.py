"""The archir command line: output, exit codes, JSON forms and error messages."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from archir.api.progress import remaining
from archir.cli import main
from archir.cli.commands import COMMAND_GROUPS, COMMANDS
from archir.cli.doctor import Finding, findings
from archir.diagnostics.errors import Interrupted
from archir.diagnostics.work import current_budget
from archir.ir.reader import parse_graph
from archir.plugins.registry import import_all
from tests.conftest import EXAMPLES, ROOT

NET = "net.arch"
TINY = """
net tiny() {
    input image: f32[1, 8, 8]
    output logits = image |> conv(2) |> relu |> global_avg_pool |> linear(10)
}
"""
SPACE = str(EXAMPLES / "full_attention" / "full_attention.arch")


def run(*arguments: str, code: int = 0, text: str | None = None) -> Result:
    result = CliRunner().invoke(main, arguments, input=text, catch_exceptions=False)
    assert result.exit_code == code, result.output + result.stderr
    return result


WIDTH, HEIGHT = 100, 60
"""Columns and lines into which every help text fits."""
WITHOUT_JSON = {"new", "sample", "studio", "lsp", "mcp", "grammar", "completion"}
"""Commands without --json: what they print is JSON, a grammar or a script already, or nobody reads it."""


def commands_by_path() -> dict[str, click.Command]:
    """Return each command by its name, and each subcommand as `latency fit`."""
    context, commands = click.Context(main), {}
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        parts = command.commands if isinstance(command, click.Group) else {}
        commands |= {f"{name} {part}": subcommand for part, subcommand in parts.items()} if parts else {name: command}
    return commands


PATHS = commands_by_path()


def help_text(*words: str, width: int = WIDTH) -> str:
    done = CliRunner().invoke(main, [*words, "--help"], prog_name="archir", terminal_width=width - 2)
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize("words", [[], *([command] for command in COMMANDS), *map(str.split, PATHS)], ids=" ".join)
def test_every_help_fits_on_a_screen(words: list[str]) -> None:
    lines = help_text(*words).splitlines()
    assert len(lines) <= HEIGHT
    assert max(map(len, lines)) <= WIDTH
    assert not any("RANGE" in line or "<=x" in line or "4611686018427387904" in line for line in lines)


@pytest.mark.parametrize("command", PATHS)
def test_every_command_has_examples_with_options_that_exist(command: str) -> None:
    """An example is a line of the help; two spaces or more stand before what it does."""
    lines = [re.split("  +", line.strip())[0] for line in help_text(*command.split()).splitlines()]
    examples = [
        found[1] for line in lines if (found := re.match(rf'(?:eval "\$\()?archir {command}\b(.*?)(?:\)"|$)', line))
    ]
    assert examples
    context = click.Context(main, info_name="archir")
    for example in examples:
        words = [word for word in shlex.split(example) if word not in ("--plugin", ">")]
        PATHS[command].make_parser(click.Context(PATHS[command], parent=context)).parse_args(words)


def test_programs_can_read_the_output_of_every_command() -> None:
    without = {name for name, each in PATHS.items() if not any("--json" in param.opts for param in each.params)}
    assert without == WITHOUT_JSON


def test_help_lists_all_commands_in_six_groups() -> None:
    lines = help_text(width=80).splitlines()
    groups: dict[str, list[str]] = {}
    for line in lines:
        if line.endswith(":") and not line.startswith(" "):
            group = groups.setdefault(line[:-1], [])
        elif groups and re.match(r"  \w", line):
            group.append(line.split()[0])
    del groups["Options"]
    assert groups == {name: list(commands) for name, commands in COMMAND_GROUPS.items()}
    assert len(groups) == 6
    assert next(iter(groups.values()))[:2] == ["new", "check"]
    assert lines.index("Write a space:") <= 10


def test_exit_codes_of_help_are_those_of_the_documentation() -> None:
    page = (ROOT / "docs" / "commands.md").read_text("utf-8")
    assert re.findall(r"\d+", help_text().splitlines()[-1]) == re.findall(r"^\| (\d+) \|", page, re.MULTILINE)


def test_help_is_coloured_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = help_text("search")
    monkeypatch.setattr("archir.cli.help_format.has_colours", lambda stream: True)
    result = CliRunner().invoke(main, ["search", "--help"], prog_name="archir", terminal_width=WIDTH - 2, color=True)
    assert "\x1b[1mOptions:\x1b[0m" in result.output
    assert "\x1b[36m--resume DIRECTORY\x1b[0m" in result.output
    assert "\x1b[32marchir search --resume runs/darts\x1b[0m\x1b[2m     " in result.output
    assert click.unstyle(result.output) == plain


def test_check_prints_nodes_and_choices_of_net() -> None:
    assert "full_attention: 1,003 nodes, 15 choices: every architecture is well-formed" in run("check", SPACE).output
    data = json.loads(run("check", SPACE, "--json").output)
    assert data["nets"] == [{"file": SPACE, "net": "full_attention", "nodes": 1003, "choices": 15}]


def test_check_prints_errors_to_stderr_and_exits_with_one(tmp_path: Path) -> None:
    file = tmp_path / "bad.arch"
    file.write_text("net bad {\n    input x: f32[3]\n    output y = x |> linaer(3)\n}\n")
    result = run("check", str(file), code=1)
    assert result.stdout == ""
    assert "bad.arch:3:21: error[A0201]: there is no `linaer`" in result.stderr
    assert "hint: did you mean `linear`?" in result.stderr
    data = json.loads(run("check", str(file), "--json", code=1).stdout)
    assert data["diagnostics"][0] | {"file": ""} == {
        "code": "A0201",
        "severity": "error",
        "message": "there is no `linaer`",
        "file": "",
        "line": 3,
        "column": 21,
        "hint": "did you mean `linear`?",
        "notes": [],
        "edit": {"old": "linaer", "new": "linear"},
    }


@pytest.mark.parametrize(("command", "suffix"), [("cost", "arch"), ("search", "toml"), ("study", "toml")])
def test_missing_file_is_reported_with_a_similar_name(command: str, suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"network.{suffix}").write_text(TINY)
    said = run(command, str(tmp_path / f"netwrok.{suffix}"), code=1).stderr
    assert f"netwrok.{suffix}: No such file or directory\n  hint: did you mean `network.{suffix}`?" in said
    assert "hint" not in run(command, str(tmp_path / f"other.{suffix}"), code=1).stderr


def test_check_takes_several_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for name, width in (("a", 4), ("parts/b", 8)):
        (tmp_path / f"{name}.arch").write_text(f"net n {{\n input x: f32[{width}]\n output y = x |> relu\n}}\n")
    several = run("check", str(tmp_path), SPACE, "--json")
    nets = [(Path(net["file"]).name, net["net"]) for net in json.loads(several.output)["nets"]]
    assert nets == [("a.arch", "n"), ("b.arch", "n"), ("full_attention.arch", "full_attention")]
    (tmp_path / "a.arch").write_text("net n {\n output y = z\n}\n")
    (tmp_path / "empty").mkdir()
    mixed = run("check", str(tmp_path / "empty"), str(tmp_path / "a.arch"), str(tmp_path / "parts"), code=1)
    assert "b.arch: net n: 2 nodes" in mixed.output  # the others are checked all the same
    assert [said for said in ("A0801", "a.arch:2:", "A0201", "problems; `archir") if said not in mixed.stderr] == []


def test_every_file_has_a_budget_of_its_own() -> None:
    """What is enough for a file is enough for as many as there are."""
    file = str(EXAMPLES / "resnet50.arch")
    checked = run("check", file, file, file, "--max-work", "400000")
    assert checked.stdout.count("every architecture is well-formed") == 3


def test_more_work_allows_larger_graphs() -> None:
    text = "net n {\n input x: f32[3]\n repeat 500_000 {\n x = x |> relu\n }\n output y = x\n}\n"
    for units, nodes in ((1000, 200_000), (16_000_000, 200_000), (32_000_000, 400_000)):
        said = run("check", "-", "--max-work", str(units), text=text, code=1).stderr
        assert f"A0601]: the graph has more than {nodes} nodes" in said
        assert "hint: raise the limit with --max-work UNITS" in said
    assert "A0602]: this exceeds the work limit" in run("check", SPACE, "--max-work", "1000", code=1).stderr


def test_command_usage_error_leaves_no_budget_behind() -> None:
    run("count", "examples/resnet50.arch", "one-too-many", code=2)
    run("diff", "examples/resnet50.arch", "examples/resnet50.arch", "-p", "no-value", code=2)
    assert current_budget().limit == float("inf")


def test_check_reads_standard_input_and_libraries() -> None:
    text = "net n {\n input x: f32[3]\n output y = x |> linear(2)\n}"
    assert "-: net n: 2 nodes" in run("check", "-", text=text).output
    assert "no nets; its names are fine" in run("check", "-", text="block f(x) {\n return x\n}").output
    assert "A0201" in run("check", "-", text="block f(x) {\n return z\n}", code=1).stderr


def test_check_looks_at_every_net_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "two.arch"
    body = "{{\n input x: f32[3]\n output y = x |> linear({})\n}}\n"
    file.write_text(f"net one {body.format(1)}net two {body.format(0)}")
    result = run("check", str(file), code=1)
    assert "`channels` must be at least 1, got 0" in result.stderr
    assert "net one: 2 nodes" in run("check", f"{file}:one").output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chek"], "there is no command 'chek'; did you mean `check`?"),
        (["lint"], "there is no command 'lint'; did you mean `check --lint`?"),
        (["visualise"], "there is no command 'visualise'; did you mean `show`?"),
        (["net.arch"], "there is no command 'net.arch'; name a command first: `archir check net.arch`"),
        (["dir/a.toml"], "name a command first: `archir search dir/a.toml`"),
        (["qqq"], "there is no command 'qqq'\n"),
        (["check", SPACE, "--lnit"], "No such option '--lnit'. Did you mean '--lint'?"),
        (["compile", SPACE, "--json"], "--json describes the files that -o writes: it needs -o FILE"),
        (["help"], "there is no command 'help'; write `archir --help`"),
        (["help", "check"], "there is no command 'help'; write `archir check --help`"),
        (["check"], "Missing argument 'FILE[:NET]...'"),
        (["check", SPACE, "-p", "channels"], "a parameter is written name=value"),
        (["check", SPACE, "-p", "channels=1+"], "`1+` is not a value"),
        (["cost", SPACE, "--arch", "a", "--seed", "1"], "--arch and --seed exclude each other"),
        (["compile", SPACE, "--seed", "0", "--to", "onnx"], "--to onnx needs -o FILE"),
        (["compile", SPACE, "--to", "onnx", "-o", "net.py"], "net.py is the name of another kind of file"),
        (["compile", SPACE, "--to", "torch", "-o", "net.onnx"], "that of this one ends in .py"),
        (["bench", SPACE, "--picture", "speed.png"], "--picture writes SVG: speed.png does not end in .svg"),
        (["train", SPACE], "Missing option '-o'"),
        (["bench", "net.pt2"], "net.pt2 is an exported model or weights file; name the network's .arch file"),
        (["cost", "net.onnx"], "net.onnx is an exported model or weights file; name the network's .arch file"),
    ],
)
def test_wrong_usage_exits_with_two(arguments: list[str], message: str) -> None:
    assert message in run(*arguments, code=2).stderr


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("check net.arch --limit=5", "No such option '--limit'; `--limit` is `--max-work` now, in units of work"),
        ("eval width net.arch", "there is no command 'eval'; `eval` is `print` now; for accuracy see "),
        ("compare study.toml -o out", "`compare STUDY.toml` is `study STUDY.toml` now, and `compare RUN RUN` compares"),
        ("runs a b --compare", "No such option '--compare'; `runs --compare` is `compare` now"),
        ("shrink net.arch --use 0.5", "No such option '--use'; `--use` is `--min-budget-fraction` now"),
        ("search a.toml --limit 5", "No such option '--limit'."),
    ],
)
def test_former_names_are_refused_with_the_current_one(line: str, hint: str) -> None:
    assert hint in run(*line.split(), code=2).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["sample", NET, "-o", "@/arch.json"],
        ["show", NET, "--format", "svg", "-o", "@/tiny.svg"],
        ["compile", NET, "--to", "torch", "-o", "@/net.py"],
        ["compile", NET, "--to", "onnx", "-o", "@/net.onnx"],
        ["compile", NET, "--to", "exported", "-o", "@/net.pt2"],
        ["train", NET, "--epochs", "1", "-o", "@/run"],
        ["bench", NET, "--picture", "@/speed.svg"],
        ["latency", "table", NET, "-o", "@/table.json"],
        ["quantize", "net.onnx", "-o", "@/int8.onnx"],
    ],
    ids=lambda arguments: " ".join(arguments[:1] + arguments[-1:]),
)
def test_rejects_output_path_below_a_file(arguments: list[str], tmp_path: Path) -> None:
    """Said at once, as a diagnostic."""
    (file := tmp_path / "file").write_text("kept")
    (tmp_path / "net.arch").write_text(TINY)
    given = [part.replace("@", str(file)).replace(NET, str(tmp_path / NET)) for part in arguments]
    said = run(*given, code=1).stderr
    assert f"error[A0809]: cannot write {file}/" in said
    assert f": {file} is not a folder\n" in said
    assert file.read_text() == "kept"


def test_count_prints_exact_number_of_architectures() -> None:
    assert "4,747,561,509,943" in run("count", SPACE).output
    data = json.loads(run("count", SPACE, "--json").output)
    assert data["size"] == 7**15
    assert "stage[0].layer[0].op" in run("count", SPACE, "--choices").output
    body = "input x: f32[3]\n a = choose a(1, 2, 3)\n require a > 1\n require params < 9\n output y = x |> linear(a)"
    text = f"net n {{\n {body}\n}}"
    output = run("count", "-", text=text).output
    assert "n: 3 architectures" in output
    assert "2 of them satisfy the requirements on choices" in output
    assert "1 of them have params < 9" in output


def test_sampled_architecture_is_read_by_cost(tmp_path: Path) -> None:
    arch = tmp_path / "arch.json"
    run("sample", SPACE, "--seed", "3", "-p", "channels=80", "-o", str(arch))
    data = json.loads(run("cost", SPACE, "--arch", str(arch), "--json").output)
    assert 1_744_730 <= data["params"] <= 1_755_650
    assert "1,7" in run("cost", SPACE, "--arch", str(arch)).output
    lines = run("sample", SPACE, "-n", "5").output.splitlines()
    assert len({json.dumps(json.loads(line)["choices"]) for line in lines}) == 5
    assert run("sample", SPACE, "--seed", "4").output == run("sample", SPACE, "--seed", "4").output
    assert "A1203" in run("compile", SPACE, "--to", "torch", code=1).stderr
    assert "13,654,656" in run("cost", SPACE).output


def test_cost_prints_published_resnet50_totals() -> None:
    table = run("cost", str(EXAMPLES / "resnet50.arch")).output
    assert "25,557,032" in table
    assert "4,089,184,256" in table


def test_shown_graph_parses_back() -> None:
    text = run("show", SPACE, "-P", "fold,cse", "--verify").output
    graph = parse_graph(text)
    assert len(graph.decisions) == 15
    assert json.loads(run("show", SPACE, "--seed", "0", "--json").output)["schema"] == 1
    assert "A0707" in run("show", SPACE, "-P", "flod", code=1).stderr


def test_compile_writes_torch_and_onnx(tmp_path: Path) -> None:
    assert "select" in run("compile", SPACE).output
    out = tmp_path / "net.py"
    assert "wrote" in run("compile", SPACE, "--seed", "0", "-p", "size=8", "--to", "torch", "-o", str(out)).output
    assert "class FullAttention(nn.Module):" in out.read_text()
    model = tmp_path / "net.onnx"
    output = run("compile", SPACE, "--seed", "0", "-p", "size=8", "--to", "onnx", "-o", str(model)).output
    assert "largest difference to torch" in output
    assert "as certified" in run("verify", str(model)).output
    assert "A0903" in run("compile", SPACE, "--seed", "0", "--to", "tensorflow", code=1).stderr


@pytest.mark.parametrize(
    ("output", "beginning"),
    [("net.onnx", None), ("net.py", b'"""The net'), ("net.json", b"{"), ("net.ir", b"net "), ("net.txt", b"net ")],
)
def test_output_suffix_selects_compiled_format(output: str, beginning: bytes | None, tmp_path: Path) -> None:
    path, net = tmp_path / output, tmp_path / "n.arch"
    net.write_text("net n {\n    input x: f32[3]\n    output y = x |> linear(2)\n}\n")
    run("compile", str(net), *(["--to", "ir"] if output == "net.txt" else []), "-o", str(path))
    if beginning is None:
        assert "as certified" in run("verify", str(path)).output
    else:
        assert path.read_bytes().startswith(beginning)


@pytest.mark.parametrize(
    ("output", "options", "text"),
    [
        ("net.onx", [], "mean `.onnx`?: name it .onnx (onnx), .py (torch), .pt2 (exported), .json (json), .ir (ir)"),
        ("net.txt", [], ".txt does not say what is to be written into"),
        ("net.pt", [], ", or give --to"),
        ("net", [], "has no suffix to say what is to be written"),
        ("net.onnx", ["--to", "ir"], "is the name of another kind of file, onnx; that of this one ends in .ir"),
        ("net.arch", ["--to", "ir"], "net.arch is the name of a program; that of this one ends in .ir"),
    ],
)  # fmt: skip
def test_compile_rejects_ambiguous_or_wrong_output_suffix(
    output: str, options: list[str], text: str, tmp_path: Path
) -> None:
    assert text in run("compile", NET, *options, "-o", str(tmp_path / output), code=2).stderr
    assert not list(tmp_path.iterdir())


def test_trained_network_is_exported_by_command(tmp_path: Path) -> None:
    space = tmp_path / "net.arch"
    space.write_text(
        "net net(classes = 10) {\n input image: f32[1, 8, 8]\n"
        " x = image |> conv(16) |> batch_norm |> relu |> conv(32, stride=2) |> batch_norm |> relu\n"
        " output logits = x |> flatten |> linear(classes)\n}\n"
    )
    folder, model = tmp_path / "run", tmp_path / "net.onnx"
    assert "A1101" in run("train", str(space), "--data", "nowhere", "-o", str(folder), code=1).stderr
    assert not folder.exists()
    result = run("train", str(space), "--epochs", "3", "--no-augment", "-o", str(folder))
    assert "epoch 3/3: loss" in result.stderr
    assert "held-out accuracy 9" in result.stdout
    assert json.loads((folder / "training.json").read_text())["accuracy"] > 0.95
    assert "A1204" in run("train", str(space), "--epochs", "3", "-o", str(folder), code=1).stderr
    output = run("export", str(folder), "-o", str(model)).output
    assert "largest difference to torch" in output
    data = json.loads(run("export", str(folder), "-o", str(model), "--opset", "21", "--json").output)
    assert data["relative"] < 1e-4
    compared = run("export", str(folder), "-o", str(model), "--no-verify", "--json").output
    assert '"absolute": null' in compared
    assert "NaN" not in compared
    for to, name in (("python", "net.onnx"), ("onnx", "net.py"), ("onnx", "net.pt2"), ("aot", "net.onnx")):
        said = run("export", str(folder), "--to", to, "-o", str(tmp_path / name), code=2).stderr
        assert f"ends in {({'python': '.py', 'onnx': '.onnx', 'aot': '.pt2'})[to]}" in said
    (folder / "training.json").rename(tmp_path / "kept")
    assert (
        "is not finished\n  hint: repeat the command that started it, with --resume"
        in run("export", str(folder), "-o", str(model), code=1).stderr
    )
    (tmp_path / "kept").rename(folder / "training.json")
    (folder / "weights.safetensors").write_bytes(b"changed")
    assert "A1205" in run("export", str(folder), "-o", str(model), code=1).stderr
    said = run("export", str(tmp_path), "-o", str(model), code=1).stderr
    assert f"not a training folder: it has no network.json\n  hint: name a run, such as {folder}\n" in said
    said = run("export", str(tmp_path / "none"), "-o", str(model), code=1).stderr
    assert f"A1205]: there is no folder {tmp_path / 'none'}\n" in said
    few = run("train", str(space), "-p", "classes=3", "-o", str(tmp_path / "few"), code=1)
    assert "A1108" in few.stderr
    assert "hint: try -p classes=10" in few.stderr
    assert "A1109" in run("train", str(space), "--epochs", "0", "-o", str(tmp_path / "none"), code=1).stderr


def test_interrupted_training_resumes_to_same_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from archir_torch.search.single import _NetworkTrainer

    space = tmp_path / "net.arch"
    space.write_text("net net {\n input x: f32[1, 8, 8]\n output y = x |> flatten |> dropout(0.1) |> linear(10)\n}\n")
    options = ("train", str(space), "--epochs", "2", "-o")
    run(*options, str(tmp_path / "whole"))
    step = _NetworkTrainer.step

    def stopped(network: _NetworkTrainer, index: int) -> object:
        if index == 30:
            os.kill(os.getpid(), signal.SIGINT)
        return step(network, index)

    with monkeypatch.context() as patched:
        patched.setattr(_NetworkTrainer, "step", stopped)
        result = run(*options, str(tmp_path / "parted"), code=130)
    again = shlex.join([*options, str(tmp_path / "parted"), "--resume"])
    assert result.stderr.endswith(f"training was stopped after epoch 2, step 8; resume it with `archir {again}`\n")
    run(*shlex.split(again))
    whole, parted = ((tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "parted"))
    assert whole == parted


@pytest.mark.parametrize(
    ("work", "line"),
    [
        ("archir.api.searching.specialize", "specialize run --where 'macs <= 0.5x' -o out"),
        ("archir.cli.shrink.shrink", "shrink net.arch --weights a.json --budget 'macs <= 0.5x' -o out"),
        ("archir.studies.run.run_study", "study study.toml -o out"),
    ],
)
def test_interruption_message_repeats_the_command(
    work: str, line: str, places: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise Interrupted("it was stopped")

    monkeypatch.setattr(work, stopped)
    (tmp_path / "study.toml").write_text(
        'task = [{ name = "a", space = "a.arch", table = "a.csv" }]\nstrategy = [{ name = "a", strategy = "random" }]\n'
    )
    known = places | {"study.toml": str(tmp_path / "study.toml"), "run": str(tmp_path)}
    words = [known.get(word, word) for word in shlex.split(line)]
    assert run(*words, code=130).stderr.endswith(f"it was stopped; resume it with `{shlex.join(['archir', *words])}`\n")


def test_explain_prints_page_and_list_of_codes() -> None:
    assert run("explain", "a0401").output.startswith("# A0401: shapes do not fit")
    assert "A0601  too many nodes" in run("explain").output
    assert "A1201" in run("explain", "A9999", code=1).stderr


def test_doctor_finds_nothing_wrong_here() -> None:
    import_all("archir_torch.importing")  # registers partial functions, too
    found = {finding.what: finding for finding in findings() if finding.source in ("", "archir")}
    assert found["backend torch"].value == found["backend onnx"].value == "found"
    everything, short = run("doctor", "--all").stdout, run("doctor").stdout
    assert len(short.splitlines()) <= 20
    assert "local_attention" in everything
    assert "local_attention" not in short
    assert f"{found['operations'].value.count(', ') + 1} operations, " in short
    assert f"torch {found['torch'].value}, numpy {found['numpy'].value}, " in " ".join(short.split())
    assert any(row["what"] == "torch" for row in json.loads(run("doctor", "--json").output))


def test_doctor_reports_conflicting_onnxruntime_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archir.cli.doctor._version", lambda name: "1.0")
    trouble = [finding for finding in findings() if finding.problem]
    cure = "the second overwrote the first: pip uninstall -y onnxruntime onnxruntime-gpu, then install one of them"
    assert Finding("onnxruntime packages", "both installed", cure) in trouble
    assert run("doctor", code=1).exit_code == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_printed_for_each_shell(shell: str) -> None:
    assert "_ARCHIR_COMPLETE" in run("completion", shell).output


def test_no_color_variable_disables_terminal_colors(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "archir", "check", str(tmp_path / "none.arch")],
        capture_output=True,
        text=True,
        env={"NO_COLOR": "1", "PYTHONPATH": ":".join(str(ROOT / name) for name in ("", "backends", "grammar"))},
    )
    assert done.returncode == 1
    assert "\x1b" not in done.stderr
    assert "none.arch: No such file or directory" in done.stderr


def test_operating_system_errors_become_diagnostics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = tmp_path / "net.arch"
    net.write_text("net n {\n    input x: f32[3]\n    output y = x |> relu\n}\n")
    refused = run("compile", str(net), "--to", "torch", "-o", str(net / "net.py"), code=1)
    assert "error[A0809]: " in refused.stderr
    assert str(net) in refused.stderr

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "/somewhere/file")

    monkeypatch.setattr("archir.api.loading.graph", full)
    assert "error[A1206]: /somewhere/file: No space left" in run("compile", str(net), code=1).stderr


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """A net, a space, two architectures of it and an ONNX model."""
    (tmp_path / NET).write_text(TINY)
    space = TINY.replace("relu |>", "choose op(relu, gelu) |>")
    (tmp_path / "space.arch").write_text(space)
    found = {name: str(tmp_path / name) for name in (NET, "space.arch", "a.json", "b.json", "net.onnx", "out")}
    for seed, name in enumerate(("a.json", "b.json")):
        run("sample", found["space.arch"], "--seed", str(seed), "-o", found[name])
    run("compile", found[NET], "--to", "onnx", "-o", found["net.onnx"])
    return found


WITHOUT_EFFECT = [
    ("show net.onnx --format html -o out", "ONNX models cannot be drawn"),
    ("show net.onnx --depth 2", "--depth only applies to nets"),
    ("show net.onnx -p width=3", "-p only applies to nets"),
    ("show net.arch --depth 2", "--depth only applies to pictures"),
    ("show net.arch --verify", "--verify checks the graph after passes"),
    ("show net.arch --json --format svg", "exclude each other"),
    ("compile net.arch --init-seed 3", "--init-seed only applies to networks with weights"),
    ("compile net.arch --weights a.json", "--weights only applies to networks with weights"),
    ("cost net.arch --data digits", "--data only applies to proxies"),
    ("cost space.arch --depth 2", "--depth only applies to parts"),
    ("sample space.arch --batch 8", "--batch only applies to proxies"),
    ("diff a.json b.json --max-work 5", "--max-work is for the space"),
    ("bench net.onnx --arch a.json", "--arch only applies to nets"),
    ("search a.toml --fall-back", "--fall-back needs --resume"),
    ("search", "name a recipe, or a run to --resume"),
    ("search a.toml --resume run", "name a recipe, or a run to --resume"),
    ("search --resume run -o other", "-o is only for new runs"),
    ("search a.toml --set epochs", "--set takes KEY=VALUE"),
    ("search a.toml --set a..b=1", "--set takes KEY=VALUE"),
    ("sample space.arch --seed -1", "-1 is less than 0, the minimum"),
    ("cost space.arch --seed 99999999999999999999999", "is more than 4611686018427387904, the maximum"),
    ("cost space.arch --arch a.json --where params>=1", "--where only applies to spaces"),
    ("cost space.arch --arch a.json --distribution params", "--arch cannot be combined with --distribution"),
    ("cost space.arch --seed 1 --alternatives params", "--seed cannot be combined with --alternatives"),
    ("cost space.arch -n 2 --alternatives params", "-n cannot be combined with --alternatives"),
    ("cost space.arch -n 2 --by scope", "--by cannot be combined with -n"),
    ("cost space.arch -n 999999999999999999999", "is more than 1000000, the maximum"),
    ("sample space.arch -n 999999999999999999999", "is more than 1000000, the maximum"),
    ("sample space.arch --by naswot --at-least nan", "nan is not a finite number"),
    ("quantize net.onnx -o out --max-loss nan", "nan is not a finite number"),
    ("bench net.onnx --seconds inf", "inf is not a finite number"),
    ("check net.arch --root nowhere", "does not exist"),
    ("train net.arch -o out --optimizer AdamW", "did you mean `adamw`?"),
    ("train net.arch -o out --precision float16", "'float16' is not one of 'auto', 'float32', 'bf16'; did you mean"),
    ("bench net.arch --on onnxruntime", "did you mean `onnxruntime-cpu`?"),
    ("sample space.arch --seed abc", "'abc' is not an integer"),
]


@pytest.mark.parametrize(("line", "said"), WITHOUT_EFFECT, ids=[line for line, _ in WITHOUT_EFFECT])
def test_options_without_effect_are_rejected(places: dict[str, str], line: str, said: str) -> None:
    result = run(*(places.get(word, word) for word in line.split()), code=2)
    assert said in " ".join(result.stderr.split())
    assert not Path(places["out"]).exists()


def test_command_documentation_shows_no_none_ranges() -> None:
    assert "None" not in (ROOT / "docs" / "commands.md").read_text("utf-8")


@pytest.mark.parametrize(
    "line",
    [
        "show net.arch -o ",
        "sample space.arch -o ",
        "compile net.arch -o ",
        "fmt --check ",
        "runs ",
        "train net.arch -o ",
    ],
)
def test_empty_paths_are_rejected(places: dict[str, str], line: str) -> None:
    """The empty one is what an unset variable of a shell leaves, and not the folder in which archir runs."""
    assert "the path is empty" in run(*(places.get(word, word) for word in line.split(" ")), code=2).stderr


def test_seeded_cost_sample_keeps_where_bound(places: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "wide.arch").write_text(TINY.replace("relu |>", "conv(choose width(4, 8)) |>"))
    wide = str(tmp_path / "wide.arch")
    least = json.loads(run("cost", wide, "--json").stdout)["extremes"]["params"][0]
    for seed in range(8):
        said = run("cost", wide, "--seed", str(seed), "--where", f"params <= {least}", "--json").stdout
        assert json.loads(said)["params"] == least


@pytest.mark.parametrize(
    ("options", "wanted"), [([], "opset: "), (["--json"], '"opset"'), (["--format", "json"], '"opset"')]
)
def test_shown_model_facts_are_written_to_file(places: dict[str, str], options: list[str], wanted: str) -> None:
    shown = run("show", places["net.onnx"], *options).stdout
    assert wanted in shown
    assert "wrote" in run("show", places["net.onnx"], *options, "-o", places["out"]).stdout
    assert Path(places["out"]).read_text() == shown


def test_counts_of_one_are_singular(tmp_path: Path) -> None:
    path = tmp_path / "one.arch"
    path.write_text("net n {\n input x: f32[4]\n a = choose a(1)\n output y = x\n}\n")
    for command, said in (("check", "1 node, 1 choice:"), ("count", "1 architecture, 1 choice")):
        result = CliRunner().invoke(main, [command, str(path)])
        assert result.exit_code == 0, result.output
        assert said in result.output


@pytest.mark.parametrize(
    ("seconds", "epochs", "text"),
    [
        (2.0, 0, ""), (0.1, 2, ", about 1 s left"), (4.0, 5, ", about 20 s left"), (30.0, 10, ", about 5.0 min left"),
        (120.0, 20, ", about 40 min left"), (1800.0, 5, ", about 2.5 h left"),
    ],
)  # fmt: skip
def test_remaining_training_time_is_formatted(seconds: float, epochs: int, text: str) -> None:
    assert remaining(seconds, epochs) == text


def test_costs_may_be_named_in_single_quotes(tmp_path: Path) -> None:
    (tmp_path / "net.arch").write_text("net n { input x: f32[4]\n output y = x |> linear(3) }")
    said = [run("cost", str(tmp_path / "net.arch"), "--cost", f"weight_bytes({q}int8{q})").stdout for q in "'\""]
    assert said[0] == said[1]
    assert "weight_bytes" in said[0]
