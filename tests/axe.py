"""Accessibility of a page that a browser shows, as axe-core checks it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chromium import PROGRAM, Chromium
from tests.conftest import ROOT

AXE = ROOT / "editors" / "studio" / "node_modules" / "axe-core" / "axe.min.js"
needs_axe = pytest.mark.skipif(
    PROGRAM is None or not AXE.exists(), reason="needs chromium, and axe-core: `npm ci` in editors/studio"
)


def violations(browser: Chromium) -> Any:
    """Return the rules that the page violates, each with the HTML code of the elements that violate it."""
    browser.run(AXE.read_text("utf-8") + ";0")
    browser.run("void axe.run({ iframes: false }).then(result => { window.result = result; })")
    browser.until("!!window.result")
    assert browser.run("result.passes.length") > 10
    found = browser.run("result.violations.map(rule => [rule.id, rule.nodes.map(node => node.html)])")
    browser.run("delete window.result")
    return found
