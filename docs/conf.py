"""Sphinx configuration of the documentation: `make docs`.

The source folder is the repository's root, so that links between pages work on the forge as well as in the built
pages, and pages of diagnostics and examples need no copies.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from docutils import nodes
from packaging.version import Version
from pygments.lexers.special import TextLexer
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

from archir.utils.files import write_atomic
from archir_grammar.highlighting import ArchLexer

HERE = Path(__file__).resolve().parent
KEYWORDS: dict[str, list[str]] = tomllib.loads((HERE / "keywords.toml").read_text("utf-8"))
"""Phrases that readers search for, by the page that answers them."""
MIN_DESCRIPTION, MAX_DESCRIPTION = 60, 160
"""Numbers of characters of a page's description, which search engines show."""

project = "archir"
author = "the authors of archir"
release = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]["version"]
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "docs/*.ipynb",
    "docs/api/*.md",
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
default_role = "code"
"""Docstrings mark code with single backticks."""
autodoc_member_order = "bysource"
autosummary_generate = False
napoleon_numpy_docstring = False
napoleon_use_rtype = False
html_theme = "furo"
html_title = f"archir {release}"
html_logo = html_favicon = "static/logo.svg"
html_baseurl = os.environ.get("SITE_URL", "")
"""Where the site is published: for canonical links, and for the links of the page that a server shows for errors."""
html_theme_options = {
    "source_repository": os.environ.get("SITE_REPOSITORY", ""),
    "source_branch": "main",
    "source_directory": "",
}
"""With a repository on a forge, such as https://github.com/NAME/archir, every page links to its source."""
html_additional_pages = {"404": "404.html"}
templates_path = ["templates"]
html_extra_path = ["root"]
html_static_path = ["static"]
html_css_files = ["archir.css"]
html_js_files = ["archir.js"]
html_search_scorer = str(HERE / "scorer.js")
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
copybutton_selector = "div:not(.highlight-text):not(.highlight-none) > div.highlight > pre"
"""No copy buttons on outputs and diagnostics."""
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
copybutton_copy_empty_lines = False

FILE_SNIPPET = re.compile(r"^```(\w+) (\S+\.\w+)((?: \S+)*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A snippet of a file, with its name after the language, as in `tests/documents.py`."""


CODE = re.compile(r"\bA\d{4}\b")
PAGE = re.compile(r"\bdocs/(\w+)\.md\b")
"""A code of a diagnostic, and a page of the documentation, in a docstring."""


class Search(SearchEnglish):
    """The language of the search: English without the words of which questions are made."""

    stopwords = SearchEnglish.stopwords | {
        "archir", "can", "do", "does", "from", "get", "have", "how", "i", "me", "must", "my", "should", "use", "using",
        "want", "what", "when", "where", "which", "why", "with", "you",
    }  # fmt: skip


def setup(app: Sphinx) -> None:
    """Register lexers and event handlers with Sphinx."""
    app.add_lexer("arch", ArchLexer)  # needed if archir is on the path without being installed
    app.add_lexer("csv", TextLexer)
    app.add_search_language(Search)
    app.connect("source-read", _add_captions)
    app.connect("doctree-read", _highlight_cells)
    app.connect("doctree-read", _add_keywords)
    app.connect("autodoc-process-docstring", _link_pages)
    app.connect("html-page-context", _add_head)
    app.connect("build-finished", _list_version)


def _add_captions(app: Sphinx, document: str, source: list[str]) -> None:
    """Turn names of files into captions, because the forge does not show what follows a snippet's language."""
    source[0] = FILE_SNIPPET.sub(_captioned, source[0])


def _highlight_cells(app: Sphinx, document: nodes.document) -> None:
    """Highlight notebook cells that are archir programs."""
    for block in document.findall(nodes.literal_block):
        if block.astext().startswith("%%arch"):
            block["language"] = "arch"


def _add_keywords(app: Sphinx, document: nodes.document) -> None:
    """Add a page's keywords to the index of the search: phrases as they are typed, and each of their words."""
    phrases = KEYWORDS.get(app.env.docname, [])
    if phrases:
        app.env.note_dependency(str(HERE / "keywords.toml"))
        anchor = document.next_node(nodes.section)["ids"][0]
        entries = [("single", phrase, anchor, "main", None) for phrase in phrases]
        words = dict.fromkeys(word for phrase in phrases for word in phrase.split())
        document.insert(0, addnodes.index(entries=entries))
        document.insert(0, nodes.meta(name="keywords", content=", ".join(words)))


def _link_pages(app: Sphinx, kind: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Make codes of diagnostics and names of pages in docstrings links, but not in the output of examples."""
    examples = next((number for number, line in enumerate(lines) if line == ".. rubric:: Examples"), len(lines))
    for number, line in enumerate(lines[:examples]):
        line = CODE.sub(r":doc:`\g<0> </archir/diagnostics/codes/\g<0>>`", line)
        lines[number] = PAGE.sub(r":doc:`/docs/\1`", line)


def _add_head(app: Sphinx, page: str, template: str, context: dict[str, Any], document: nodes.document | None) -> None:
    """Describe a page by its first paragraph; resolve the links of the error page from the root of the site."""
    if page == "404":
        root = urlsplit(html_baseurl).path.rstrip("/")
        context["metatags"] = f'<base href="{root}/">\n'
    paragraph = None if document is None else document.next_node(nodes.paragraph)
    if document is None or paragraph is None:
        title = {"404": "Page not found", "search": "Search"}.get(page, "Index")
        text = f"{title}, a page of the documentation of archir, a compiler for neural architecture search."
    else:
        text = " ".join(paragraph.astext().split())
        if len(text) < MIN_DESCRIPTION:
            text = f"{document.next_node(nodes.title).astext()}. {text}"
    if len(text) > MAX_DESCRIPTION:
        text = text[: MAX_DESCRIPTION - 3].rpartition(" ")[0] + " ..."
    context["metatags"] = f'{context.get("metatags") or ""}<meta name="description" content="{escape(text)}">\n'


def _list_version(app: Sphinx, error: Exception | None) -> None:
    """Add this version to the list beside its folder, from which pages offer the versions, if it is published."""
    if error is None and app.builder.format == "html" and html_baseurl:
        file = Path(app.outdir).parent / "versions.json"
        versions = json.loads(file.read_text("utf-8")) if file.exists() else []
        url = f"{Path(app.outdir).name}/"
        versions = [{"version": release, "url": url}, *(entry for entry in versions if entry["url"] != url)]
        versions.sort(key=lambda entry: Version(entry["version"]), reverse=True)
        write_atomic(file, json.dumps(versions, indent=2).encode())


def _captioned(snippet: re.Match[str]) -> str:
    """Return a snippet of a file as a code block with a caption."""
    language, name, words, text = snippet.groups()
    caption = f"{name} (with a mistake)" if "wrong" in words.split() else name
    return f"```{{code-block}} {language}\n:caption: {caption}\n\n{text}```"
