"""Certificates of optima: what is proved again is what listing all says, and what was changed is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import archir
from archir.base.errors import ArchError
from archir.cli.main import main
from archir.costs.latencies.workloads import workloads
from archir.ir.text.serial import from_json, to_json
from archir.search.scores.table import Scores, Term
from archir.search.spaces.certificates import layers, proof
from archir.search.spaces.certificates.certificate import Claim, check, parse, to_bytes
from archir.search.spaces.certificates.writing import claim_of
from archir.search.spaces.optimal.problem import Objective
from archir.search.spaces.space import Space
from tests.latencies import table_of
from tests.search.test_derive_bounds import SMALL
from tests.search.test_optimal import BOUNDS

MIXED = """
    net mixed() {
        input image: f32[3, 8, 8]
        w = choose width(4, 8)
        x = image |> conv(w, kernel=choose kernel(1, 3))
        repeat choose depth(1, 2) {
            x = x |> choose op {
                wide: conv(w, kernel=5) |> relu
                keep: identity
            }
        }
        picked = choose taps 2 of [x |> relu, x |> conv(w, kernel=1), x |> sigmoid]
        x = concat(picked)
        require w > 4 or x.features == 8
        output logits = x |> global_avg_pool |> linear(10)
    }
"""


@pytest.fixture(scope="module")
def space() -> Space:
    return archir.loads(MIXED)


@pytest.fixture(scope="module")
def codes(space: Space) -> np.ndarray:
    """All architectures of the space."""
    return np.array([one.codes for one in space.enumerate()], np.int16)


def scores_of(space: Space, seed: int) -> Scores:
    """Random scores of choices, and of two pairs of them."""
    rng = np.random.default_rng(seed)
    choices = {choice.path: choice.outcomes for choice in space.choices}
    pairs = [tuple(rng.choice(list(choices), 2, replace=False).tolist()) for _ in range(2)]
    terms = []
    for paths in [*((path,) for path in choices), *dict.fromkeys(pairs)]:
        shape = [choices[path] for path in paths]
        terms.append(Term(paths, {key: Fraction(int(rng.integers(-50, 50)), 8) for key in np.ndindex(*shape)}))
    return Scores(space.name, tuple(terms), Fraction(1, 3))


def claimed(space: Space, objective: Objective, fixed: dict[str, int] | None = None) -> Claim:
    """What the optimiser says, read from its certificate."""
    given = {"maximize": objective.what} if objective.greatest else {"minimize": objective.what}
    labels = {c.path: c.label(fixed[c.path]) for c in space.choices if fixed and c.path in fixed}
    answer = archir.optimize(space, **given, fixed=labels)  # type: ignore[arg-type]
    return parse(to_bytes(claim_of(space, answer, fixed or {}), "test"))


def is_true(claim: Claim) -> bool:
    """Whether a claim holds, by a list of all architectures."""
    space, values = claim.space.unbounded, []
    graph = space.graph
    graph.constraints = [*graph.constraints, *claim.bounds]
    each = [one for one in space.enumerate() if all(one.outcomes.get(*p) == p[1] for p in claim.fixed.items())]
    if each:
        codes = np.array([one.codes for one in each], np.int16)
        kept = Space(graph).keeping(codes)
        values = [value for value, fine in zip(values_of(claim, codes), kept, strict=True) if fine]
    if claim.architecture is None:
        return not values
    assert claim.bound is not None
    best = max(values) if claim.objective.greatest else min(values)
    own = values_of(claim, np.array([claim.architecture.codes], np.int16))
    kept = claim.architecture in each and claim.space.within(claim.architecture) and own == [claim.value]
    return bool(kept) and (best <= claim.bound if claim.objective.greatest else best >= claim.bound)


def values_of(claim: Claim, codes: np.ndarray) -> list[Fraction]:
    what = claim.objective.what
    if isinstance(what, str):
        return [Fraction(int(one)) for one in claim.space.cost(codes, [what])[what]]
    return [what(claim.space.decode(row)) for row in codes]


@settings(max_examples=12, deadline=None)
@given(
    st.lists(BOUNDS, max_size=3), st.sampled_from(["params", "macs", "peak_bytes", "scores"]), st.booleans(),
    st.integers(0, 10**6), st.booleans(),
)  # fmt: skip
def test_what_is_found_is_proved_again_and_what_is_better_is_not(
    space: Space, codes: np.ndarray, bounds: list[tuple[str, str, float]], what: str, greatest: bool,
    seed: int, held: bool,
) -> None:  # fmt: skip
    costs = space.cost(codes, [name for name, _, _ in bounds])
    limits = [(name, relation, int(np.quantile(costs[name], part))) for name, relation, part in bounds]
    texts = " and ".join(f"{name} {relation} {limit}" for name, relation, limit in limits)
    objective = Objective(scores_of(space, seed), True) if what == "scores" else Objective(what, greatest)
    claim = claimed(space.where(texts) if texts else space, objective, {"depth": 1} if held else None)
    check(claim, space)
    check(replace(claim, multipliers=()))
    assert is_true(claim)
    if claim.bound is None or claim.value is None:
        return
    with pytest.raises(ArchError, match=r"A3311.*does not have the value"):
        check(replace(claim, value=claim.value + 1))
    if what != "peak_bytes":
        check(replace(claim, bound=claim.bound + (100 if objective.greatest else -100)))  # weaker, and true
    fine = codes[claim.space.keeping(codes)]
    values = values_of(claim, fine)
    for row, value in zip(fine[:12], values, strict=False):
        other = replace(claim, architecture=space.decode(row), value=value, bound=value)
        if is_true(other):
            check(other)
        else:
            with pytest.raises(ArchError, match=r"A3311.*(may be better|not what is fixed)"):
                check(other)


def numbers(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where numbers stand, and texts that are numbers."""
    if isinstance(data, (dict, list)):
        pairs = data.items() if isinstance(data, dict) else enumerate(data)
        for key, one in pairs:
            yield from numbers(one, (*path, key))
    elif (isinstance(data, int) and not isinstance(data, bool)) or (
        isinstance(data, str) and data.lstrip("-").isdigit()
    ):
        yield path


def changed(data: dict[str, Any], path: tuple[Any, ...], by: int, whole: bool) -> bytes:
    """The certificate with another number somewhere; `whole`: with the SHA-256 that it would have."""
    data = json.loads(json.dumps(data))
    place: Any = data
    for key in path[:-1]:
        place = place[key]
    before = place[path[-1]]
    place[path[-1]] = str(int(before) + by) if isinstance(before, str) else before + by
    if whole:
        rest = {name: one for name, one in data.items() if name != "sha256"}
        data["sha256"] = sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    return json.dumps(data).encode()


CLAIMS = [
    ("macs", False, "params >= 3000 and kernels <= 9"),
    ("scores", True, "macs <= 0.5x"),
    ("peak_bytes", False, "params >= 3000"),
    ("macs", False, "params >= 3000 and macs <= 100000 and kernels <= 9"),
]


def refused(what: str, greatest: bool, where: str, part: float) -> tuple[int, int]:
    """How many changed certificates are refused, and how many are true."""
    space = archir.loads(SMALL)
    claim = claimed(space.where(where), Objective(scores_of(space, 0) if what == "scores" else what, greatest))
    assert is_true(claim)
    data, draw, ends = json.loads(to_bytes(claim, "test")), random.Random(0), [0, 0]
    for path in numbers(data):
        if draw.random() > part:
            continue
        by = draw.choice([1, -1, 7, -1000, 10**6])
        with pytest.raises(ArchError, match=r"A3310|A0705"):
            parse(changed(data, path, by, False))
        if path == ("sha256",):
            continue
        try:
            other = parse(changed(data, path, by, True))
            check(other)
        except ArchError:
            ends[0] += 1
        else:
            assert is_true(other), (path, by)
            ends[1] += 1
    return ends[0], ends[1]


@pytest.mark.parametrize("claim", CLAIMS[:2], ids=str)
def test_a_changed_number_is_refused_or_true(claim: tuple[str, bool, str]) -> None:
    assert sum(refused(*claim, 0.3)) > 5


@pytest.mark.soak
@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_every_changed_number_is_refused_or_true(claim: tuple[str, bool, str]) -> None:
    wrong, true = refused(*claim, 1)
    assert wrong > true


def test_an_alternative_that_is_never_taken_has_no_peak() -> None:
    graph = archir.loads(SMALL).graph
    data = to_json(graph)
    select = next(node for node in data["nodes"] if node["op"] == "select" and len(node["operands"]) == 3)
    select["attributes"]["cases"] = [0, 0, 2]
    assert Space(from_json(data)).account.limits("peak_bytes") == Space(graph).account.limits("peak_bytes")


def test_numbers_that_matter_are_refused_even_if_the_file_is_whole() -> None:
    space = archir.loads(SMALL)
    data = json.loads(to_bytes(claimed(space.where("params >= 3000"), Objective("macs")), "test"))
    for path in [("value",), ("bound",), ("space", "constraints", 0, "limit")]:
        with pytest.raises(ArchError, match="A3311"):
            check(parse(changed(data, path, 10**6, True)))
    for wrong in ({"needed": []}, {"multipliers": [1]}, {"multipliers": [1, -1]}, {"needed": [0, 0]}, {"kind": "x"}):
        rest = {name: one for name, one in {**data, **wrong}.items() if name != "sha256"}
        digest = sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        with pytest.raises(ArchError, match=r"A3311|A0705"):
            check(parse(json.dumps({**rest, "sha256": digest}).encode()))


def test_a_proof_that_is_too_long_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space, file = archir.loads(SMALL), tmp_path / "c.json"
    monkeypatch.setattr(proof, "MOST_TRIED", 1)
    with pytest.raises(ArchError, match="A3312"):
        archir.optimize(space, "macs", where="params >= 3500", certificate=file)
    monkeypatch.undo()
    monkeypatch.setattr(layers, "MOST_STEPS", 3)
    with pytest.raises(ArchError, match="A3312"):
        archir.optimize(space, "macs", certificate=file)
    assert not file.exists()


def test_tables_of_latencies_are_the_same_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space = archir.loads(SMALL)
    table_of(workloads(space.graph)).write(tmp_path / "cpu.json")
    low, high = space.where("latency('cpu.json') >= 0ns").account.limits('latency("cpu.json")')
    archir.optimize(space, "macs", where=f"latency('cpu.json') <= {(low + high) // 2}ns", certificate="c.json")
    assert [bound.cost for bound in archir.verify_optimum("c.json").bounds] == ['latency("cpu.json")']
    (tmp_path / "cpu.json").write_text((tmp_path / "cpu.json").read_text() + "\n")
    with pytest.raises(ArchError, match=r"A3310.*the table of latencies cpu.json is not there, or is another one"):
        archir.verify_optimum("c.json")


def test_the_commands(tmp_path: Path) -> None:
    def said(*arguments: str) -> str:
        done = CliRunner().invoke(main, [str(one) for one in arguments])
        return done.output + done.stderr

    net, other, file = (str(tmp_path / name) for name in ("net.arch", "other.arch", "best.json"))
    Path(net).write_text(SMALL)
    Path(other).write_text(SMALL.replace("conv(8, kernel=1)", "conv(8, kernel=2)"))
    bounded = ("optimize", net, "--minimize", "macs", "--where", "params >= 3000", "--fix", "depth=2")
    assert "wrote" in said(*bounded, "--certificate", file)
    text = said("verify", file, "--space", net)
    assert "bound: params >= 3,000\nfixed: depth = 2\nmacs = " in text
    assert "proved again: no architecture within the bounds is better" in text
    assert json.loads(said("verify", file, "--json"))["choices"]["depth"] == 2
    assert "A3311" in said("verify", file, "--space", other)
    assert "wrote" in said(*bounded[:4], "--where", "params >= 3000 and macs <= 9", "--certificate", file)
    assert "proved again: no architecture keeps these bounds" in said("verify", file)
    Path(file).write_text(Path(file).read_text().replace("3000", "3001"))
    assert "A3310" in said("verify", file)
    Path(file).write_text("{}")
    assert "A3310" in said("verify", file)
