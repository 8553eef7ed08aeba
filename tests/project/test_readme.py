"""The README: its error message, its first five minutes, and the places that say the same."""

from __future__ import annotations

import re

import pytest

from archir.diagnostics.errors import ArchError
from archir.language.elaboration.elaborate import elaborate
from archir.pictures import picture
from archir.spaces.space import Space
from docs.generate import SPACES
from tests.conftest import ROOT
from tests.documents import snippets

README = ROOT / "README.md"
INDEX = ROOT / "docs" / "index.md"


def test_readme_error_message_is_current() -> None:
    """What is said of the README's program with an alternative that is too wide for a shortcut."""
    text = snippets(README, "arch")[0].text
    text = text.replace("skip:  identity", "wide:  conv(2 * width)")
    text = text.replace("x = x |> layer(width)", "x = x + (x |> layer(width))")
    with pytest.raises(ArchError) as caught:
        elaborate(text, "tiny.arch")
    assert str(caught.value) == snippets(README, "text")[-1].text.rstrip()
    assert "`wide: conv(2 * width)` in place\nof `skip`, and a shortcut" in README.read_text()


def test_readme_and_first_page_have_the_same_five_minutes() -> None:
    """The suite runs the commands of the README, and the soak those of the first page."""
    readme, index = (path.read_text("utf-8").partition("Save this as `tiny.arch`")[2] for path in (README, INDEX))
    shared = readme.partition("\nAn error is reported")[0]
    assert len(shared) > 2000
    assert index.startswith(shared)


def test_five_minutes_and_tutorial_end_above_ninety_percent() -> None:
    """`test_docs.py` compares what the search prints with what is shown, within the time limit of a test."""
    pages = (README, ROOT / "docs" / "tutorial.md")
    typed, learnt = ("".join(snippet.text for snippet in snippets(page, "console")) for page in pages)
    assert re.search(r"^train: .*, accuracy 9\d\.\.\.%", typed, re.MULTILINE)
    assert re.search(r"^held-out accuracy 9\.\.\.%", learnt, re.MULTILINE)


def test_picture_of_the_result_is_current() -> None:
    """The architecture that the README's search finds with this seed and machine; others find similar ones."""
    space = Space(elaborate(snippets(README, "arch")[0].text, "tiny.arch"))
    labels = {"depth": 3, "layer[0].op": "conv5", "layer[1].op": "conv3", "layer[2].op": "conv5"}
    network = space.specialize(space.architecture(labels))
    assert picture(network, "svg") == (ROOT / "docs" / "pictures" / "result.svg").read_text("utf-8")
    assert space.where("macs <= 1M").count() == (101, 101)


def test_documents_agree_on_number_of_spaces() -> None:
    assert len(SPACES) == 14
    assert "are thirteen published spaces and a grammar" in (ROOT / "docs" / "tutorial.md").read_text()
    assert "[thirteen published spaces]" in README.read_text()
