// The extension in an editor that is not there, and the server that it starts.

const assert = require("node:assert");
const { execFileSync, spawn } = require("node:child_process");
const Module = require("node:module");
const path = require("node:path");
const test = require("node:test");
const protocol = require("vscode-languageserver-protocol/node");

const ARCHIR = process.env.ARCHIR || path.join(__dirname, "..", "..", "..", ".venv", "bin", "archir");

/** The extension, with an editor that keeps what it is told. */
function extension(command, start) {
  const told = { servers: [], stopped: 0, messages: [], commands: {}, changed: undefined };
  const editor = {
    commands: { registerCommand: (name, run) => (told.commands[name] = run) },
    window: { showErrorMessage: (message) => told.messages.push(message) },
    workspace: {
      getConfiguration: () => ({ get: () => command }),
      createFileSystemWatcher: (pattern) => pattern,
      onDidChangeConfiguration: (run) => (told.changed = run),
    },
  };
  class LanguageClient {
    constructor(id, name, server, options) {
      told.servers.push({ server, options });
    }
    start = start;
    async stop() {
      told.stopped += 1;
    }
  }
  const load = Module._load;
  Module._load = (name, ...rest) =>
    name === "vscode" ? editor : name === "vscode-languageclient/node" ? { LanguageClient } : load(name, ...rest);
  try {
    const file = require.resolve("../src/extension.js");
    delete require.cache[file];
    return [require(file), told];
  } finally {
    Module._load = load;
  }
}

test("the command of the settings is started, and anew when it changes", async () => {
  const [{ activate, deactivate }, told] = extension(["/a/archir", "lsp"], async () => {});
  await activate({ subscriptions: [] });
  assert.deepStrictEqual(told.servers[0].server, { command: "/a/archir", args: ["lsp"] });
  assert.deepStrictEqual(told.servers[0].options.documentSelector, [{ language: "arch" }]);
  await told.changed({ affectsConfiguration: (name) => name === "archir.command" });
  await told.changed({ affectsConfiguration: () => false });
  assert.deepStrictEqual([told.servers.length, told.stopped], [2, 1]);
  await told.commands["archir.restart"]();
  await deactivate();
  assert.deepStrictEqual([told.servers.length, told.stopped, told.messages], [3, 3, []]);
});

test("the bundle needs nothing but VS Code and Node", () => {
  execFileSync(process.execPath, ["bundle.mjs"], { cwd: path.join(__dirname, "..") });
  const anything = new Proxy(class {}, { get: (target, name) => (name === "prototype" ? target.prototype : anything) });
  const needed = new Set();
  const load = Module._load;
  Module._load = (name, ...rest) => {
    if (name === "vscode") return anything;
    if (!Module.isBuiltin(name) && !path.isAbsolute(name)) needed.add(name);
    return load(name, ...rest);
  };
  try {
    const { activate, deactivate } = require(path.join(__dirname, "..", "dist", "extension.js"));
    assert.deepStrictEqual([typeof activate, typeof deactivate, [...needed]], ["function", "function", []]);
  } finally {
    Module._load = load;
  }
});

test("a server that does not start is told of", async () => {
  const [{ activate, deactivate }, told] = extension(["archir", "lsp"], async () => {
    throw new Error("ENOENT");
  });
  await activate({ subscriptions: [] });
  assert.match(told.messages[0], /archir does not start \(ENOENT\).*pip install 'archir\[lsp\]'/);
  await deactivate();
});

test("the server says what is wrong, to the protocol that VS Code speaks", { timeout: 60_000 }, async () => {
  const server = spawn(ARCHIR, ["lsp"], { stdio: ["pipe", "pipe", "inherit"] });
  const connection = protocol.createProtocolConnection(server.stdout, server.stdin);
  connection.listen();
  const done = await connection.sendRequest("initialize", { processId: process.pid, rootUri: null, capabilities: {} });
  assert.ok(done.capabilities.hoverProvider);
  await connection.sendNotification("initialized", {});
  const told = new Promise((found) => connection.onNotification("textDocument/publishDiagnostics", found));
  const text = "net tiny {\n    input x: f32[3, 8, 8]\n    output y = x |> cnov(8)\n}\n";
  const document = { uri: "untitled:tiny.arch", languageId: "arch", version: 1, text };
  await connection.sendNotification("textDocument/didOpen", { textDocument: document });
  const { diagnostics } = await told;
  assert.deepStrictEqual(diagnostics.map((one) => [one.code, one.range.start.line]), [["A0201", 2]]);
  await connection.sendRequest("shutdown");
  await connection.sendNotification("exit");
});
