"""The test suite's own tools, and that the default run does not collect the soak's many tests."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DESELECTED_SOAK, ROOT
from tests.soak import with_soak


def test_equivalent_mutants_exist_in_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    tool: Any = import_module("mutants")
    paths = {path for path, *_ in tool.EQUIVALENT}
    made = {(mutant.path, mutant.function, mutant.change) for path in paths for mutant in tool.mutants(path)}
    assert tool.EQUIVALENT.keys() <= made


def test_near_finds_tests_by_import_or_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    tool: Any = import_module("near")
    found = {path.as_posix() for path in tool.near([Path("archir/utils/toml.py"), Path("tests/cli/test_new.py")])}
    assert {"tests/base/test_toml.py", "tests/cli/test_new.py"} <= found
    assert "tests/cli/test_cli.py" not in found


@pytest.mark.parametrize("number", with_soak(range(9), [0]))
def test_default_run_collects_no_parametrized_soak_tests(number: int, request: pytest.FixtureRequest) -> None:
    """But one of a function that is the soak's alone, by which it is known."""
    if request.config.getoption("markexpr") == "not soak":
        made = Counter(name.partition("[")[0] for name in DESELECTED_SOAK)
        assert [name for name, count in made.items() if count > 1] == []
        assert request.node.nodeid.partition("[")[0] not in made
    assert 0 <= number < 9
