"""Latency as a cost: in tables, counts, samples, `require` and `--where`, against brute force."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from click.testing import CliRunner, Result
from scipy.stats import chisquare

import archir
from archir.cli import main
from archir.costs.latencies.table import Correction, LatencyTable
from archir.costs.latencies.workloads import space_workloads
from archir.diagnostics.errors import ArchError
from archir.ir.printer import print_graph
from archir.ir.reader import parse_graph
from archir.spaces.space import Space
from tests.latencies import SMALL, table_of
from tests.published.test_spaces import SPACES, space_of
from tests.soak import with_soak

LINE = Correction(scale=1.37, offset=250.4, networks=9)
COST = 'latency("t.json")'
CUT = {
    "values": SMALL["values"],
    "depth": SMALL["depth"],
    "conditional": SMALL["conditional"],
    "subsets": SMALL["subsets"],
    "kinds": SMALL["kinds"],
    "cells": SMALL["cells"],
    "dead": SMALL["dead"],
    "zeros": SMALL["zeros"],
    "without choices": "net n {\n input image: f32[4, 6, 6]\n output y = image |> conv(4) |> relu\n}",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def measured(
    space: Space, file: str | Path = "t.json", correction: Correction | None = LINE, simplified: bool = False
) -> LatencyTable:
    """A made-up table that knows a space, written to a file. Hardly two operations take as long."""
    table = table_of(space_workloads(space.graph), correction, simplified)
    for key, entry in table.entries.items():
        entry.mean = crc32(key.encode()) % 99991
    table.write(file)
    return table


def everything(space: Space, table: LatencyTable) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """All architectures, and the latencies of their networks, which are built one at a time."""
    found = list(space.enumerate())
    times = [table.estimate(space.specialize(architecture)) for architecture in found]
    return np.array([architecture.codes for architecture in found], np.int16), np.array(times)


def run(*arguments: str, code: int | None = 0) -> Result:
    """Run the command; the exit code is `code`, or 0 or 1 if that depends on how fast networks are here."""
    result = CliRunner().invoke(main, list(arguments), env={"COLUMNS": "120"})
    assert result.exit_code in ((0, 1) if code is None else (code,)), result.output
    return result


# against brute force


@pytest.mark.parametrize("correction", [None, LINE], ids=["as measured", "corrected"])
@pytest.mark.parametrize(("name", "simplified"), [*((name, False) for name in CUT), ("dead", True), ("zeros", True)])
def test_latency_costs_extremes_and_counts_equal_brute_force(
    name: str, simplified: bool, correction: Correction | None, folder: Path
) -> None:
    space = archir.loads(CUT[name])
    codes, times = everything(space, measured(space, correction=correction, simplified=simplified))
    assert space.cost(codes, [COST])[COST].tolist() == times.tolist()
    assert COST not in space.cost(codes)
    least, greatest = space.account.extremes(COST)
    assert (least.value, greatest.value) == (times.min(), times.max())
    for position, level in enumerate(space.account.marginals(COST)):
        for outcome, pair in level.items():
            some = times[codes[:, position] == outcome]
            assert pair == (some.min(), some.max())
    limit = int(np.median(times))
    exact = int((times <= limit).sum())
    assert space.account.count(COST, 0, limit) == (exact, exact)
    assert space.where(f"{COST} <= {limit}").count() == (exact, exact)
    assert space.where(f"{limit / 1e6:.6f}ms >= {COST}").count() == (exact, exact)


@pytest.mark.parametrize("name", with_soak(SPACES, ["full_attention", "darts", "nas_bench_201", "autoformer"]))
def test_latency_costs_of_published_spaces_equal_table_estimates(name: str, folder: Path) -> None:
    space = space_of(name, **SPACES[name].small)
    table = measured(space, simplified=True)
    codes = space.sample_codes(20, np.random.default_rng(0))
    wanted = [table.estimate(space.specialize(space.decode(row))) for row in codes]
    assert space.cost(codes, [COST])[COST].tolist() == wanted


@pytest.mark.parametrize("name", ["depth", "conditional"])
def test_draws_within_a_bound_are_uniform(name: str, folder: Path) -> None:
    space = archir.loads(CUT[name])
    codes, times = everything(space, measured(space))
    limit = int(np.median(times))
    wanted = {tuple(row) for row in codes[times <= limit].tolist()}
    assert 1 < len(wanted) < len(codes)
    narrowed = space.where(f"{COST} <= {limit}ns")
    drawn = Counter(tuple(row) for row in narrowed.sample_codes(200 * len(wanted), np.random.default_rng(0)).tolist())
    assert set(drawn) == wanted
    assert chisquare(list(drawn.values())).pvalue > 0.001
    assert {narrowed.sample(seed).codes for seed in range(20)} <= wanted


def test_latency_and_macs_bounds_are_counted_together(folder: Path) -> None:
    space = archir.loads(CUT["depth"])
    codes, times = everything(space, measured(space))
    macs = space.cost(codes, ["macs"])["macs"]
    most = int(np.median(times)), int(np.median(macs))
    exact = int(((times <= most[0]) & (macs <= most[1])).sum())
    assert 0 < exact < (times <= most[0]).sum()
    assert space.where(f"{COST} <= {most[0]} and macs <= {most[1]}").count() == (exact, exact)


# in a net


def written(folder: Path, require: str, head: str = "net n {") -> Path:
    text = CUT["depth"].strip().removesuffix("}").replace("net n {", head)
    (folder / "n.arch").write_text(f"{text} {require}\n}}\n")
    return folder / "n.arch"


def test_table_path_is_relative_to_the_net_file(tmp_path: Path, folder: Path) -> None:
    (folder / "nets" / "tables").mkdir(parents=True)
    free = archir.loads(CUT["depth"])
    codes, times = everything(free, measured(free, folder / "nets" / "tables" / "t.json"))
    limit = int(np.median(times))
    file = written(folder / "nets", f'require latency("tables/t.json") <= {limit}')
    space = archir.load(file)
    exact = int((times <= limit).sum())
    assert 0 < exact < len(codes)
    assert space.count() == (exact, exact)
    assert archir.check(file) == []
    assert f"{exact} of them have" in run("count", str(file)).output
    costs = space.cost([space.sample(seed) for seed in range(10)])
    assert max(costs['latency("tables/t.json")']) <= limit
    with pytest.raises(ArchError, match="A1008"):
        space.architecture(free.decode(codes[times.argmax()]))


def test_net_parameter_may_name_latency_table(folder: Path) -> None:
    free = archir.loads(CUT["depth"])
    _, times = everything(free, measured(free))
    limit = int(times.min())
    file = written(folder, f"require latency(table) <= {limit}", 'net n(table = "none.json") {')
    (found,) = archir.check(file)
    assert found.code == "A1501"
    assert archir.load(file, table="t.json").count() == ((times == limit).sum(),) * 2


def test_check_detects_unsatisfiable_latency_requirement(folder: Path) -> None:
    free = archir.loads(CUT["depth"])
    _, times = everything(free, measured(free))
    (found,) = archir.check(written(folder, f"require {COST} <= 1us"))
    assert found.code == "A1603"
    assert found.span is not None
    assert found.span.text == f"{COST} <= 1us"
    assert found.hint == f"the nearest there is: {COST} = {times.min():,} ns"


@pytest.mark.parametrize("require", [f"require {COST} <= 9ms", f"if d > 1 {{\n require {COST} <= 9ms\n}}"])
def test_unusable_tables_are_reported_at_the_requirement(require: str, folder: Path) -> None:
    file = written(folder, require)

    def refused(code: str) -> None:
        (found,) = archir.check(file)
        assert found.code == code
        assert found.span is not None
        assert (found.span.source.name, found.span.text) == (str(file), f"{COST} <= 9ms")
        assert str(folder) not in found.message

    refused("A1501")
    (folder / "t.json").write_text("{")
    refused("A1501")
    table = table_of(space_workloads(archir.loads(CUT["depth"]).graph))
    old = json.loads(table.model_dump_json()) | {"schema_version": 0}
    (folder / "t.json").write_text(json.dumps(old))
    refused("A1501")
    table.entries.popitem()
    table.write(folder / "t.json")
    refused("A1502")


def test_bench_measures_table_that_the_net_itself_requires(folder: Path) -> None:
    file = written(folder, f"require {COST} <= 1000ms")
    run("latency", "table", str(file), "-o", "t.json", "--threads", "1")
    assert "measured, us" in run("latency", "check", str(file), "t.json", "-n", "2", code=None).output
    assert archir.check(file) == []


@pytest.mark.parametrize("path", ["../t.json", "/etc/t.json", "x/../../t.json"])
def test_rejects_table_path_outside_net_folder(path: str, folder: Path) -> None:
    (found,) = archir.check(written(folder, f'require latency("{path}") <= 1ms'))
    assert found.code == "A0803"


def test_wider_root_allows_table_in_parent_folder(folder: Path) -> None:
    (folder / "nets").mkdir()
    measured(archir.loads(CUT["depth"]))
    file = written(folder / "nets", 'require latency("../t.json") <= 1ms')
    assert [found.code for found in archir.check(file)] == ["A0803"]
    assert archir.check(file, root=folder) == []


def test_program_without_file_cannot_require_a_table() -> None:
    with pytest.raises(ArchError, match="A0802"):
        archir.loads(CUT["depth"].strip().removesuffix("}") + f"require {COST} <= 1ms\n}}")


@pytest.mark.parametrize(
    ("bound", "code"),
    [
        ("latency <= 1ms", "A0509"),
        ("latency(3) <= 1ms", "A0509"),
        ("latency() <= 1ms", "A0509"),
        ('latency("a.json", "b.json") <= 1ms', "A0509"),
        ('latency(file="t.json") <= 1ms', "A0509"),
        (f"{COST} + 1 <= 1ms", "A0509"),
        (f"{COST} <= 0.5ns", "A0305"),
        (f"{COST} <= macs", "A0509"),
        (f"{COST}", "A0509"),
        (f"{COST} <= 1ms or macs <= 1M", "A0509"),
        ("latency(nothing) <= 1ms", "A0201"),
        ('latency("none.json") <= 1ms', "A1501"),
        ('latency("no#ne.json") <= 1ms', "A1501"),
        ('latency("none.json") <= 1ms # a comment', "A0509"),
        ('latency("a\0b") <= 1ms', "A0801"),
    ],
)
def test_rejects_malformed_latency_bounds_with_position(bound: str, code: str, folder: Path) -> None:
    measured(archir.loads(CUT["depth"]))
    with pytest.raises(ArchError) as caught:
        archir.loads(CUT["depth"]).where(bound).check_bounds()
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert found.span is not None
    assert found.span.source.text == bound


def test_a_variable_may_be_called_latency() -> None:
    space = archir.loads(
        "net n {\n input x: f32[4, 6, 6]\n latency = choose latency(1, 2, 3)\n require latency > 1\n"
        " require macs <= latency * 1000\n output y = x |> conv(latency, 1)\n}"
    )
    assert space.satisfying == 2
    assert space.count() == (2, 2)


# tables in two places


def test_where_reads_tables_by_relative_and_absolute_path(tmp_path: Path, folder: Path) -> None:
    space = archir.loads(CUT["depth"])
    (folder / "here").mkdir()
    (folder / "there").mkdir()
    measured(space, folder / "there" / "t.json")
    for path in ("there/t.json", str(folder / "there" / "t.json"), "here/../there/t.json"):
        assert space.where(f'latency("{path}") <= 1s'.replace("1s", "1000ms")).count()[0] == space.size


def test_rejects_one_table_name_for_two_files(folder: Path) -> None:
    (folder / "nets").mkdir()
    free = archir.loads(CUT["depth"])
    measured(free, folder / "nets" / "t.json", None)
    _, times = everything(free, measured(free, folder / "t.json"))
    space = archir.load(written(folder / "nets", f"require {COST} <= 9ms"))
    with pytest.raises(ArchError, match=r"A1507[\s\S]*such as \./t\.json"):
        space.where(f"{COST} <= 9ms").check_bounds()
    limit = int(np.median(times))
    assert space.where(f'latency("./t.json") <= {limit}').count()[0] == (times <= limit).sum()
    assert space.where('latency("nets/t.json") <= 9ms').count()[0] == space.size
    (folder / "t.json").unlink()
    with pytest.raises(ArchError, match=r"A1507[\s\S]*such as \./nets/t\.json"):
        space.where(f"{COST} <= 9ms").check_bounds()


@pytest.mark.parametrize("here", [True, False])
def test_required_table_is_used_from_another_folder(here: bool, folder: Path) -> None:
    """All questions about costs read the net's table, also where the current folder has another of this name."""
    (folder / "nets").mkdir()
    free = archir.loads(CUT["depth"])
    codes, times = everything(free, measured(free, folder / "nets" / "t.json"))
    limit = int(np.median(times))
    if here:
        measured(free, folder / "t.json", Correction(scale=1, offset=2.0 * limit, networks=9))
    space = archir.load(written(folder / "nets", f"require {COST} <= {limit}"))
    params = free.cost(codes, ["params"])["params"]
    assert archir.optimize(space, maximize="params").values[0] == params[times <= limit].max()
    assert archir.optimize(space, minimize=COST).values[0] == times.min()
    assert min(point.values[1] for point in archir.exact_front(space, "params", COST).points) == times.min()
    assert (space.cost(codes, [COST])[COST] == times).all()
    assert (space.unbounded.cost(codes, [COST])[COST] == times).all()


def test_printed_graph_keeps_latency_requirement(folder: Path) -> None:
    free = archir.loads(CUT["depth"])
    _, times = everything(free, measured(free))
    limit = int(np.median(times))
    space = archir.load(written(folder, f"require {COST} <= {limit}"))
    again = Space(parse_graph(print_graph(space.graph)))
    assert again.count() == space.count() == ((times <= limit).sum(),) * 2


# the command line


def test_cost_command_prints_latency_extremes_and_distribution(folder: Path) -> None:
    free = archir.loads(CUT["depth"])
    codes, times = everything(free, measured(free))
    (folder / "n.arch").write_text(CUT["depth"])
    extremes = json.loads(run("cost", "n.arch", "--latency", "t.json", "--json").output)["extremes"]
    assert extremes[COST] == [times.min(), times.max()]
    drawn = json.loads(run("cost", "n.arch", "--latency", "t.json", "-n", "50", "--json").output)["costs"]
    assert set(drawn[COST]) <= set(times.tolist())
    assert f"{times.max():,}" in run("cost", "n.arch", "--distribution", COST).output
    assert f"{times.min():,}" in run("cost", "n.arch", "--alternatives", COST).output
    limit = int(np.median(times))
    exact = int((times <= limit).sum())
    assert f"{exact} of them have" in run("count", "n.arch", "--where", f"{COST} <= {limit}").output
    row = codes[times.argmin()]
    (folder / "a.json").write_text(free.decode(row).to_json(free.graph.parameters))
    one = run("cost", "n.arch", "--arch", "a.json", "--latency", "t.json")
    assert f"{times.min():,}" in one.output
    facts = json.loads(run("cost", "n.arch", "--arch", "a.json", "--latency", "t.json", "--json").output)
    assert facts[COST] == times.min()
    assert facts["macs"] == space_macs(free, row)
    assert "A1501" in run("cost", "n.arch", "--latency", "none.json", code=1).stderr


def space_macs(space: Space, row: np.ndarray[Any, Any]) -> int:
    return archir.cost(space.specialize(space.decode(row))).macs


def test_latencies_beyond_64_bits_are_refused(folder: Path) -> None:
    space = archir.loads(CUT["depth"])
    table = measured(space, correction=Correction(scale=1e6, offset=0, networks=2))
    for entry in table.entries.values():
        entry.mean = 1e15
    table.write("t.json")
    with pytest.raises(ArchError, match="A1601"):
        space.account.extremes(COST)
