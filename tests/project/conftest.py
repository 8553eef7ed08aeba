"""The site of the documentation, built once, served, and shown in a browser."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chromium import Chromium
from tests.conftest import ROOT
from tests.static_server import served_folder

PUBLISHED = {"SITE_URL": "https://example.org/archir/", "SITE_REPOSITORY": "https://github.com/example/archir"}
"""Where a site is published, for the links that need it."""


def sphinx(builder: str, folder: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-j", "2", "-b", builder, "-c", str(ROOT / "docs")]
    places = ["-d", str(folder / "trees"), str(ROOT), str(folder / builder)]
    done = subprocess.run([*command, *places], capture_output=True, text=True, env={**os.environ, **PUBLISHED})
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the documentation as it is built, without warnings."""
    folder = tmp_path_factory.mktemp("site")
    sphinx("html", folder)
    return folder / "html"


@pytest.fixture(scope="session")
def address(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that has the site in `archir/`, beside an older version with a single page in `old/`.

    `one/` has the site, too, beside the list of versions that its build wrote.
    """
    folder = tmp_path_factory.mktemp("served")
    (folder / "one").mkdir()
    for name in ("archir", "one/archir"):
        (folder / name).symlink_to(site)
    shutil.copy(site.parent / "versions.json", folder / "one")
    versions = [{"version": "0.2.0", "url": "archir/"}, {"version": "0.1.0", "url": "old/"}]
    (folder / "versions.json").write_text(json.dumps(versions))
    (folder / "old" / "docs").mkdir(parents=True)
    for name in ("index", "docs/tutorial"):
        (folder / "old" / f"{name}.html").write_text("<title>Old</title>")
    with served_folder(folder) as found:
        yield found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    chromium = Chromium(tmp_path_factory.mktemp("browser"))
    yield chromium
    chromium.close()
