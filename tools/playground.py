"""The studio as static files, with Python inside of the browser: python tools/playground.py FOLDER

Needs `npm ci` in editors/studio, and node: Pyodide and the compiler come from there. Nothing is asked of a network.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

from archir.tools.studio.server import content_security_policy

ROOT = Path(__file__).resolve().parent.parent
STUDIO = ROOT / "editors" / "studio"
PAGE = ROOT / "archir" / "tools" / "studio" / "page"
PYODIDE = STUDIO / "node_modules" / "pyodide"
EXAMPLE = ROOT / "examples" / "nas_bench_201" / "nas_bench_201.arch"
MOST_BYTES = 15_000_000
PACKAGES = ("archir", "archir_grammar", "lark", "networkx")
LEFT_OUT = ("/tests/", "/__pycache__/", "/studio/page/", "/readers/digits/", "/lark/__pyinstaller/", "/archir/cli/")
"""Parts of packages that a page has no use for."""

ENCODINGS = {"__init__", "aliases", "ascii", "cp437", "idna", "latin_1", "punycode", "utf_16_le", "utf_8", "utf_8_sig"}
UNUSED = {
    "_pyrepl", "ftplib", "imaplib", "mailbox", "pickletools", "poplib", "smtplib", "turtle", "wsgiref", "xmlrpc",
}  # fmt: skip
"""Modules of Python that nothing here imports."""


def build(folder: Path) -> dict[str, object]:
    """Write the files. Raises RuntimeError if they are too many bytes."""
    if not PYODIDE.exists():
        raise SystemExit("run `npm ci` in editors/studio first")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "pyodide").mkdir(parents=True)
    for name in ("pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm"):
        shutil.copy(PYODIDE / name, folder / "pyodide" / name)
    _standard_library(folder / "pyodide" / "python_stdlib.zip")
    lock = json.loads((PYODIDE / "pyodide-lock.json").read_text())
    (folder / "pyodide" / "pyodide-lock.json").write_text(json.dumps({"info": lock["info"], "packages": {}}))
    for name in ("studio.css", "studio.js"):
        shutil.copy(PAGE / name, folder / name)
    shutil.copy(STUDIO / "playground" / "worker.js", folder / "worker.js")
    (folder / "index.html").write_text(_index((PAGE / "index.html").read_text()))
    (folder / "LICENSES.txt").write_text(_licences())
    packed, compiled = folder / "sources.zip", folder / "archir.zip"
    _pack(packed)
    told = subprocess.run(
        ["node", "playground/pack.mjs", str(packed.resolve()), str(compiled.resolve())],
        cwd=STUDIO, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    packed.unlink()
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > MOST_BYTES:
        raise RuntimeError(f"{size:,} bytes are more than {MOST_BYTES:,}")
    return {"bytes": size, **json.loads(told.splitlines()[-1])}


def _index(page: str) -> str:
    """The page, which asks its worker, and says itself what it may do."""
    page = page.replace('data-engine="server"', 'data-engine="worker"')
    allowed = content_security_policy(" 'wasm-unsafe-eval'")
    page = page.replace("<title>", f'<meta http-equiv="Content-Security-Policy" content="{allowed}">\n<title>', 1)
    return page.replace("archir studio</title>", "archir playground</title>")


def _standard_library(path: Path) -> None:
    """Python's own modules but for terminals, servers, mail and the encodings of other times."""
    with (
        zipfile.ZipFile(PYODIDE / "python_stdlib.zip") as whole,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as kept,
    ):
        for name in whole.namelist():
            folder, _, file = name.partition("/")
            encoding = folder == "encodings" and file.removesuffix(".py") not in ENCODINGS
            if not encoding and folder.removesuffix(".py") not in UNUSED:
                kept.writestr(name, whole.read(name))


def _pack(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.write(EXAMPLE, "example.arch")
        for name in PACKAGES:
            spec = find_spec(name)
            assert spec is not None
            assert spec.submodule_search_locations
            top = Path(next(iter(spec.submodule_search_locations)))
            for file in sorted(top.rglob("*")):
                inside = f"{name}/{file.relative_to(top).as_posix()}"
                if file.is_file() and not any(part in f"/{inside}" for part in LEFT_OUT):
                    packed.write(file, inside)


def _licences() -> str:
    texts = [(PAGE / "LICENSES.txt").read_text(), (ROOT / "LICENSE").read_text()]
    for name in ("lark", "networkx"):
        found = distribution(name)
        files = [file for file in found.files or [] if "licen" in file.name.lower()]
        texts += [f"{name} {found.version}\n\n{file.read_text()}" for file in files]
    version = json.loads((PYODIDE / "package.json").read_text())["version"]
    texts.append(
        f"Pyodide {version}, Mozilla Public License 2.0: its source is at https://github.com/pyodide/pyodide, the "
        "licence at https://mozilla.org/MPL/2.0. It contains Python: https://docs.python.org/3/license.html\n"
    )
    return f"\n{'=' * 72}\n\n".join(texts)


if __name__ == "__main__":
    print(json.dumps(build(Path(sys.argv[1]))))
