// The editor: CodeMirror in a shadow root, so that its styles need no leave of the page's security policy.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, nextDiagnostic, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import {
  drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, hoverTooltip, keymap, lineNumbers,
} from "@codemirror/view";
import { arch, colours } from "./language.js";

const TYPES = {
  keyword: "keyword", operation: "function", block: "function", function: "function", attribute: "property",
  property: "property", choice: "enum", const: "constant", library: "namespace", alias: "namespace", type: "type",
  tag: "enum", cost: "constant", local: "variable",
};

const look = EditorView.theme({
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
  ".cm-said": { padding: "8px 12px", font: "13px/1.5 var(--sans)", maxHeight: "300px", overflow: "auto", overflowWrap: "anywhere" },
  ".cm-said p": { margin: "0 0 6px" },
  ".cm-said pre": { margin: "0 0 6px", font: "12.5px/1.5 var(--mono)", whiteSpace: "pre-wrap" },
  ".cm-said code": { font: "12.5px var(--mono)", backgroundColor: "var(--line)", padding: "1px 4px", borderRadius: "4px" },
  ".cm-diagnostic": { padding: "8px 12px", font: "13px/1.5 var(--sans)", whiteSpace: "pre-wrap", borderLeft: "4px solid var(--wrong)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--doubt)" },
  ".cm-diagnosticAction": { backgroundColor: "var(--accent)", color: "var(--on-accent)", borderRadius: "5px", padding: "3px 9px", font: "inherit", margin: "6px 0 0" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--wrong)", textUnderlineOffset: "3px" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--doubt)", textUnderlineOffset: "3px" },
  ".cm-panels": { backgroundColor: "var(--room)", color: "var(--ink)", borderColor: "var(--rule)" },
  ".cm-panel input, .cm-panel button": { font: "13px var(--sans)" },
  ".cm-textfield": { backgroundColor: "var(--paper)", color: "var(--ink)", border: "1px solid var(--edge)" },
  ".cm-button": { background: "var(--paper)", color: "var(--ink)", border: "1px solid var(--edge)" },
});

export class Editor {
  /** An editor in an element; `changed` is called after changes, `ask` answers hovers and completions. */
  constructor(parent, { changed, ask, keys }) {
    const root = parent.attachShadow({ mode: "open" });
    const place = document.createElement("div");
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(":host{display:block}div.place{height:100%}");
    root.adoptedStyleSheets = [sheet];
    place.className = "place";
    root.append(place);
    this.extensions = [
      lineNumbers(), lintGutter(), highlightSpecialChars(), history(), drawSelection(), indentOnInput(), bracketMatching(),
      closeBrackets(), highlightActiveLine(), highlightActiveLineGutter(), highlightSelectionMatches(), search({ top: true }),
      arch, syntaxHighlighting(colours), indentUnit.of("    "), look,
      autocompletion({ override: [completing(ask)], icons: false }), hoverTooltip(hovering(ask), { hoverTime: 350 }),
      keymap.of([...keys, ...closeBracketsKeymap, ...completionKeymap, ...lintKeymap, ...searchKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
      EditorView.contentAttributes.of({ "aria-label": "Program", "aria-describedby": "leaving", tabindex: "0", spellcheck: "false" }),
      EditorView.updateListener.of((update) => { if (update.docChanged) changed(); }),
    ];
    this.view = new EditorView({ parent: place, root, state: this.fresh("") });
    this.view.scrollDOM.removeAttribute("tabindex"); // what is inside has the focus
    const note = document.createElement("span");
    note.id = "leaving";
    note.hidden = true;
    note.textContent = "Escape and then Tab leave the editor.";
    root.append(note);
  }

  fresh(text) {
    return EditorState.create({ doc: text, extensions: this.extensions });
  }

  get text() {
    return this.view.state.doc.toString();
  }

  /** Another text altogether, with nothing to undo. */
  open(text) {
    this.view.setState(this.fresh(text));
  }

  /** The same program in another layout: one change, which can be undone. */
  change(text) {
    const before = this.text;
    let from = 0, last = 0;
    while (from < before.length && before[from] === text[from]) from += 1;
    while (last < before.length - from && last < text.length - from && before.at(-1 - last) === text.at(-1 - last)) last += 1;
    if (before !== text) this.view.dispatch({ changes: { from, to: before.length - last, insert: text.slice(from, text.length - last) } });
  }

  /** Put something in the place of a stretch. */
  replace(from, to, insert) {
    this.view.dispatch({ changes: { from, to, insert }, selection: { anchor: from + insert.length }, scrollIntoView: true });
    this.view.focus();
  }

  show(problems) {
    const length = this.view.state.doc.length;
    const marks = problems.map((one) => ({
      from: Math.min(one.start, length), to: Math.min(Math.max(one.end, one.start), length), severity: one.severity,
      message: `${one.message}${one.hint ? `\n${one.hint}` : ""}`, source: one.code,
      actions: one.edit === undefined ? [] : [{ name: `Write ${one.edit}`, apply: (view, from, to) => this.replace(from, to, one.edit) }],
    }));
    marks.sort((one, other) => one.from - other.from);
    this.view.dispatch(setDiagnostics(this.view.state, marks));
  }

  go(offset) {
    const anchor = Math.min(offset, this.view.state.doc.length);
    this.view.dispatch({ selection: { anchor }, effects: EditorView.scrollIntoView(anchor, { y: "center" }) });
    this.view.focus();
  }

  next() {
    nextDiagnostic(this.view);
  }
}

const completing = (ask) => async (context) => {
  const word = context.matchBefore(/[A-Za-z_]\w*/);
  const behind = context.matchBefore(/[.@]/);
  if (!word && !behind && !context.explicit) return null;
  const said = await ask("complete", context.state.doc.toString(), context.pos);
  if (!said || !said.items || context.aborted) return null;
  const options = said.items.map((one) => ({ label: one.label, type: TYPES[one.kind], detail: one.kind, info: one.detail && one.detail !== one.kind ? one.detail : undefined }));
  return { from: word ? word.from : context.pos, options, validFor: /^\w*$/ };
};

const hovering = (ask) => async (view, at) => {
  const said = await ask("hover", view.state.doc.toString(), at);
  if (!said || !said.text) return null;
  return { pos: at, create: () => ({ dom: written(said.text) }) };
};

/** Elements for the little Markdown that hovers have: paragraphs, code and blocks of it. Everything else is text. */
function written(text) {
  const whole = document.createElement("div");
  whole.className = "cm-said";
  text.split(/```\w*\n([\s\S]*?)```/).forEach((part, i) => {
    if (i % 2) return whole.append(element("pre", part.trimEnd()));
    for (const paragraph of part.split(/\n{2,}/).filter((one) => one.trim())) {
      const made = element("p", "");
      paragraph.split(/`([^`]+)`/).forEach((piece, j) => made.append(j % 2 ? element("code", piece) : piece.replace(/\*\*|^#+ /gm, "")));
      whole.append(made);
    }
  });
  return whole;
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}
