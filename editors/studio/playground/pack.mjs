// Compiles the modules that the playground imports, with the Python that will run them:
// node pack.mjs IN.zip OUT.zip PYODIDE
// networkx is compiled without its docstrings. Modules that are not imported stay as they are, or are left out.

import { readFileSync, writeFileSync } from "node:fs";
import { loadPyodide } from "pyodide";

const [source, target, indexURL] = process.argv.slice(2);
const pyodide = await loadPyodide({ indexURL, packages: ["numpy"], stdout: () => {} });
pyodide.unpackArchive(new Uint8Array(readFileSync(source)), "zip", { extractDir: "/archir" });
const figures = pyodide.runPython(`
import json, os, py_compile, sys, time, zipfile
sys.path.insert(0, "/archir")
sys.dont_write_bytecode = True
program = open("/archir/example.arch").read()
os.remove("/archir/example.arch")
from archir.tools.studio.session import Session
session = Session()
kinds = {"check": {}, "picture": {"depth": 1}, "format": {}, "hover": {"at": 30}, "complete": {"at": 30}, "costs": {}, "within": {"bounds": {"macs": ["0", "90000000"]}}, "sample": {"seed": 1, "count": 2}}
for kind, fields in kinds.items():
    answer = session.ask(kind, {"text": program, **fields})
    assert not answer.get("problems"), (kind, answer)
samples = session.ask("sample", {"text": program, "seed": 1, "count": 2})["architectures"]
session.ask("diff", {"text": program, "one": samples[0]["choices"], "other": samples[1]["choices"]})
session.ask("sample", {"text": program, "seed": 1, "count": 2, "bounds": {"macs": ["0", "90000000"]}})
session.ask("check", {"text": program.replace("relu", "rellu")})
session.ask("check", {"text": program + "net {"})
used = {file for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None) or "").startswith("/archir/")}
OTHERS = {"backends", "data", "recipes", "reuse", "runs", "scoring", "search", "studies", "tabular"}
def left_out(path):  # searches, measurements and files of other kinds, which need what is not here
    parts = path.split("/")[3:]
    return parts[0] in OTHERS or parts[:2] == ["costs", "latencies"]

name_of = lambda path: path.split("/")[2]
took = []
for i in range(3):
    changed = program + f"# {i}\\n"
    begun = time.monotonic()
    assert session.ask("check", {"text": changed})["nets"]
    took.append(time.monotonic() - begun)
with zipfile.ZipFile("/out.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
    for folder, _, names in sorted(os.walk("/archir")):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith(".py") and path not in used and left_out(path):
                continue
            if path in used and name.endswith(".py"):
                py_compile.compile(path, path + "c", dfile=path[8:], doraise=True, optimize=2 if name_of(path) == "networkx" else 0, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
                path += "c"
            packed.write(path, path[8:])
json.dumps({"python": sys.version.split()[0], "compiled": len(used), "check_seconds": sorted(took)[1]})
`);
writeFileSync(target, pyodide.FS.readFile("/out.zip"));
console.log(figures);
