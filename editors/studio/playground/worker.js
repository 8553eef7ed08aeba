// Python in a worker: the session of `archir studio`, asked by messages. Loaded from this folder alone.

import { loadPyodide } from "./pyodide/pyodide.mjs";

const BEGIN = `
import json, sys, time
sys.path.insert(0, "/archir")
begun = time.monotonic()
from archir.tools.studio.request_fields import RequestError
from archir.tools.studio.session import Session
session = Session()

def ask(kind, fields):
    try:
        return "answer", json.dumps(session.ask(kind, json.loads(fields)))
    except RequestError as error:
        return "refused", str(error)
    except ModuleNotFoundError as error:
        return "refused", f"this needs {error.name}, which the playground does without: archir studio has it"
ask
`;

async function begin() {
  const start = performance.now();
  const [pyodide, packed] = await Promise.all([
    loadPyodide({ indexURL: new URL("pyodide/", self.location).href, packages: ["numpy"] }),
    fetch("archir.zip").then((found) => found.arrayBuffer()),
  ]);
  const booted = performance.now();
  self.postMessage({ told: "Loading archir …" });
  pyodide.unpackArchive(packed, "zip", { extractDir: "/archir" });
  const ask = pyodide.runPython(BEGIN);
  const ready = performance.now();
  self.onmessage = ({ data }) => {
    const from = performance.now();
    const answer = ask(data.kind, data.fields);
    const [how, text] = answer.toJs();
    answer.destroy();
    self.postMessage({ [how]: text, kind: data.kind, took: performance.now() - from });
  };
  self.postMessage({ ready: { name: "space.arch", text: null, mark: null, booted: booted - start, begun: ready - booted } });
}

begin().catch((error) => self.postMessage({ failed: `Python could not be started: ${error}` }));
