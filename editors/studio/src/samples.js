// Sampled architectures: a card for each, and the differences between two of them.

import { byId, make, short } from "./elements.js";

const MAX_CARDS = 6;

export class Samples {
  /** `onPicture` is called with the card to draw, or null for the whole space; `onCompare` with two cards. */
  constructor({ onPicture, onCompare }) {
    this.onPicture = onPicture;
    this.onCompare = onCompare;
    this.list = byId("samples");
    this.clear();
  }

  clear() {
    this.cards = [];
    this.count = 0;
    this.list.replaceChildren();
    byId("differences").replaceChildren();
    byId("comparison").hidden = true;
  }

  /** Add cards for architectures; the oldest cards above MAX_CARDS are removed. */
  add(architectures) {
    const added = architectures.map((architecture) => this.card(architecture));
    this.cards.push(...added);
    while (this.cards.length > MAX_CARDS) this.cards.shift().element.remove();
    this.list.append(...added.map((card) => card.element));
    if (this.cards.length > 1 && !this.ticked.length) for (const card of this.cards.slice(-2)) card.checkbox.checked = true;
    byId("comparison").hidden = this.cards.length < 2;
    this.compare();
  }

  get ticked() {
    return this.cards.filter((card) => card.checkbox.checked);
  }

  card(architecture) {
    const letter = String.fromCharCode(65 + (this.count++ % 26));
    const cost = (name, unit) => make("span", {}, make("b", { title: architecture.costs[name] }, short(architecture.costs[name].replaceAll(",", ""))), ` ${unit}`);
    const checkbox = make("input", { type: "checkbox", "aria-label": `Compare ${letter}` });
    const rows = Object.entries(architecture.choices).map(([path, label]) => make("tr", {}, make("th", { scope: "row" }, path), make("td", {}, labelText(label))));
    const button = make("button", { type: "button", class: "quiet", "aria-pressed": "false", "aria-label": `Picture of ${letter}` }, "Picture");
    const element = make("li", { class: "card" },
      make("div", { class: "line" }, make("span", { class: "letter" }, letter), cost("params", "parameters"), cost("macs", "MACs")),
      make("div", { class: "line" }, make("label", {}, checkbox, " Compare"), button),
      make("details", {}, make("summary", {}, `${rows.length} choice${rows.length === 1 ? "" : "s"}`), make("table", {}, make("tbody", {}, ...rows))));
    const card = { ...architecture, letter, checkbox, element, button };
    checkbox.addEventListener("change", () => {
      const others = this.ticked.filter((other) => other !== card);
      if (checkbox.checked && others.length > 1) others[0].checkbox.checked = false;
      this.compare();
    });
    button.addEventListener("click", () => this.onPicture(button.getAttribute("aria-pressed") === "true" ? null : card));
    return card;
  }

  /** Mark the card whose picture is shown; none if `card` is null. */
  mark(card) {
    for (const each of this.cards) each.button.setAttribute("aria-pressed", String(each === card));
  }

  compare() {
    const ticked = this.ticked;
    if (ticked.length === 2) this.onCompare(...ticked);
    else byId("differences").replaceChildren(make("p", { class: "note" }, "Tick two architectures to compare them."));
  }

  showDifferences(before, after, differences) {
    const rows = differences.map((difference) => make("tr", { class: difference.kind },
      make("th", { scope: "row" }, `${difference.scope ? `${difference.scope}.` : ""}${difference.name}`),
      make("td", {}, difference.before ?? "–"), make("td", {}, difference.after ?? "–")));
    const head = make("tr", {}, make("th", { scope: "col" }, "Difference"), make("th", { scope: "col" }, before.letter), make("th", { scope: "col" }, after.letter));
    byId("differences").replaceChildren(rows.length
      ? make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows))
      : make("p", { class: "note" }, "These architectures are equal."));
  }
}

function labelText(label) {
  return Array.isArray(label) ? label.join(", ") || "none" : String(label);
}
