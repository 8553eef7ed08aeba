"""Write the playground, the studio as static files: python tools/playground.py FOLDER [--numpy WHEEL]

Python runs in the browser. Needs node and `npm ci` in editors/studio, which brings Pyodide and the bundler. Without
`--numpy`, the wheel of numpy is downloaded from Pyodide's server; its SHA-256 must be that of Pyodide's lock.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import urllib.request
import zipfile
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from archir.tools.studio.server import content_security_policy
from archir.tools.studio.session import Session

ROOT = Path(__file__).resolve().parent.parent
STUDIO = ROOT / "editors" / "studio"
PAGE = ROOT / "archir" / "tools" / "studio" / "page"
PYODIDE = STUDIO / "node_modules" / "pyodide"
EXAMPLE = ROOT / "examples" / "nas_bench_201" / "nas_bench_201.arch"
SERVER = "https://cdn.jsdelivr.net/pyodide"
"""Where Pyodide's packages are."""
MAX_BYTES = 15_000_000
"""Maximum size of all files but numpy's wheel."""
PACKAGES = ("archir", "archir_grammar", "lark", "networkx")
"""Python packages of the playground."""
EXCLUDED = ("/tests/", "/__pycache__/", "/studio/page/", "/readers/digits/", "/lark/__pyinstaller/", "/archir/cli/")
"""Parts of packages that the page does not need."""

ENCODINGS = {"__init__", "aliases", "ascii", "cp437", "idna", "latin_1", "punycode", "utf_16_le", "utf_8", "utf_8_sig"}
"""Encodings of Python's standard library that the page keeps."""
UNUSED = {
    "_pyrepl", "ftplib", "imaplib", "mailbox", "pickletools", "poplib", "smtplib", "turtle", "wsgiref", "xmlrpc",
}  # fmt: skip
"""Modules of Python's standard library that no package of the page imports."""


def build(folder: Path, numpy: Path | None) -> dict[str, object]:
    """Write the files; `numpy` is the wheel for Pyodide. Raises RuntimeError if they are too many bytes."""
    if not PYODIDE.exists():
        raise SystemExit("run `npm ci` in editors/studio first")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "pyodide").mkdir(parents=True)
    for name in ("pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm"):
        shutil.copy(PYODIDE / name, folder / "pyodide" / name)
    _standard_library(folder / "pyodide" / "python_stdlib.zip")
    lock = json.loads((PYODIDE / "pyodide-lock.json").read_text())
    entry = lock["packages"]["numpy"]
    wheel = folder / "pyodide" / entry["file_name"]
    wheel.write_bytes(_numpy_wheel(entry, numpy))
    packages = {"numpy": entry}
    (folder / "pyodide" / "pyodide-lock.json").write_text(json.dumps({"info": lock["info"], "packages": packages}))
    (folder / "LICENSES.txt").write_text(_licences(wheel))
    sources, compiled = folder / "sources.zip", folder / "archir.zip"
    _pack(sources)
    report = subprocess.run(
        ["node", "playground/pack.mjs", str(sources.resolve()), str(compiled.resolve()), str(wheel.parent.resolve())],
        cwd=STUDIO, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    sources.unlink()
    fetched = sum(
        path.stat().st_size
        for path in (compiled, *(folder / "pyodide").iterdir())
        if path.suffix not in (".js", ".mjs")
    )
    write_page(folder, fetched)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size - wheel.stat().st_size > MAX_BYTES:
        raise RuntimeError(f"{size:,} bytes are more than {MAX_BYTES:,} and numpy's wheel")
    return {"bytes": size, **json.loads(report.splitlines()[-1])}


def _numpy_wheel(entry: dict[str, Any], file: Path | None) -> bytes:
    """Return the wheel of an entry of Pyodide's lock file, from a file or from Pyodide's server."""
    url = f"{SERVER}/v{_pyodide_version()}/full/{entry['file_name']}"
    try:
        content = file.read_bytes() if file else urllib.request.urlopen(url, timeout=60).read()
    except OSError as error:
        raise SystemExit(f"cannot read {file or url}: {error}; name a copy of the wheel by --numpy") from None
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise SystemExit(f"{file or url} is not the wheel that Pyodide {_pyodide_version()} names: SHA-256 differs")
    return content


def _pyodide_version() -> str:
    return str(json.loads((PYODIDE / "package.json").read_text())["version"])


def write_page(folder: Path, fetched: int) -> None:
    """Write the page, and in `first.json` what it shows of the first example before Python runs.

    `fetched` is the number of bytes that the worker fetches before Python runs.
    """
    for name in ("studio.css", "studio.js"):
        shutil.copy(PAGE / name, folder / name)
    shutil.copy(STUDIO / "playground" / "worker.js", folder / "worker.js")
    session, text = Session(), {"text": EXAMPLE.read_text()}
    picture = text | {"depth": 1, "heat": "macs", "architecture": None}
    requests = [("check", text), ("picture", picture), ("costs", text)]
    answers = [{"kind": kind, "fields": fields, "answer": session.ask(kind, fields)} for kind, fields in requests]
    (folder / "first.json").write_text(json.dumps(answers))
    (folder / "index.html").write_text(_index((PAGE / "index.html").read_text(), fetched))


def _index(page: str, fetched: int) -> str:
    """Return the page with a worker as its engine, and with its content security policy."""
    page = page.replace('data-engine="server"', f'data-engine="worker" data-bytes="{fetched}"')
    allowed = content_security_policy(" 'wasm-unsafe-eval'")
    page = page.replace("<title>", f'<meta http-equiv="Content-Security-Policy" content="{allowed}">\n<title>', 1)
    return page.replace("archir studio</title>", "archir playground</title>").replace(
        "<span>studio", "<span>playground"
    )


def _standard_library(path: Path) -> None:
    """Write Python's standard library without modules for terminals, servers and mail, and without old encodings."""
    with (
        zipfile.ZipFile(PYODIDE / "python_stdlib.zip") as source,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target,
    ):
        for name in source.namelist():
            folder, _, file = name.partition("/")
            encoding = folder == "encodings" and file.removesuffix(".py") not in ENCODINGS
            if not encoding and folder.removesuffix(".py") not in UNUSED:
                target.writestr(name, source.read(name))


def _pack(path: Path) -> None:
    """Write the sources of the packages and the example as a zip file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.write(EXAMPLE, "example.arch")
        for name in PACKAGES:
            spec = find_spec(name)
            assert spec is not None
            assert spec.submodule_search_locations
            top = Path(next(iter(spec.submodule_search_locations)))
            for file in sorted(top.rglob("*")):
                inside = f"{name}/{file.relative_to(top).as_posix()}"
                if file.is_file() and not any(part in f"/{inside}" for part in EXCLUDED):
                    packed.write(file, inside)


def _licences(wheel: Path) -> str:
    texts = [(PAGE / "LICENSES.txt").read_text(), (ROOT / "LICENSE").read_text()]
    for name in ("lark", "networkx"):
        package = distribution(name)
        files = [file for file in package.files or [] if "licen" in file.name.lower()]
        texts += [f"{name} {package.version}\n\n{file.read_text()}" for file in files]
    with zipfile.ZipFile(wheel) as packed:
        files = [name for name in packed.namelist() if ".dist-info/" in name and "licen" in name.lower()]
        texts += [f"{wheel.name}\n\n{packed.read(name).decode()}" for name in files]
    texts.append(
        f"Pyodide {_pyodide_version()}, Mozilla Public License 2.0: its source is https://github.com/pyodide/pyodide, "
        "the licence at https://mozilla.org/MPL/2.0. It contains Python: https://docs.python.org/3/license.html\n"
    )
    return f"\n{'=' * 72}\n\n".join(texts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--numpy", type=Path, metavar="WHEEL", help="numpy's wheel for this Pyodide")
    options = parser.parse_args()
    print(json.dumps(build(options.folder, options.numpy)))
