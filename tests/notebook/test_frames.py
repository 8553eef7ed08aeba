"""`to_frame()` of trials, fronts and other results gives pandas or Arrow tables."""

from __future__ import annotations

import sys
from typing import Any

import pandas
import pyarrow
import pytest

import archir
from archir.backends.speed.measurements import Latency, Speed, Speeds, Subject
from archir.reuse.trial_columns import Trials
from archir.tools.notebook.registration import html
from archir_torch.search.single import Epoch, Result

TRIALS = Trials(
    {
        "trial": [0, 1, 2],
        "status": ["done", "done", "failed"],
        "scores.accuracy": [0.5, 0.75, None],
        "costs.macs": [100, 200, None],
        "choices.kernel": [3, "none", None],
        "choices.pair": [["a", "b"], ["a", "c"], None],
    }
)


def test_pandas_columns_have_types() -> None:
    frame = TRIALS.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert [str(kind) for kind in frame.dtypes] == ["Int64", "string", "float64", "Int64", "string", "string"]
    assert frame["scores.accuracy"].max() == 0.75
    assert frame["costs.macs"].sum() == 300
    assert list(frame["choices.kernel"].dropna()) == ["3", "none"]
    assert list(frame["choices.pair"].dropna()) == ["a + b", "a + c"]


def test_to_frame_gives_arrow_table_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = TRIALS.to_frame()
    assert isinstance(table, pyarrow.Table)
    kinds = ["int64", "string", "double", "int64", "string", "string"]
    assert [str(kind) for kind in table.schema.types] == kinds
    assert table["costs.macs"].to_pylist() == [100, 200, None]


def test_to_frame_without_pandas_and_pyarrow_hints_at_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(archir.ArchError) as found:
        TRIALS.to_frame()
    assert found.value.diagnostics[0].code == "A2602"
    assert found.value.diagnostics[0].hint == "pip install pandas, or: pip install pyarrow"


def test_trials_still_behave_as_column_mapping() -> None:
    assert pandas.DataFrame(TRIALS).shape == (3, 6)
    assert dict(TRIALS)["trial"] == [0, 1, 2]


SPEEDS = Speeds((Speed(Subject("net", "torch", 1, 2), Latency.of([10, 20, 30]), None, 99),), (), {})
EPOCHS = Result((Epoch(0, 1.5, {"accuracy": 0.5}, 2.0), Epoch(1, 1.0, {"accuracy": 0.75}, 2.0)))


def front() -> Any:
    text = "net a { input x: f32[4]; output y = x |> choose op { a: linear(8), b: linear(4) } |> linear(2) }"
    return archir.exact_front(archir.loads(text.replace("; ", "\n")), "macs", "kernels")


@pytest.mark.parametrize(
    ("value", "columns"),
    [
        (front, {"macs": [24], "kernels": [2], "choices.op": ["b"]}),
        (lambda: EPOCHS, {"epoch": [0, 1], "loss": [1.5, 1.0], "accuracy": [0.5, 0.75], "seconds": [2.0, 2.0]}),
        (lambda: SPEEDS, {"network": ["net"], "threads": [2], "runs": [3], "latency.p50": [20.0], "first": [99]}),
    ],
)
def test_other_results_convert_to_frames(value: Any, columns: dict[str, list[Any]]) -> None:
    made = value()
    frame = made.to_frame()
    assert {name: list(frame[name]) for name in columns} == columns
    assert len(frame) == len(next(iter(columns.values())))
    assert "<table>" in str(html(made))
