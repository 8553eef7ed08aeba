"""`python -m archir_grammar`: regenerate the parse tables."""

from __future__ import annotations

from pathlib import Path

from archir_grammar import TABLES, tables

if __name__ == "__main__":
    (Path(__file__).parent / TABLES).write_text(tables(), encoding="utf-8")
