"""The error message that the README shows, and the number of published spaces it lists."""

from __future__ import annotations

import pytest

from archir.diagnostics.errors import ArchError
from archir.language.elaboration.elaborate import elaborate
from tests.conftest import ROOT
from tests.documents import snippets

README = ROOT / "README.md"


def test_readme_error_message_is_current() -> None:
    """What is said of the README's program with an alternative that is too wide for a shortcut."""
    text = snippets(README, "arch")[0].text
    text = text.replace("skip:  identity", "wide:  conv(2 * width)")
    text = text.replace("x = x |> layer(width)", "x = x + (x |> layer(width))")
    with pytest.raises(ArchError) as caught:
        elaborate(text, "tiny.arch")
    assert str(caught.value) == snippets(README, "text")[0].text.rstrip()
    assert "`wide: conv(2 * width)` in place of `skip`, and a shortcut" in README.read_text()


def test_tutorial_and_readme_agree_on_number_of_spaces() -> None:
    rows = README.read_text().partition("| space | architectures |")[2].partition("<!-- end -->")[0]
    assert rows.count("(examples/") == 14
    assert "are fourteen published spaces" in (ROOT / "docs" / "tutorial.md").read_text()
