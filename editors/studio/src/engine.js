// What answers the page's requests: the server that the page came from, or Python in a worker of the page.
// Only the newest request of each kind is answered; a request that a newer one replaces resolves to null.

export class RequestError extends Error {}

/** The server of `archir studio`. */
export class Server {
  constructor() {
    this.token = new URLSearchParams(location.search).get("token") || "";
    this.page = crypto.randomUUID();
    this.running = new Map();
  }

  async fetch(path, fields, signal) {
    const headers = { Authorization: `Bearer ${this.token}` };
    let response;
    try {
      response = await fetch(path, fields === undefined ? { headers } : {
        method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(fields), signal,
      });
    } catch (error) {
      if (signal && signal.aborted) return null;
      throw new RequestError("The studio does not answer. Is `archir studio` still running?");
    }
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new RequestError(answer.error || `The studio answered with status ${response.status}.`);
    return answer;
  }

  /** Return the name, text and digest of the file; text and digest are null if there is no file. */
  file() {
    return this.fetch("text");
  }

  async ask(kind, fields) {
    const before = this.running.get(kind);
    if (before) before.abort();
    const controller = new AbortController();
    this.running.set(kind, controller);
    try {
      const answer = await this.fetch(`ask/${kind}`, { ...fields, page: this.page }, controller.signal);
      return this.running.get(kind) === controller ? answer : null;
    } catch (error) {
      if (this.running.get(kind) !== controller) return null;
      throw error;
    } finally {
      if (this.running.get(kind) === controller) this.running.delete(kind);
    }
  }

  save(text, digest) {
    return this.fetch("save", { text, digest });
  }
}

/** Python in a worker, which answers one request at a time. */
export class Playground {
  /** `onProgress` is called with the loaded share of Python's files, from 0 to 1, and with null when Python runs. */
  constructor(onProgress) {
    this.prepared = [];
    this.waiting = new Map();
    this.running = null;
    this.worker = new Worker(`worker.js?bytes=${document.documentElement.dataset.bytes}`, { type: "module" });
    this.ready = new Promise((resolve, reject) => {
      this.worker.onmessage = ({ data }) => {
        if (data.share !== undefined) onProgress(data.share);
        else if (data.failure) reject(new RequestError(data.failure));
        else if (data.ready) resolve(data.ready);
        else this.finish(data);
      };
      this.worker.onerror = () => reject(new RequestError("Python cannot be started in this browser."));
    });
    this.ready.then(() => {
      onProgress(null);
      this.started = true;
      this.next();
    }, () => onProgress(null));
  }

  /** Return no file. The requests in `first.json`, about the first example, are answered from there until Python runs. */
  async file() {
    this.prepared = await fetch("first.json").then((response) => response.json()).catch(() => []);
    return { name: "space.arch", text: null, digest: null };
  }

  async ask(kind, fields) {
    const isSame = (entry) => entry.kind === kind && Object.entries(entry.fields).every(([name, value]) => fields[name] === value);
    const prepared = this.started ? undefined : this.prepared.find(isSame);
    if (prepared) return prepared.answer;
    const answer = new Promise((resolve, reject) => {
      const before = this.waiting.get(kind);
      if (before) before.resolve(null);
      this.waiting.delete(kind);
      this.waiting.set(kind, { kind, fields, resolve, reject });
      this.next();
    });
    return this.ready.then(() => answer);
  }

  next() {
    if (!this.started || this.running || !this.waiting.size) return;
    this.running = this.waiting.values().next().value;
    this.waiting.delete(this.running.kind);
    this.worker.postMessage({ kind: this.running.kind, fields: JSON.stringify(this.running.fields) });
  }

  finish(data) {
    const { kind, resolve, reject } = this.running;
    this.running = null;
    if (this.waiting.has(kind)) resolve(null);
    else if (data.error) reject(new RequestError(data.error));
    else resolve(JSON.parse(data.answer));
    this.next();
  }
}
