"""The grammar of the archir language, as package data."""

from importlib.resources import files


def grammar() -> str:
    """The text of `arch.lark`."""
    return (files("archir_grammar") / "arch.lark").read_text(encoding="utf-8")
