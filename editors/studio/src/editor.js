// The editor: CodeMirror in a shadow root, whose styles the content security policy of the page does not concern.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, snippetCompletion } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import {
  drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, hoverTooltip, keymap, lineNumbers,
} from "@codemirror/view";
import { make } from "./elements.js";
import { arch, colours } from "./language.js";

const TYPES = {
  keyword: "keyword", operation: "function", block: "function", function: "function", attribute: "property",
  property: "property", choice: "enum", const: "constant", library: "namespace", alias: "namespace", type: "type",
  tag: "enum", cost: "constant", local: "variable",
};

const theme = EditorView.theme({
  "&": { height: "100%", fontSize: "13.5px", backgroundColor: "transparent", color: "var(--ink)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6" },
  ".cm-content": { padding: "10px 0", caretColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--paper)", color: "var(--soft)", border: "none" },
  ".cm-lineNumbers .cm-gutterElement": { padding: "0 6px 0 14px", minWidth: "28px" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--line)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)", borderLeftWidth: "2px" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": { backgroundColor: "var(--select)" },
  ".cm-matchingBracket": { backgroundColor: "var(--select) !important", outline: "1px solid var(--rule)" },
  ".cm-selectionMatch": { backgroundColor: "var(--line)", outline: "1px solid var(--rule)" },
  ".cm-tooltip": {
    backgroundColor: "var(--room)", color: "var(--ink)", border: "1px solid var(--rule)", borderRadius: "8px",
    boxShadow: "0 6px 24px rgb(0 0 0 / .16)", maxWidth: "min(560px, 90vw)", overflow: "hidden",
  },
  ".cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "13px" },
  ".cm-tooltip-autocomplete > ul > li": { padding: "3px 10px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "inherit", opacity: ".75", fontStyle: "normal" },
  ".cm-hover": { padding: "8px 12px", font: "13px/1.5 var(--sans)", maxHeight: "300px", overflow: "auto", overflowWrap: "anywhere" },
  ".cm-hover p": { margin: "0 0 6px" },
  ".cm-hover pre": { margin: "0 0 6px", font: "12.5px/1.5 var(--mono)", whiteSpace: "pre-wrap" },
  ".cm-hover code": { font: "12.5px var(--mono)", backgroundColor: "var(--line)", padding: "1px 4px", borderRadius: "4px" },
  ".cm-diagnostic": { padding: "8px 12px", font: "13px/1.5 var(--sans)", whiteSpace: "pre-wrap", borderLeft: "4px solid var(--error)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--warning)" },
  ".cm-diagnosticAction": { backgroundColor: "var(--accent)", color: "var(--on-accent)", borderRadius: "5px", padding: "3px 9px", font: "inherit", margin: "6px 0 0" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--error)", textUnderlineOffset: "3px" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--warning)", textUnderlineOffset: "3px" },
  ".cm-panels": { backgroundColor: "var(--room)", color: "var(--ink)", borderColor: "var(--rule)" },
  ".cm-panel input, .cm-panel button": { font: "13px var(--sans)" },
  ".cm-textfield": { backgroundColor: "var(--paper)", color: "var(--ink)", border: "1px solid var(--edge)" },
  ".cm-button": { background: "var(--paper)", color: "var(--ink)", border: "1px solid var(--edge)" },
});

export class Editor {
  /** `onChange` is called when the text changes; `ask(kind, text, offset)` answers hovers and completions. */
  constructor(parent, { onChange, ask, keys }) {
    const root = parent.attachShadow({ mode: "open" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(":host{display:block}div.editor{height:100%}");
    root.adoptedStyleSheets = [sheet];
    const element = make("div", { class: "editor" });
    root.append(element, make("span", { id: "leave-hint", hidden: true }, "Press Escape and then Tab to leave the editor."));
    this.extensions = [
      lineNumbers(), lintGutter(), highlightSpecialChars(), history(), drawSelection(), indentOnInput(), bracketMatching(),
      closeBrackets(), highlightActiveLine(), highlightActiveLineGutter(), highlightSelectionMatches(), search({ top: true }),
      arch, syntaxHighlighting(colours), indentUnit.of("    "), theme,
      autocompletion({ override: [completion(ask)], icons: false }), hoverTooltip(hover(ask), { hoverTime: 350 }),
      keymap.of([...keys, ...closeBracketsKeymap, ...completionKeymap, ...lintKeymap, ...searchKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
      EditorView.contentAttributes.of({ "aria-label": "Program", "aria-describedby": "leave-hint", tabindex: "0", spellcheck: "false" }),
      EditorView.updateListener.of((update) => { if (update.docChanged) onChange(); }),
    ];
    this.view = new EditorView({ parent: element, root, state: this.newState("") });
    this.view.scrollDOM.removeAttribute("tabindex"); // its content has the focus
  }

  newState(text) {
    return EditorState.create({ doc: text, extensions: this.extensions });
  }

  get text() {
    return this.view.state.doc.toString();
  }

  /** Show another program, with an empty undo history. */
  open(text) {
    this.view.setState(this.newState(text));
  }

  /** Change the text in one step that can be undone. */
  change(text) {
    const before = this.text;
    let from = 0, same = 0;
    while (from < before.length && before[from] === text[from]) from += 1;
    while (same < before.length - from && same < text.length - from && before.at(-1 - same) === text.at(-1 - same)) same += 1;
    if (before !== text) this.view.dispatch({ changes: { from, to: before.length - same, insert: text.slice(from, text.length - same) } });
  }

  /** Replace the text between two offsets. */
  replace(from, to, insert) {
    this.view.dispatch({ changes: { from, to, insert }, selection: { anchor: from + insert.length }, scrollIntoView: true });
    this.view.focus();
  }

  /** Underline problems. */
  show(problems) {
    const length = this.view.state.doc.length;
    const diagnostics = problems.map((problem) => ({
      from: Math.min(problem.start, length), to: Math.min(Math.max(problem.end, problem.start), length), severity: problem.severity,
      message: `${problem.message}${problem.hint ? `\n${problem.hint}` : ""}`, source: problem.code,
      actions: problem.edit === undefined ? [] : [{ name: `Write ${problem.edit}`, apply: (view, from, to) => this.replace(from, to, problem.edit) }],
    }));
    diagnostics.sort((a, b) => a.from - b.from);
    this.view.dispatch(setDiagnostics(this.view.state, diagnostics));
  }

  /** Move the cursor to an offset. */
  goTo(offset) {
    const anchor = Math.min(offset, this.view.state.doc.length);
    this.view.dispatch({ selection: { anchor }, effects: EditorView.scrollIntoView(anchor, { y: "center" }) });
    this.view.focus();
  }
}

/** Return a completion source. Items keep the order of the answer, and calls have placeholders for their arguments. */
const completion = (ask) => async (context) => {
  const word = context.matchBefore(/[A-Za-z_]\w*/);
  if (!word && !context.matchBefore(/[.@]|\|> ?/) && !context.explicit) return null;
  const answer = await ask("complete", context.state.doc.toString(), context.pos);
  if (!answer || !answer.items || context.aborted) return null;
  const options = answer.items.map((item, rank) => {
    const info = [item.detail, item.text].filter((text) => text && text !== item.kind).join("\n");
    const option = { label: item.label, type: TYPES[item.kind], detail: item.kind, info: info || undefined, boost: Math.max(-99, 99 - rank) };
    return item.snippet ? snippetCompletion(item.snippet, option) : option;
  });
  return { from: word ? word.from : context.pos, options, validFor: /^\w*$/ };
};

const hover = (ask) => async (view, offset) => {
  const answer = await ask("hover", view.state.doc.toString(), offset);
  if (!answer || !answer.text) return null;
  return { pos: offset, create: () => ({ dom: markdown(answer.text) }) };
};

/** Return an element for the Markdown of hovers, which has only paragraphs, code blocks and code spans. */
function markdown(text) {
  const parent = make("div", { class: "cm-hover" });
  text.split(/```\w*\n([\s\S]*?)```/).forEach((part, i) => {
    if (i % 2) return parent.append(make("pre", {}, part.trimEnd()));
    for (const paragraph of part.split(/\n{2,}/).filter((lines) => lines.trim())) {
      const spans = paragraph.split(/`([^`]+)`/);
      parent.append(make("p", {}, ...spans.map((span, j) => (j % 2 ? make("code", {}, span) : span.replace(/\*\*|^#+ /gm, "")))));
    }
  });
  return parent;
}
