// The client of `archir lsp`: all that is said about a program is said there.

const { commands, window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

const INSTALL = "pip install 'archir[lsp]'";
let client;

/** Start the server that the settings name. */
async function start() {
  const [command, ...args] = workspace.getConfiguration("archir").get("command");
  const options = {
    documentSelector: [{ language: "arch" }],
    synchronize: { fileEvents: workspace.createFileSystemWatcher("**/*.arch") },
  };
  client = new LanguageClient("archir", "archir", { command, args }, options);
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    window.showErrorMessage(`${command} does not start (${error.message}). Is it installed (${INSTALL}), and does "archir.command" name it?`);
  }
}

async function stop() {
  await client?.stop();
  client = undefined;
}

async function restart() {
  await stop();
  await start();
}

async function activate(context) {
  context.subscriptions.push(
    commands.registerCommand("archir.restart", restart),
    workspace.onDidChangeConfiguration((change) => (change.affectsConfiguration("archir.command") ? restart() : undefined)),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
