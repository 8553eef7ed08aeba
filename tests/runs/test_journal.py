"""The journal returns the rows that were written and detects changed ones."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archir.diagnostics.errors import ArchError
from archir.runs import journal
from archir.runs.folder import JOURNAL
from archir.runs.journal import Journal, Kind, plain_json

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
KINDS: list[Kind] = ["phase", "epoch", "trial"]
PUTS = st.tuples(
    st.sampled_from(["search", "retrain"]), st.sampled_from(KINDS), st.sampled_from("0123"),
    st.dictionaries(TEXT, VALUES, max_size=3),
)  # fmt: skip


@contextmanager
def fresh() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        (Path(name) / JOURNAL).write_bytes(journal.empty())
        yield Path(name)


@settings(max_examples=25)
@given(st.lists(st.lists(PUTS, max_size=6), min_size=1, max_size=3))
def test_journal_returns_last_written_content_per_key(
    sessions: list[list[tuple[str, Kind, str, dict[str, Any]]]],
) -> None:
    wanted: dict[tuple[str, Kind], dict[str, Any]] = {}
    count = 0
    with fresh() as folder:
        for number, puts in enumerate(sessions):
            made = journal.write(folder, count)
            for phase, kind, key, content in puts:
                made.put(phase, kind, key, content)
                before = made.count
                made.put(phase, kind, key, content)
                assert made.count == before, "the same once more is not a new row"
                wanted.setdefault((phase, kind), {})[key] = plain_json(content)
            count = made.count
            if number % 2:
                assert made.seal()
                assert [path.name for path in folder.iterdir()] == [JOURNAL]
            else:
                made.close()
            found = journal.read(folder, count, bool(number % 2))
            assert found.count == count
            assert {place: found.rows(*place) for place in wanted} == wanted
            assert set(found.phases()) == {phase for phase, _ in wanted}


def test_rows_that_the_manifest_does_not_know_yet_are_kept() -> None:
    with fresh() as folder:
        made = journal.write(folder, 0)
        made.put("search", "epoch", "0", {"loss": 1.0})
        known = made.count
        made.put("search", "epoch", "1", {"loss": 0.5})
        made.close()
        assert journal.read(folder, known, False).rows("search", "epoch").keys() == {"0", "1"}


CHANGES = [
    "UPDATE log SET content = '{\"loss\":9}' WHERE seq = 2",
    "UPDATE log SET key = '7' WHERE seq = 2",
    "UPDATE log SET phase = 'other' WHERE seq = 1",
    "UPDATE log SET kind = 'trial' WHERE seq = 3",
    "UPDATE log SET hash = 'x' WHERE seq = 3",
    "UPDATE log SET seq = 9 WHERE seq = 3",
    "UPDATE log SET content = x'ff00' WHERE seq = 1",
    "DELETE FROM log WHERE seq = 1",
    "DELETE FROM log WHERE seq = 3",
    "DELETE FROM log",
    "DROP VIEW trials",
    "DROP TABLE log",
    "CREATE TABLE more (x)",
    "CREATE TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM log; END",
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("opens", [lambda f, a: journal.read(f, a, False), journal.write], ids=["read", "write"])
def test_rows_that_were_changed_are_noticed(change: str, opens: Any) -> None:
    with fresh() as folder:
        count = three(folder)
        connection = sqlite3.connect(folder / JOURNAL)
        connection.execute(change)
        connection.commit()
        connection.close()
        with pytest.raises(ArchError, match=r"A1806.*metrics\.sqlite was damaged.*\n  hint: put back a copy"):
            opens(folder, count)


def three(folder: Path) -> int:
    made = journal.write(folder, 0)
    for epoch in range(3):
        made.put("search", "epoch", str(epoch), {"loss": 1.0 / (epoch + 1), "note": "x" * 100})
    made.close()
    return made.count


def test_flipped_bits_of_unsealed_journal_never_change_rows(tmp_path: Path) -> None:
    """A killed run's journal has no hash of its file: bits of rows are noticed, others mean nothing."""
    with fresh() as folder:
        count = three(folder)
        wanted = journal.read(folder, count, False).rows("search", "epoch")
        data = (folder / JOURNAL).read_bytes()
        noticed = 0
        for place in range(0, len(data), 13):
            changed = Path(shutil.copytree(folder, tmp_path / f"{place}"))
            (changed / JOURNAL).write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
            try:
                assert journal.read(changed, count, False).rows("search", "epoch") == wanted
            except ArchError:
                noticed += 1
            shutil.rmtree(changed)
        assert noticed > 50


def test_rejects_malformed_or_missing_journal(tmp_path: Path) -> None:
    for data in (b"", b"hello", b"SQLite format 3\0" + bytes(100)):
        (tmp_path / JOURNAL).write_bytes(data)
        with pytest.raises(ArchError, match="A1806"):
            journal.read(tmp_path, 1, False)
    with pytest.raises(ArchError, match="A1806"):
        journal.read(tmp_path / "none", 1, False)


def test_journal_with_open_reader_is_not_sealed() -> None:
    with fresh() as folder:
        made = journal.write(folder, 0)
        made.put("search", "epoch", "0", {"loss": 1.0})
        reader = sqlite3.connect(folder / JOURNAL, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM log").fetchone()
        made.put("search", "epoch", "1", {"loss": 1.0})
        assert isinstance(made, Journal)
        assert not made.seal()
        reader.close()
        assert journal.read(folder, made.count, False).count == 2
