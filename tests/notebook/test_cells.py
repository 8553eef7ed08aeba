"""The `%%arch` cell magic in an IPython shell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import RichOutput, capture_output

import archir

BLOCKS = "block twice(x, width) {\n    y = x |> conv(width)\n    return y |> conv(width)\n}\n"
NET = """net small(width = 4) {
    input image: f32[1, 8, 8]
    x = image |> choose op { a: conv(width), b: conv(width, kernel=5) }
    output y = x
}
"""
USING = 'import "blocks.arch"\nnet user {\n    input image: f32[1, 8, 8]\n    output y = image |> twice(4)\n}\n'


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    made: Any = InteractiveShell.instance()
    made.history_manager.enabled = False
    made.run_line_magic("load_ext", "archir")
    yield made
    made.history_manager.end_session()
    InteractiveShell.clear_instance()


def run(shell: Any, line: str, cell: str) -> tuple[str, list[RichOutput]]:
    """What a cell prints, and what it displays."""
    with capture_output() as found:
        shell.run_cell_magic("arch", line, cell)
    return found.stdout, found.outputs


def test_a_cell_becomes_a_space(shell: Any) -> None:
    said, shown = run(shell, "space -p width=8", NET)
    assert said == "<Space small: 2 architectures, 1 choice, image f32[1, 8, 8] -> y>\n"
    assert shown == []
    space = shell.user_ns["space"]
    assert isinstance(space, archir.Space)
    assert space.graph.parameters["width"] == 8


def test_only_valid_cell_is_written_to_file(shell: Any, tmp_path: Path) -> None:
    run(shell, "-o net.arch", NET)
    assert (tmp_path / "net.arch").read_text() == NET
    with pytest.raises(archir.ArchError):
        run(shell, "-o wrong.arch", NET.replace("conv", "konv"))
    assert not (tmp_path / "wrong.arch").exists()


def test_cell_without_name_is_only_checked(shell: Any) -> None:
    before = set(shell.user_ns)
    said, _ = run(shell, "", NET + NET.replace("small", "other"))
    assert [line.split(":")[0] for line in said.splitlines()] == ["<Space small", "<Space other"]
    assert set(shell.user_ns) - before <= {"_exit_code"}


def test_show_and_count_options_display_space(shell: Any) -> None:
    net = NET.replace("    output", "    require params <= 60\n    output")
    _, shown = run(shell, "space --show --count", net)
    counted, page = [output.data for output in shown]
    assert counted["text/plain"] == "<small: 2 architectures, 1 within the bounds on costs>"
    assert "data:image/svg+xml" in page["text/html"]


def test_errors_point_at_place_in_cell(shell: Any) -> None:
    with pytest.raises(archir.ArchError) as found:
        run(shell, "space", NET.replace("kernel=5", "kernels=5").replace("output y = x", "output y = z"))
    first, second = found.value.diagnostics
    assert str(first.span) == f"In[{shell.execution_count}]:4:61"
    assert first.hint == "did you mean `kernel`?"
    assert second.span is not None
    assert second.span.text == "z"
    assert "space" not in shell.user_ns
    lines = found.value._render_traceback_()
    assert "\x1b[1mIn[" in lines[1]
    assert all(line.strip() for line in lines)


def test_cells_import_cells_and_files(shell: Any, tmp_path: Path) -> None:
    said, _ = run(shell, "--as blocks.arch", BLOCKS)
    assert said == ""
    run(shell, "user", USING)
    assert len(shell.user_ns["user"].graph) == 3
    run(shell, "--as blocks.arch", BLOCKS.replace("y |> conv", "y |> relu |> conv"))
    run(shell, "user", USING)
    assert len(shell.user_ns["user"].graph) == 4, "a cell that was run again is imported as it is now"
    (tmp_path / "disk.arch").write_text(BLOCKS.replace("twice", "thrice"))
    run(shell, "user", USING.replace("blocks.arch", "disk.arch").replace("twice", "thrice"))
    assert len(shell.user_ns["user"].graph) == 3


def test_missing_or_invalid_cell_is_not_imported(shell: Any) -> None:
    with pytest.raises(archir.ArchError) as found:
        run(shell, "user", USING)
    assert "`%%arch --as NAME.arch`" in str(found.value.diagnostics[0].hint)
    run(shell, "--as blocks.arch", BLOCKS)
    with pytest.raises(archir.ArchError):
        run(shell, "--as blocks.arch", BLOCKS.replace("conv", "konv"))
    run(shell, "user", USING)
    with pytest.raises(archir.ArchError) as ring:
        run(shell, "--as blocks.arch", 'import "blocks.arch"\n' + BLOCKS)
    assert ring.value.diagnostics[0].code == "A0805"
    with pytest.raises(archir.ArchError):
        archir.loads(USING)


@pytest.mark.parametrize("net", ["", "--net other"])
def test_cell_with_several_nets_requires_net_name(shell: Any, net: str) -> None:
    cell = NET + NET.replace("small", "other")
    if net:
        run(shell, f"space {net}", cell)
        assert shell.user_ns["space"].name == "other"
    else:
        with pytest.raises(archir.ArchError, match="choose a net with --net"):
            run(shell, "space", cell)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--nonsense", "unrecognized arguments: --nonsense; `%%arch\\?` lists the options"),
        ("a-b", "'a-b' is not a valid variable name"),
        ("--as blocks", "such as blocks.arch"),
    ],
)
def test_invalid_magic_option_raises_usage_error(shell: Any, line: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        run(shell, line, NET)


def test_malformed_parameter_raises_arch_error(shell: Any) -> None:
    with pytest.raises(archir.ArchError, match="a parameter is written name=value"):
        run(shell, "space -p width", NET)


def test_cell_errors_are_shown_without_traceback(shell: Any) -> None:
    with capture_output() as found:
        shell.run_cell("%%arch\nnet a {\n    input x: f32[3]\n    output y = x |> lineer(3)\n}")
    said = found.stdout + found.stderr
    assert "error[A0201]" in said
    assert "^^^^^^" in said
    assert "Traceback" not in said
    assert "cells.py" not in said
    with capture_output() as found:
        shell.run_cell("import archir\narchir.loads('net a {')")
    said = found.stdout + found.stderr
    assert "here, line 2: archir.loads('net a {')" in said
    assert "loading.py" not in said
