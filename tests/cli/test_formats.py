"""Machine-readable output of `check` and `fmt`: JSON, SARIF, GitHub annotations."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from archir.cli import main
from archir.cli.diagnostic_formats import SourcePaths, github, sarif
from archir.diagnostics.errors import Diagnostic, Note, Source, Span
from archir.diagnostics.escaping import escape_unprintable
from archir.diagnostics.explain import title

BLOCK = "block layer(x, width) {\n    return x |> conv(wdith) |> relu\n}\n"
NET = """import "parts/a.arch"
import std.attention

net s(width = 8) {
    input image: f32[3, 8, 8]
    x = image |> layer(width) |> relux
    output y = x |> conv(10) |> local_self_attention(kernel=3, heads=4)
}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a net and a block in two files, with mistakes in both."""
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "nets, 100%"
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "a.arch").write_text(BLOCK)
    (folder / "s.arch").write_text(NET)
    return folder


def run(*arguments: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == code, result.output + result.stderr
    return result


def annotations(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Workflow commands as GitHub's runner reads them."""
    found = []
    for line in text.splitlines():
        word, facts, data = re.fullmatch(r"::(\w+) (.*?)::(.*)", line).groups()  # type: ignore[union-attr]
        named = dict(fact.split("=", 1) for fact in facts.split(","))
        found.append((word, {name: _plain(value) for name, value in named.items()}, _plain(data)))
    return found


def _plain(text: str) -> str:
    for code, char in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        text = text.replace(code, char)
    return text


def test_annotations_name_the_file_of_each_error(project: Path) -> None:
    found = annotations(run("check", "nets, 100%/s.arch", "--format", "github", code=1).stdout)
    places = [(facts["file"], facts["line"], facts["col"], facts["endColumn"]) for _, facts, _ in found]
    assert places == [("nets, 100%/parts/a.arch", "2", "22", "27"), ("nets, 100%/s.arch", "6", "34", "39")]
    assert found[0][2] == "there is no `wdith`\nhint: did you mean `width`?"
    assert found[0][1]["title"] == "archir A0201"


def test_annotation_paths_are_relative_to_github_workspace(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.parent))
    monkeypatch.chdir(project / "parts")
    found = annotations(run("check", "a.arch", "--format", "github", code=1).stdout)
    assert [facts["file"] for _, facts, _ in found] == ["nets, 100%/parts/a.arch"]


@given(message=st.text(min_size=1), name=st.text(min_size=1), line=st.integers(0, 3))
def test_annotation_is_one_line_with_full_message(message: str, name: str, line: int) -> None:
    source = Source(name, "a\nb\nc\nd\n")
    one = Diagnostic("A0201", message, Span(source, 2 * line, 2 * line + 1), severity="warning")

    class There(SourcePaths):
        def _find_path(self, source: Source) -> str | None:
            return source.name

    (said,) = github([one], There())
    assert len(said.split("\n")) == 1 == len(said.split("\r"))
    _, facts, data = re.fullmatch(r"::(\w+) (.*?)::(.*)", said, re.DOTALL).groups()  # type: ignore[union-attr]
    assert _plain(data) == escape_unprintable(message)
    named = dict(fact.split("=", 1) for fact in facts.split(","))
    assert (_plain(named["file"]), named["line"]) == (name, str(line + 1))


def test_sarif_has_rules_locations_and_fixes(project: Path) -> None:
    log = json.loads(run("check", "nets, 100%/s.arch", "--format", "sarif", code=1).stdout)
    (one,) = log["runs"]
    assert (log["version"], one["tool"]["driver"]["name"]) == ("2.1.0", "archir")
    assert [(rule["id"], rule["shortDescription"]["text"]) for rule in one["tool"]["driver"]["rules"]] == [
        ("A0201", title("A0201"))
    ]
    first = one["results"][0]
    assert (first["ruleId"], first["ruleIndex"], first["level"]) == ("A0201", 0, "error")
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "nets%2C%20100%25/parts/a.arch", "uriBaseId": "%SRCROOT%"}
    (change,) = first["fixes"][0]["artifactChanges"]
    path = Path(unquote(change["artifactLocation"]["uri"]))
    (edit,) = change["replacements"]
    lines = path.read_text().splitlines()
    region = edit["deletedRegion"]
    text = lines[region["startLine"] - 1]
    assert text[region["startColumn"] - 1 : region["endColumn"] - 1] == "wdith"
    assert edit["insertedContent"]["text"] == "width"


def test_sarif_notes_are_related_locations_except_library_ones(project: Path) -> None:
    (project / "parts" / "a.arch").write_text(BLOCK.replace("wdith", "width"))
    (project / "s.arch").write_text(NET.replace("relux", "relu"))
    log = json.loads(run("check", "nets, 100%/s.arch", "--format", "sarif", code=1).stdout)
    (result,) = log["runs"][0]["results"]
    assert "std/attention.arch:10:9: in `local_self_attention`" in result["message"]["text"]
    assert "relatedLocations" not in result
    source = Source("nets, 100%/s.arch", (project / "s.arch").read_text())
    noted = Diagnostic("A0202", "twice", Span(source, 0, 6), notes=(Note("first\x1b here", Span(source, 22, 28)),))
    (result,) = sarif([noted], SourcePaths())["runs"][0]["results"]
    (related,) = result["relatedLocations"]
    assert related["message"] == {"text": r"first\x1b here"}
    assert related["physicalLocation"]["region"]["startLine"] == 2


def test_sarif_error_without_file_has_no_location(tmp_path: Path) -> None:
    log = json.loads(run("check", tmp_path / "none.arch", "--format", "sarif", code=1).stdout)
    (result,) = log["runs"][0]["results"]
    assert (result["ruleId"], result["locations"]) == ("A0801", [])
    wrong = CliRunner().invoke(main, ["check", "-", "--format", "github"], input=BLOCK)
    assert wrong.stdout.startswith("::error title=archir A0201::-:2")


def test_correct_file_gives_empty_report_in_every_format(tmp_path: Path) -> None:
    file = tmp_path / "a.arch"
    file.write_text("net a {\n    input x: f32[3]\n    output y = x\n}\n")
    assert json.loads(run("check", file, "--format", "sarif").stdout)["runs"][0]["results"] == []
    assert run("check", file, "--format", "github").output == ""
    assert run("check", file, "--format", "json").stdout == run("check", file, "--json").stdout
    assert json.loads(run("fmt", "--check", file, "--format", "json").stdout) == {"diagnostics": []}


def test_fmt_names_the_first_line_that_would_change(tmp_path: Path) -> None:
    file = tmp_path / "a.arch"
    text = "net a {\n    input x: f32[3]\n    output y =   x\n}\n"
    file.write_text(text)
    ((word, facts, said),) = annotations(run("fmt", "--check", file, "--format", "github", code=1).stdout)
    assert (word, facts["line"], said.splitlines()[1]) == ("error", "3", f"hint: `archir fmt {file}` formats it")
    file.write_text(text.replace("=   x", "= x") + "\n\n")
    (one,) = json.loads(run("fmt", "--check", file, "--format", "json", code=1).stdout)["diagnostics"]
    assert (one["code"], one["line"]) == ("A1208", 5)
    assert file.read_text().endswith("\n\n\n")
    assert "it needs --check, without --diff" in run("fmt", file, "--format", "github", code=2).stderr
    assert "exclude each other" in run("fmt", file, "--check", "--json", "--format", "github", code=2).stderr
