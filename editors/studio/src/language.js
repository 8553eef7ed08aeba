// Syntax highlighting and indentation of programs.

import { HighlightStyle, StreamLanguage } from "@codemirror/language";
import { tags } from "@lezer/highlight";

export const KEYWORDS = new Set(/* a test compares them with the parser's */ [
  "and", "as", "block", "cell", "choose", "const", "else", "false", "for", "if", "import", "in", "input",
  "match", "net", "none", "not", "of", "or", "output", "own", "repeat", "require", "return", "true", "where",
]);

export const arch = StreamLanguage.define({
  name: "arch",
  startState: () => ({ depth: 0 }),
  token(stream, state) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^#.*/)) return "comment";
    if (stream.match(/^"[^"]*"?/)) return "string";
    if (stream.match(/^@\w+/)) return "attributeName";
    if (stream.match(/^\d[\d_]*(\.\d+)?(e[+-]?\d+)?[A-Za-z]*/)) return "number";
    if (stream.match(/^\|>/)) return "operatorKeyword";
    if (stream.match(/^(f|i|u|bf)\d+(?=\s*\[)/)) return "typeName";
    const word = stream.match(/^[A-Za-z_]\w*/);
    if (word) {
      if (KEYWORDS.has(word[0])) return "keyword";
      if (stream.match(/^\s*\(/, false)) return "variableName.function";
      if (stream.match(/^\s*[:=](?!=)/, false)) return "propertyName";
      return "variableName";
    }
    const char = stream.next();
    if ("{[(".includes(char)) state.depth += 1;
    else if ("}])".includes(char)) state.depth = Math.max(0, state.depth - 1);
    return "{[()]},:".includes(char) ? "punctuation" : "operator";
  },
  indent: (state, after, context) => context.unit * (state.depth - (/^\s*[}\])]/.test(after) ? 1 : 0)),
  languageData: {
    commentTokens: { line: "#" },
    indentOnInput: /^\s*[}\])]$/,
    closeBrackets: { brackets: ["(", "[", "{", '"'] },
  },
});

export const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--keyword)", fontWeight: "600" },
  { tag: tags.operatorKeyword, color: "var(--keyword)" },
  { tag: tags.comment, color: "var(--comment)", fontStyle: "italic" },
  { tag: [tags.string, tags.attributeName], color: "var(--string)" },
  { tag: [tags.number, tags.typeName], color: "var(--number)" },
  { tag: tags.function(tags.variableName), color: "var(--call)" },
  { tag: tags.propertyName, color: "var(--property)" },
]);
