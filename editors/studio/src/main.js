// The page: checks the program while it is edited, and shows counts, a picture and costs of the last valid program.

import { Costs } from "./costs.js";
import { Editor } from "./editor.js";
import { byId, grouped, large, make, percent, withCode } from "./elements.js";
import { Playground, RequestError, Server } from "./engine.js";
import { EXAMPLES } from "./examples.js";
import { fromFragment, toFragment } from "./link.js";
import { Picture } from "./picture.js";
import { Samples } from "./samples.js";

const PAUSE = 180; // milliseconds without a key press before the program is checked
const IS_PLAYGROUND = document.documentElement.dataset.engine === "worker";
const NEW = `net space {
    input image: f32[3, 32, 32]
    x = image |> conv(choose width(16, 32), kernel=3) |> relu
    output classes = x |> global_avg_pool |> linear(10)
}
`;

const engine = IS_PLAYGROUND ? new Playground(showProgress) : new Server();
const picture = new Picture();
const costs = new Costs(onBounds);
const samples = new Samples({ onPicture: showPictureOf, onCompare: compare });
const editor = new Editor(byId("editor"), {
  onChange,
  ask: (kind, text, offset) => engine.ask(kind, { text, at: offset }).catch(() => null),
  keys: [
    { key: "Mod-s", run: () => { save(); return true; } },
    { key: "Shift-Alt-f", run: () => { format(); return true; } },
  ],
});

let file = { name: "space.arch", text: "", digest: null }; // the text as it was opened or saved; digest: of a file on disk
let valid = null; // the last valid program: its text, its nets, and the name of the net that is shown
let pictured = null; // the sampled architecture whose picture is shown; null: the whole space
let timer = 0, seed = 1;

// Status.

function showStatus(kind, text) {
  byId("status").dataset.kind = kind;
  byId("status-text").textContent = text;
}

function showError(error) {
  if (!(error instanceof RequestError)) throw error;
  showStatus("invalid", error.message);
}

/** Mark the figures as those of an older program. */
function markOutdated(outdated) {
  document.body.classList.toggle("outdated", outdated && valid !== null);
}

function showProgress(share) {
  byId("loading").hidden = share === null;
  if (share !== null && share < 1) byId("progress").value = share;
  else byId("progress").removeAttribute("value");
}

// Checks.

function onChange() {
  clearTimeout(timer);
  timer = setTimeout(check, PAUSE);
  markOutdated(true);
  showFile();
}

async function check() {
  clearTimeout(timer);
  const text = editor.text;
  showStatus("busy", "Checking …");
  try {
    const answer = await engine.ask("check", { text });
    if (!answer || text !== editor.text) return;
    editor.show(answer.problems);
    listProblems(answer.problems);
    const count = answer.problems.length;
    if (count) showStatus("invalid", count === 1 ? "1 problem" : `${count} problems`);
    else if (!answer.nets.length) showStatus("empty", "The program has no net");
    else await showValid(text, answer.nets);
  } catch (error) {
    showError(error);
  }
}

async function showValid(text, nets) {
  const net = valid && nets.some((each) => each.name === valid.net) ? valid.net : nets.at(-1).name;
  const isOther = !valid || valid.text !== text || valid.net !== net;
  valid = { text, nets, net };
  if (isOther) {
    pictured = null;
    samples.clear();
  }
  markOutdated(false);
  showCount();
  showStatus("valid", "All architectures are valid");
  await Promise.all([showPicture(), showCosts()]);
}

function listProblems(problems) {
  byId("problems").hidden = !problems.length;
  byId("problem-list").replaceChildren(...problems.map((problem) => {
    const item = make("li", { class: problem.severity }, make("button", { type: "button", class: "problem", onclick: () => editor.goTo(problem.start) },
      make("span", { class: "line-number" }, `Line ${problem.line}`), make("span", {}, ...withCode(problem.message)), make("span", { class: "code" }, problem.code)));
    if (problem.hint) item.append(make("p", { class: "hint" }, ...withCode(problem.hint)));
    if (problem.edit !== undefined) item.append(make("button", { type: "button", class: "quiet", onclick: () => editor.replace(problem.start, problem.end, problem.edit) }, "Write ", make("code", {}, problem.edit)));
    return item;
  }));
}

// Figures of the last valid program.

const request = () => ({ text: valid.text, net: valid.net });

function showCount() {
  const { nets, net } = valid, { size, choices } = nets.find((each) => each.name === net);
  byId("net").replaceChildren(...nets.map((each) => make("option", { selected: each.name === net }, each.name)));
  byId("nets").hidden = nets.length < 2;
  byId("figures").hidden = false;
  byId("size").textContent = large(size);
  byId("digits").textContent = size.length > 12 ? `exactly ${grouped(size)}` : "";
  byId("unit").textContent = size === "1" ? "architecture" : "architectures";
  byId("choices").textContent = choices === 1 ? "of 1 choice" : `of ${choices} choices`;
}

async function showPicture() {
  const heat = document.querySelector("input[name=heat]:checked").value || null;
  const answer = await engine.ask("picture", { ...request(), depth: 1, heat, architecture: pictured && pictured.choices });
  if (answer && answer.page) picture.show(answer.page);
  if (answer && answer.problems) {
    byId("no-picture").hidden = false;
    byId("no-picture").textContent = `No picture: ${answer.problems[0].message}.`;
  }
  byId("pictured").textContent = pictured ? `Architecture ${pictured.letter}` : "All architectures";
  byId("whole").hidden = !pictured;
  samples.mark(pictured);
}

async function showCosts() {
  const answer = await engine.ask("costs", request());
  if (!answer) return;
  byId("bounds").hidden = !!answer.problems;
  byId("no-costs").hidden = !answer.problems;
  if (answer.problems) {
    costs.clear();
    byId("no-costs").textContent = `No costs: ${answer.problems[0].message}.`;
    return;
  }
  costs.show(answer.costs);
  await countWithin();
}

let isCounting = false, hasMoved = false;

/** Count architectures within the sliders' bounds: one request at a time, the last one for the final positions. */
function onBounds() {
  if (isCounting) hasMoved = true;
  else countWithin().catch(showError);
}

async function countWithin() {
  const bounds = costs.bounds, isBounded = Object.keys(bounds).length > 0, output = byId("within");
  byId("reset").hidden = !isBounded;
  if (!isBounded && !valid.nets.find((each) => each.name === valid.net).bounded) {
    output.replaceChildren("Move a slider to count the architectures within bounds.");
    return;
  }
  isCounting = true;
  output.classList.add("busy");
  try {
    const answer = await engine.ask("within", { ...request(), bounds });
    if (!answer) return;
    const { least, most, of, problems } = answer;
    const where = isBounded ? "within these bounds" : "within the program's cost bounds";
    if (problems) output.replaceChildren(`Not counted: ${problems[0].message}.`);
    else if (least === most) output.replaceChildren(make("b", { id: "count", title: grouped(most) }, large(most)), ` ${where}${most === of ? ": all" : `: ${percent(most, of)}`}`);
    else output.replaceChildren(make("b", { id: "count" }, `${large(least)} to ${large(most)}`), ` ${where}`);
  } finally {
    isCounting = false;
    output.classList.remove("busy");
  }
  if (hasMoved) {
    hasMoved = false;
    await countWithin();
  }
}

// Sampled architectures.

async function sampleTwo() {
  const button = byId("sample");
  button.disabled = true;
  try {
    const answer = await engine.ask("sample", { ...request(), bounds: costs.bounds, count: 2, seed: seed++ });
    byId("no-sample").hidden = !(answer && answer.problems);
    if (answer && answer.problems) byId("no-sample").textContent = `${answer.problems[0].message}.`;
    else if (answer) samples.add(answer.architectures);
  } catch (error) {
    showError(error);
  } finally {
    button.disabled = false;
    button.focus();
  }
}

function showPictureOf(card) {
  pictured = card;
  showPicture().catch(showError);
}

async function compare(before, after) {
  try {
    const answer = await engine.ask("diff", { ...request(), one: before.choices, other: after.choices });
    if (answer && answer.differences) samples.showDifferences(before, after, answer.differences);
  } catch (error) {
    showError(error);
  }
}

// Files.

const isChanged = () => editor.text !== file.text;

function showFile() {
  byId("save").hidden = file.digest === null;
  byId("save").disabled = !isChanged();
  byId("file").textContent = `${file.name}${isChanged() ? " ·" : ""}`;
  byId("file").title = isChanged() ? "There are unsaved changes." : "";
  document.title = `${file.name} · archir ${IS_PLAYGROUND ? "playground" : "studio"}`;
}

/** Show another program, unless the user wants to keep unsaved changes. Only files of the server have a digest, and
 * `fragment` is that of a link. */
function openProgram(name, text, digest = null, fragment = "") {
  if (isChanged() && !confirm(`Discard the changes of ${file.name}?`)) return;
  file = { name, text, digest };
  history.replaceState(null, "", location.pathname + location.search + fragment);
  editor.open(text);
  editor.show([]);
  listProblems([]);
  showFile();
  return check();
}

async function openFile(event) {
  const [chosen] = event.target.files;
  event.target.value = ""; // the same file can be chosen again
  if (!chosen) return;
  const text = await chosen.text();
  openProgram(chosen.name, text.replaceAll("\r\n", "\n"));
}

/** Open the program in the address of the page; return whether there is one. */
async function openLink() {
  try {
    const program = await fromFragment(location.hash);
    if (program) openProgram(program.name, program.text, null, location.hash);
    return program !== null;
  } catch (error) {
    showStatus("invalid", error.message);
    return true;
  }
}

async function save() {
  if (file.digest === null) return download();
  const text = editor.text;
  try {
    const { digest } = await engine.save(text, file.digest);
    file = { ...file, text, digest };
    showFile();
    showStatus("valid", "Saved");
  } catch (error) {
    showError(error);
  }
}

function download() {
  const address = URL.createObjectURL(new Blob([editor.text], { type: "text/plain" }));
  make("a", { href: address, download: file.name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
  if (file.digest === null) file = { ...file, text: editor.text };
  showFile();
}

/** Put the program into the address of the page, and copy the address. */
async function share() {
  history.replaceState(null, "", await toFragment(file.name, editor.text));
  const kind = byId("status").dataset.kind;
  try {
    await navigator.clipboard.writeText(location.href);
    showStatus(kind, "Link copied");
  } catch {
    showStatus(kind, "Copy the address of this page: it contains the program");
  }
}

async function format() {
  try {
    const answer = await engine.ask("format", { text: editor.text });
    if (answer && answer.text !== undefined) editor.change(answer.text);
    else if (answer) showStatus("invalid", "Cannot format a program with syntax errors");
  } catch (error) {
    showError(error);
  }
}

// Events.

const LISTENERS = {
  new: () => openProgram("space.arch", NEW), open: () => byId("chooser").click(), share, format, save, download, sample: sampleTwo,
  whole: () => showPictureOf(null), reset: () => { costs.reset(); onBounds(); byId("sample").focus(); },
  skip: (event) => { event.preventDefault(); byId("space-head").focus(); },
};
for (const [id, listener] of Object.entries(LISTENERS)) byId(id).addEventListener("click", listener);
byId("share").hidden = !IS_PLAYGROUND; // addresses of the studio contain its token and open on this machine only
byId("chooser").addEventListener("change", openFile);
byId("examples").append(...Object.keys(EXAMPLES).map((name) => make("option", { value: name }, name.replaceAll("_", " "))));
byId("examples").addEventListener("change", ({ target }) => {
  if (target.value) openProgram(`${target.value}.arch`, EXAMPLES[target.value]);
  target.value = "";
});
byId("net").addEventListener("change", ({ target }) => {
  valid = { ...valid, net: target.value };
  pictured = null;
  samples.clear();
  showCount();
  Promise.all([showPicture(), showCosts()]).catch(showError);
});
for (const input of document.querySelectorAll("input[name=heat]")) input.addEventListener("change", () => { if (valid) showPicture().catch(showError); });
window.addEventListener("beforeunload", (event) => { if (isChanged()) event.preventDefault(); });
window.addEventListener("hashchange", openLink);

async function start() {
  try {
    const [example] = Object.keys(EXAMPLES), { name, text, digest } = await engine.file();
    if (await openLink()) return;
    if (text === null) await openProgram(`${example}.arch`, EXAMPLES[example]);
    else await openProgram(name, text, digest);
  } catch (error) {
    showError(error);
  }
}

if (IS_PLAYGROUND) engine.ready.catch(showError);
start();
