// Architectures that were drawn: cards, of which two can be compared.

import { byId, make, short } from "./pieces.js";

const KEPT = 6;

export class Architectures {
  /** `pictured` is called with an architecture to show, `compared` with two. */
  constructor({ pictured, compared }) {
    this.pictured = pictured;
    this.compared = compared;
    this.place = byId("drawn");
    this.cards = [];
    this.letter = 0;
  }

  clear() {
    this.cards = [];
    this.letter = 0;
    this.place.replaceChildren();
    byId("differences").replaceChildren();
    byId("compare").hidden = true;
  }

  add(drawn) {
    const first = this.cards.length;
    for (const one of drawn) this.cards.push(this.card(one));
    while (this.cards.length > KEPT) this.cards.shift().element.remove();
    this.place.append(...this.cards.slice(Math.min(first, this.cards.length - drawn.length)).map((card) => card.element));
    if (this.cards.length > 1 && !this.chosen.length) for (const card of this.cards.slice(-2)) card.box.checked = true;
    byId("compare").hidden = this.cards.length < 2;
    this.compare();
  }

  get chosen() {
    return this.cards.filter((card) => card.box.checked);
  }

  card(one) {
    const letter = String.fromCharCode(65 + (this.letter++ % 26));
    const cost = (name, word) => make("span", {}, make("b", { title: one.costs[name] }, short(one.costs[name].replaceAll(",", ""))), ` ${word}`);
    const box = make("input", { type: "checkbox", "aria-label": `Compare ${letter}` });
    const rows = Object.entries(one.choices).map(([path, label]) => make("tr", {}, make("th", { scope: "row" }, path), make("td", {}, said(label))));
    const show = make("button", { type: "button", class: "quiet", "aria-pressed": "false", "aria-label": `Show ${letter} in the picture` }, "Picture");
    const element = make("li", { class: "card" },
      make("div", { class: "line" }, make("span", { class: "letter" }, letter), cost("params", "parameters"), cost("macs", "MACs")),
      make("div", { class: "line" }, make("label", {}, box, " Compare"), show),
      make("details", {}, make("summary", {}, `${rows.length} choice${rows.length === 1 ? "" : "s"}`), make("table", {}, make("tbody", {}, ...rows))));
    const card = { ...one, letter, box, element, show };
    box.addEventListener("change", () => {
      const others = this.chosen.filter((other) => other !== card);
      if (box.checked && others.length > 1) others[0].box.checked = false;
      this.compare();
    });
    show.addEventListener("click", () => this.pictured(show.getAttribute("aria-pressed") === "true" ? null : card));
    return card;
  }

  /** Mark the card whose picture is shown. */
  mark(shown) {
    for (const card of this.cards) card.show.setAttribute("aria-pressed", String(card === shown));
  }

  compare() {
    const two = this.chosen;
    if (two.length === 2) this.compared(...two);
    else byId("differences").replaceChildren(make("p", { class: "note" }, "Tick two of them to see what differs."));
  }

  differ(one, other, found) {
    const rows = found.map((each) => make("tr", { class: each.kind },
      make("th", { scope: "row" }, `${each.scope ? `${each.scope}.` : ""}${each.name}`),
      make("td", {}, each.before ?? "–"), make("td", {}, each.after ?? "–")));
    const head = make("tr", {}, make("th", { scope: "col" }, "What differs"), make("th", { scope: "col" }, one.letter), make("th", { scope: "col" }, other.letter));
    byId("differences").replaceChildren(
      found.length ? make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)) : make("p", { class: "note" }, "They are the same."));
  }
}

function said(label) {
  return Array.isArray(label) ? label.join(", ") || "none" : String(label);
}
