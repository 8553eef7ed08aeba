"""Diagnostics of written cost bounds: quoted spans and hints."""

from __future__ import annotations

import pytest

import archir
from archir.diagnostics.errors import ArchError, Diagnostic
from archir.language.elaboration.cost_names import LATENCY_HINT

SPACE = archir.loads(
    "net n {\n input x: f32[8, 4, 4]\n repeat choose depth(1, 2, 3) { x = x |> conv(8) |> relu }\n output y = x\n}\n"
)


def refused(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(ArchError) as caught:
        SPACE.where(text).check_bounds()
    return caught.value.diagnostics


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("mac <= 0.6x", ["mac"]),
        ("macs <= 0.6x and foo < 3", ["foo"]),
        ("macs <= 0.6x and params < 0.123456789x and foo < bar", ["foo", "bar"]),
        ("params < 5 and mac <= 0.6x", ["mac"]),
        ("macs <= 0.0001x and params > 3", ["macs <= 0.0001x"]),
        ("params > 3 and macs <= 0.0001x", ["macs <= 0.0001x"]),
        ("macs <= 0.6x; params < 3", [";"]),
        ("latency('none.json') <= 0.5x and macs < 3", ["latency('none.json')"]),
        ("macs <= 0.9x and latency('none.json') <= 5ms", ["latency('none.json') <= 5ms"]),
    ],
)
def test_error_spans_quote_user_text(text: str, wrong: list[str]) -> None:
    spans = [one.span for one in refused(text) if one.span is not None]
    assert {span.source.text for span in spans} == {text}
    assert [span.text for span in spans] == wrong


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("macs <= 500k", "numbers have suffixes, K, M and G: write `500K`"),
        ("macs <= 600 M", "numbers have suffixes, K, M and G: write `600M`"),
        ("params < 5m and macs < 3", "numbers have suffixes, K, M and G: write `5M`"),
        ("macs <= 1.5B", "numbers have suffixes, K, M and G: write `1.5G`"),
        ("macs <= 1e6", "numbers have suffixes, K, M and G: write `1M`"),
        ("macs <= 2.5e+5", "numbers have suffixes, K, M and G: write `250K`"),
        ("macs <= 50%", "write `0.5x`: that fraction of the largest cost in the space"),
        ("macs <= 12.5 % and params < 3", "write `0.125x`: that fraction of the largest cost in the space"),
        ("macs <= 600M, params < 5M", "join bounds with `and`: `macs <= 600M and params < 5M`"),
        ("macs <= 600M && params < 5M", "join bounds with `and`: `macs <= 600M and params < 5M`"),
        ("macs <= 1,000,000", "digits are grouped by `_`: write `1_000_000`"),
        ("macs <= 100 000", "digits are grouped by `_`: write `100_000`"),
        ("macs < 0.5 x", "write `0.5x`"),
        ("macs =< 5", "write `<=`"),
        ("mac < 5", "did you mean `macs`?"),
        ("parameters < 5", "did you mean `params`?"),
    ],
)  # fmt: skip
def test_foreign_notation_is_rejected_with_hint(text: str, hint: str) -> None:
    assert refused(text)[0].hint == hint


@pytest.mark.parametrize("text", ["depth == 2", "macs < 3 and depth <= 0.5x"])
def test_bound_on_choice_is_rejected_with_require_hint(text: str) -> None:
    said = "bounds are on costs, and `depth` is a choice: narrow it in the space, with `require`, "
    assert str(refused(text)[-1].hint).startswith(said)


def test_unknown_cost_name_is_rejected_with_list_of_costs() -> None:
    hint = str(refused("wattage < 3")[0].hint)
    assert hint.startswith("bounds are on costs: `params`, `macs`, ")
    assert hint.endswith(' and `latency("FILE")`')


@pytest.mark.parametrize("text", ["latency(cpu.json) <= 6us", "latency(my/cpu.json) < 3", "latency(cpu.json) <= 0.5x"])
def test_path_without_quotes_gets_the_hint_to_quote_it(text: str) -> None:
    assert {problem.hint for problem in refused(text)} == {LATENCY_HINT}


def test_path_without_quotes_in_a_program_gets_the_hint_to_quote_it() -> None:
    with pytest.raises(ArchError) as caught:
        archir.loads("net n {\n input x: f32[8]\n require latency(cpu.json) <= 6us\n output y = x |> relu\n}\n")
    assert [(problem.code, problem.hint) for problem in caught.value.diagnostics] == [("A0201", LATENCY_HINT)]


@pytest.mark.parametrize("text", ["macs <= 1_000_000", "macs <= 1.5M and params <= 1x", "macs > 1K", "0 < macs"])
def test_bounds_suggested_by_hints_are_valid(text: str) -> None:
    assert SPACE.where(text).count() == (3, 3)
