// Who answers: the server that the page came from, or Python in a worker of this page.
// Of each kind of question the newest counts; the answer to one that was overtaken is null.

export class Refused extends Error {}

/** Answers of `archir studio`. */
export class Server {
  constructor() {
    this.token = new URLSearchParams(location.search).get("token") || "";
    this.page = crypto.randomUUID();
    this.asking = new Map();
  }

  async fetch(path, fields, signal) {
    const headers = { Authorization: `Bearer ${this.token}` };
    let answer;
    try {
      answer = await fetch(path, fields === undefined ? { headers } : {
        method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(fields), signal,
      });
    } catch (error) {
      if (signal && signal.aborted) return null;
      throw new Refused("The studio does not answer: is `archir studio` still running?");
    }
    const said = await answer.json().catch(() => ({ refused: `The studio said ${answer.status}.` }));
    if (!answer.ok) throw Object.assign(new Refused(said.refused || `The studio said ${answer.status}.`), { status: answer.status });
    return said;
  }

  async begin() {
    return this.fetch("text");
  }

  async ask(kind, fields) {
    const before = this.asking.get(kind);
    if (before) before.abort();
    const ending = new AbortController();
    this.asking.set(kind, ending);
    try {
      const said = await this.fetch(`ask/${kind}`, { ...fields, page: this.page }, ending.signal);
      return this.asking.get(kind) === ending ? said : null;
    } catch (error) {
      if (error.status === 409 || this.asking.get(kind) !== ending) return null;
      throw error;
    } finally {
      if (this.asking.get(kind) === ending) this.asking.delete(kind);
    }
  }

  save(text, mark) {
    return this.fetch("save", { text, mark });
  }
}

/** Answers of Python in a worker: one after the other, the newest of each kind. */
export class Playground {
  constructor(told) {
    this.worker = new Worker("worker.js", { type: "module" });
    this.waiting = new Map();
    this.busy = null;
    this.begun = new Promise((done, failed) => {
      this.worker.onmessage = ({ data }) => {
        if (data.told) told(data.told);
        else if (data.failed) failed(new Refused(data.failed));
        else if (data.ready) done(data.ready);
        else this.answered(data);
      };
      this.worker.onerror = () => failed(new Refused("Python could not be started in this browser."));
    });
  }

  begin() {
    return this.begun;
  }

  ask(kind, fields) {
    return new Promise((done, failed) => {
      const before = this.waiting.get(kind);
      if (before) before.done(null);
      this.waiting.delete(kind);
      this.waiting.set(kind, { kind, fields, done, failed });
      this.next();
    });
  }

  next() {
    if (this.busy || !this.waiting.size) return;
    this.busy = this.waiting.values().next().value;
    this.waiting.delete(this.busy.kind);
    this.worker.postMessage({ kind: this.busy.kind, fields: JSON.stringify(this.busy.fields) });
  }

  answered(data) {
    const { kind, done, failed } = this.busy;
    this.busy = null;
    if (this.waiting.has(kind)) done(null);
    else if (data.refused) failed(new Refused(data.refused));
    else done(JSON.parse(data.answer));
    this.next();
  }
}
