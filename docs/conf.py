"""Sphinx configuration of the documentation: `make docs`.

The source folder is the repository's root, so that links between pages work on the forge as well as in the built
pages, and pages of diagnostics and examples need no copies.
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
"""Notebooks store their outputs; a test runs them and compares."""
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
"""No copy buttons on outputs and diagnostics."""
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_copy_empty_lines = False

FILE_SNIPPET = re.compile(r"^```(\w+) (\S+\.\w+)((?: \S+)*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A snippet of a file, with its name after the language, as in `tests/documents.py`."""


def setup(app: Sphinx) -> None:
    """Register lexers and event handlers with Sphinx."""
    app.add_lexer("arch", ArchLexer)  # needed if archir is on the path without being installed
    app.add_lexer("csv", TextLexer)
    app.connect("source-read", _add_captions)
    app.connect("doctree-read", _highlight_cells)


def _add_captions(app: Sphinx, document: str, source: list[str]) -> None:
    """Turn names of files into captions, because the forge does not show what follows a snippet's language."""
    source[0] = FILE_SNIPPET.sub(_captioned, source[0])


def _highlight_cells(app: Sphinx, document: nodes.document) -> None:
    """Highlight notebook cells that are archir programs."""
    for block in document.findall(nodes.literal_block):
        if block.astext().startswith("%%arch"):
            block["language"] = "arch"


def _captioned(snippet: re.Match[str]) -> str:
    """Return a snippet of a file as a code block with a caption."""
    language, name, words, text = snippet.groups()
    caption = f"{name} (with a mistake)" if "wrong" in words.split() else name
    return f"```{{code-block}} {language}\n:caption: {caption}\n\n{text}```"
