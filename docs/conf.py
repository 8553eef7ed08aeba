"""How Sphinx builds the documentation: `make docs`.

The source folder is that of the repository: links from page to page are right on the forge and in what is built, and
the pages of diagnostics and examples are there without copies.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

from archir_grammar.highlighting import ArchLexer

HERE = Path(__file__).resolve().parent

project = "archir"
author = "the authors of archir"
release = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]["version"]
extensions = ["myst_nb", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "docs/*.ipynb",
    "docs/decisions/*.md",
    "examples/*/README.md",
    "archir/diagnostics/codes/*.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
]
exclude_patterns = [".*", "*/_build", "build", "dist", "tests", "runs", "demo"]
myst_heading_anchors = 3
nb_execution_mode = "off"
"""Notebooks have their outputs; a test runs them and compares."""
nb_render_error_lexer = "none"
html_theme = "furo"
html_title = f"archir {release}"
html_extra_path = ["root"]
html_static_path = ["static"]
html_css_files = ["archir.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
copybutton_selector = "div:not(.highlight-text):not(.highlight-none) > div.highlight > pre"
"""Output and diagnostics are read, not copied."""
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_copy_empty_lines = False

FILE = re.compile(r"^```(\w+) (\S+\.\w+)((?: \S+)*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A snippet that is a file, as `tests/documents.py` reads it, too: the file's name stands behind the language."""


def setup(app: Sphinx) -> None:
    """Add what Sphinx does not know."""
    app.add_lexer("arch", ArchLexer)  # where archir is on the path, but not installed
    app.add_lexer("csv", TextLexer)
    app.connect("source-read", _name_files)
    app.connect("doctree-read", _colour_cells)


def _name_files(app: Sphinx, document: str, source: list[str]) -> None:
    """Files' names are captions: on the forge, what stands behind a snippet's language is not shown."""
    source[0] = FILE.sub(_captioned, source[0])


def _colour_cells(app: Sphinx, document: nodes.document) -> None:
    """Cells that are programs have their colours."""
    for block in document.findall(nodes.literal_block):
        if block.astext().startswith("%%arch"):
            block["language"] = "arch"


def _captioned(snippet: re.Match[str]) -> str:
    language, name, words, text = snippet.groups()
    caption = f"{name} (with a mistake)" if "wrong" in words.split() else name
    return f"```{{code-block}} {language}\n:caption: {caption}\n\n{text}```"
