// The page: what is typed is checked, and what is sound is counted, pictured and costed.

import { Architectures } from "./architectures.js";
import { Costs } from "./costs.js";
import { Editor } from "./editor.js";
import { Playground, Refused, Server } from "./engine.js";
import { EXAMPLES } from "./examples.js";
import { Picture } from "./picture.js";
import { byId, grouped, large, make, percent, worded } from "./pieces.js";

const QUIET = 180; // milliseconds without a keystroke before a text is checked
const PLAYGROUND = document.documentElement.dataset.engine === "worker";

const engine = PLAYGROUND ? new Playground((text) => state("busy", text)) : new Server();
const picture = new Picture();
const costs = new Costs(moved);
const architectures = new Architectures({ pictured, compared });
const editor = new Editor(byId("editor"), {
  changed,
  ask: async (kind, text, at) => engine.ask(kind, { text, at }).catch(() => null),
  keys: [
    { key: "Mod-s", run: () => { save(); return true; } },
    { key: "Shift-Alt-f", run: () => { layout(); return true; } },
  ],
});

let file = { name: "space.arch", text: null, mark: null };
let sound = null; // what was last found sound: its text, its nets and the one that is looked at
let shown = null; // the architecture whose picture is shown, if any
let waiting = 0, seed = 1;

// What is said above.

function state(kind, text) {
  const place = byId("state");
  place.dataset.kind = kind;
  byId("said").textContent = text;
}

function told(error) {
  if (!(error instanceof Refused)) throw error;
  state("wrong", error.message);
}

// From the text to what is sound.

function changed() {
  clearTimeout(waiting);
  waiting = setTimeout(check, QUIET);
  picture.fade(true);
  saveable();
}

async function check() {
  const text = editor.text, begun = performance.now();
  state("busy", "Checking …");
  try {
    const said = await engine.ask("check", { text });
    if (!said || text !== editor.text) return;
    byId("state").dataset.took = Math.round(performance.now() - begun);
    editor.show(said.problems);
    listed(said.problems);
    if (said.problems.length) {
      const count = said.problems.length;
      state("wrong", count === 1 ? "1 problem" : `${count} problems`);
    } else if (!said.nets.length) {
      state("empty", "No net yet");
      picture.fade(true);
    } else {
      await settled(text, said.nets);
    }
  } catch (error) {
    told(error);
  }
}

async function settled(text, nets) {
  const named = sound && nets.some((one) => one.name === sound.net) ? sound.net : nets.at(-1).name;
  const other = !sound || sound.text !== text || sound.net !== named;
  sound = { text, nets, net: named };
  if (other) {
    shown = null;
    architectures.clear();
  }
  chosen();
  state("sound", "Every architecture is sound");
  await Promise.all([drawn(), costed()]);
}

function listed(problems) {
  byId("problems").hidden = !problems.length;
  byId("list").replaceChildren(...problems.map((one) => {
    const go = make("button", { type: "button", class: "problem", onclick: () => editor.go(one.start) },
      make("span", { class: "where" }, `Line ${one.line}`), make("span", {}, ...worded(one.message)), make("span", { class: "code" }, one.code));
    const below = [];
    if (one.hint) below.push(make("p", { class: "hint" }, ...worded(one.hint)));
    if (one.edit !== undefined) below.push(make("button", { type: "button", class: "quiet", onclick: () => editor.replace(one.start, one.end, one.edit) }, "Write ", make("code", {}, one.edit)));
    return make("li", { class: one.severity }, go, ...below);
  }));
}

// The space that is looked at.

const asked = () => ({ text: sound.text, net: sound.net });

function chosen() {
  const { nets, net } = sound, one = nets.find((each) => each.name === net);
  const select = byId("net");
  select.replaceChildren(...nets.map((each) => make("option", { selected: each.name === net }, each.name)));
  byId("nets").hidden = nets.length < 2;
  byId("space").hidden = false;
  byId("size").textContent = large(one.size);
  byId("exactly").textContent = one.size.length > 12 ? `exactly ${grouped(one.size)}` : "";
  byId("unit").textContent = one.size === "1" ? "architecture" : "architectures";
  byId("choices").textContent = one.choices === 1 ? "of 1 choice" : `of ${one.choices} choices`;
}

async function drawn() {
  const heat = document.querySelector("input[name=heat]:checked").value || null;
  const said = await engine.ask("picture", { ...asked(), depth: 1, heat, architecture: shown && shown.choices });
  if (said && said.page) picture.show(said.page);
  if (said && said.problems) {
    byId("nothing").hidden = false;
    byId("nothing").textContent = `No picture: ${said.problems[0].message}.`;
  }
  byId("pictured").textContent = shown ? `Architecture ${shown.letter}` : "The whole space";
  byId("whole").hidden = !shown;
  architectures.mark(shown);
}

async function costed() {
  const said = await engine.ask("costs", asked());
  if (!said) return;
  byId("bounds").hidden = !!said.problems;
  byId("nocosts").hidden = !said.problems;
  if (said.problems) {
    costs.clear();
    byId("nocosts").textContent = `No costs: ${said.problems[0].message}.`;
    return;
  }
  costs.show(said.costs);
  await counted();
}

let counting = false, again = false;

/** Sliders move faster than architectures are counted: one question at a time, and then the newest. */
function moved() {
  if (counting) again = true;
  else counted().catch(told);
}

async function counted() {
  const bounds = costs.bounds, some = Object.keys(bounds).length > 0;
  byId("reset").hidden = !some;
  const place = byId("within");
  const bounded = sound.nets.find((one) => one.name === sound.net).bounded;
  const words = some ? "within these bounds" : "keep the program's bounds on costs";
  if (!some && !bounded) {
    place.replaceChildren("Move a slider to count within bounds.");
    return;
  }
  counting = true;
  place.classList.add("busy");
  try {
    const said = await engine.ask("within", { ...asked(), bounds });
    if (!said) return;
    if (said.problems) place.replaceChildren(`Not counted: ${said.problems[0].message}.`);
    else if (said.least === said.most) place.replaceChildren(make("b", { id: "count", title: grouped(said.most) }, large(said.most)), ` ${words}${said.most === said.of ? ": all" : `: ${percent(said.most, said.of)}`}`);
    else place.replaceChildren(make("b", { id: "count" }, `${large(said.least)} to ${large(said.most)}`), ` ${words}`);
  } finally {
    counting = false;
    place.classList.remove("busy");
  }
  if (again) {
    again = false;
    await counted();
  }
}

async function sampled() {
  const button = byId("draw");
  button.disabled = true;
  try {
    const said = await engine.ask("sample", { ...asked(), bounds: costs.bounds, count: 2, seed: seed++ });
    const place = byId("refused");
    place.hidden = !(said && said.problems);
    if (said && said.problems) place.textContent = `${said.problems[0].message}.`;
    else if (said) architectures.add(said.architectures);
  } catch (error) {
    told(error);
  } finally {
    button.disabled = false;
    button.focus();
  }
}

function pictured(card) {
  shown = card;
  drawn().catch(told);
}

async function compared(one, other) {
  try {
    const said = await engine.ask("diff", { ...asked(), one: one.choices, other: other.choices });
    if (said && said.differences) architectures.differ(one, other, said.differences);
  } catch (error) {
    told(error);
  }
}

// Files.

function saveable() {
  byId("save").hidden = file.mark === null;
  byId("save").disabled = editor.text === file.text;
  byId("file").textContent = `${file.name}${file.mark !== null && editor.text !== file.text ? " ·" : ""}`;
  byId("file").title = editor.text === file.text || file.mark === null ? "" : "There are changes that are not saved.";
}

async function save() {
  if (file.mark === null) return download();
  const text = editor.text;
  try {
    const said = await engine.save(text, file.mark);
    file = { ...file, text, mark: said.mark };
    saveable();
    state("sound", "Saved");
  } catch (error) {
    told(error);
  }
}

function download() {
  const address = URL.createObjectURL(new Blob([editor.text], { type: "text/plain" }));
  make("a", { href: address, download: file.name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

async function layout() {
  try {
    const said = await engine.ask("format", { text: editor.text });
    if (said && said.text !== undefined) editor.change(said.text);
    else if (said) state("wrong", "The layout is for programs that can be read: there are problems");
  } catch (error) {
    told(error);
  }
}

function example(name) {
  file = { ...file, name: file.mark === null ? `${name}.arch` : file.name };
  if (file.mark === null) editor.open(EXAMPLES[name]);
  else editor.change(EXAMPLES[name]);
  editor.show([]);
  listed([]);
  saveable();
  check();
}

// What is pressed.

byId("examples").append(...Object.keys(EXAMPLES).map((name) => make("option", { value: name }, name.replaceAll("_", " "))));
byId("examples").addEventListener("change", (event) => { if (event.target.value) example(event.target.value); });
byId("format").addEventListener("click", layout);
byId("save").addEventListener("click", save);
byId("download").addEventListener("click", download);
byId("draw").addEventListener("click", sampled);
byId("skip").addEventListener("click", (event) => { event.preventDefault(); byId("space-head").focus(); });
byId("whole").addEventListener("click", () => pictured(null));
byId("reset").addEventListener("click", () => { costs.reset(); moved(); byId("draw").focus(); });
byId("net").addEventListener("change", (event) => { sound.net = event.target.value; shown = null; architectures.clear(); chosen(); Promise.all([drawn(), costed()]).catch(told); });
for (const one of document.querySelectorAll("input[name=heat]")) one.addEventListener("change", () => { if (sound) drawn().catch(told); });
window.addEventListener("beforeunload", (event) => { if (file.mark !== null && editor.text !== file.text) event.preventDefault(); });

async function begin() {
  try {
    state("busy", PLAYGROUND ? "Starting Python …" : "Starting …");
    const said = await engine.begin();
    if (PLAYGROUND) byId("state").dataset.began = Math.round(said.begun);
    const first = Object.keys(EXAMPLES)[0];
    file = said.text === null ? { name: `${first}.arch`, text: null, mark: null } : said;
    if (said.text === null) byId("examples").value = first;
    document.title = `${file.name} · archir studio`;
    editor.open(said.text === null ? EXAMPLES[first] : said.text);
    saveable();
    await check();
  } catch (error) {
    told(error);
  }
}

begin();
