// The scopes that VS Code's own engine gives: texts as JSON on standard input, [begin, end, scope] of each on standard output.

const fs = require("node:fs");
const path = require("node:path");
const oniguruma = require("vscode-oniguruma");
const { INITIAL, Registry, parseRawGrammar } = require("vscode-textmate");

const FILE = path.join(__dirname, "..", "syntaxes", "arch.tmLanguage.json");

async function engine() {
  await oniguruma.loadWASM(fs.readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm")));
  const registry = new Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
      createOnigString: (text) => new oniguruma.OnigString(text),
    }),
    loadGrammar: async () => parseRawGrammar(fs.readFileSync(FILE, "utf8"), FILE),
  });
  return registry.loadGrammar("source.arch");
}

function scopes(grammar, text) {
  const found = [];
  let state = INITIAL;
  let begin = 0;
  for (const line of text.split("\n")) {
    const done = grammar.tokenizeLine(line, state);
    state = done.ruleStack;
    for (const token of done.tokens) {
      const scope = token.scopes[token.scopes.length - 1];
      const end = Math.min(token.endIndex, line.length);
      if (scope !== "source.arch" && token.startIndex < end) found.push([begin + token.startIndex, begin + end, scope]);
    }
    begin += line.length + 1;
  }
  return found;
}

engine().then((grammar) => {
  const texts = JSON.parse(fs.readFileSync(0, "utf8"));
  process.stdout.write(JSON.stringify(texts.map((text) => scopes(grammar, text))));
});
