// Python in a worker, which answers the requests that `archir studio` answers. All files come from this folder.

import { loadPyodide } from "./pyodide/pyodide.mjs";

const START = `
import json, sys
sys.path.insert(0, "/archir")
from archir.tools.studio.session import RequestError, Session
session = Session()

def ask(kind, fields):
    try:
        return "answer", json.dumps(session.ask(kind, json.loads(fields)))
    except RequestError as error:
        return "error", str(error)
    except ModuleNotFoundError as error:
        return "error", f"this needs {error.name}, which the playground does not have; use archir studio"
ask
`;

const TOTAL = Number(new URLSearchParams(self.location.search).get("bytes")); // of all files that are fetched
let loaded = 0;

/** Count the bytes of all responses, and post the share that has arrived. */
const fetchFile = self.fetch.bind(self);
self.fetch = async (...request) => {
  const response = await fetchFile(...request);
  if (!response.ok || !response.body) return response;
  const counter = new TransformStream({
    transform(part, controller) {
      loaded += part.byteLength;
      self.postMessage({ share: Math.min(1, loaded / TOTAL) });
      controller.enqueue(part);
    },
  });
  return new Response(response.body.pipeThrough(counter), { status: response.status, headers: response.headers });
};

async function start() {
  const begin = performance.now();
  const [pyodide, archive] = await Promise.all([
    loadPyodide({ indexURL: new URL("pyodide/", self.location).href, packages: ["numpy"] }),
    fetch("archir.zip").then((response) => response.arrayBuffer()),
  ]);
  const loadedAt = performance.now();
  pyodide.unpackArchive(archive, "zip", { extractDir: "/archir" });
  const ask = pyodide.runPython(START);
  self.onmessage = ({ data }) => {
    const answer = ask(data.kind, data.fields);
    const [field, text] = answer.toJs();
    answer.destroy();
    self.postMessage({ [field]: text });
  };
  self.postMessage({ ready: { load: loadedAt - begin, start: performance.now() - loadedAt } });
}

start().catch((error) => self.postMessage({ failure: `Python cannot be started: ${error}` }));
