// Bars of costs, and the bounds that sliders set.

import { byId, grouped, make, short } from "./pieces.js";

const STEPS = 1000n;
const NAMES = { params: "Parameters", macs: "Multiply-accumulates" };
const SVG = "http://www.w3.org/2000/svg";

export class Costs {
  /** `moved` is called when a bound has another place. */
  constructor(moved) {
    this.moved = moved;
    this.kept = {};
    this.place = byId("costs");
  }

  /** The bounds that leave something out: least and most of costs, as texts. */
  get bounds() {
    const found = {};
    for (const [name, one] of Object.entries(this.kept)) {
      const { low, high } = one.at;
      if (low > 0n || high < STEPS) found[name] = [String(one.value(low)), String(one.value(high))];
    }
    return found;
  }

  /** Draw the costs of a space. Sliders stay where they are. */
  show(costs) {
    const focused = document.activeElement && document.activeElement.id;
    this.place.replaceChildren();
    for (const [name, cost] of Object.entries(costs)) {
      const least = BigInt(cost.least), span = BigInt(cost.greatest) - least;
      const before = this.kept[name];
      const one = { at: before && span ? before.at : { low: 0n, high: STEPS }, value: (step) => least + (span * step) / STEPS };
      this.kept[name] = one;
      this.place.append(this.group(name, cost, one, span > 0n));
    }
    if (focused && byId(focused)) byId(focused).focus();
  }

  clear() {
    this.kept = {};
    this.place.replaceChildren();
  }

  reset() {
    for (const one of Object.values(this.kept)) {
      one.at.low = 0n;
      one.at.high = STEPS;
      one.draw();
    }
  }

  group(name, cost, one, varies) {
    const range = make("output", { class: "range", for: `${name}-low ${name}-high` });
    const head = make("div", { class: "head" }, make("h3", {}, NAMES[name]), range);
    const whole = make("div", { class: "cost", role: "group", "aria-label": NAMES[name] }, head);
    if (!varies) {
      range.textContent = `${grouped(cost.least)} for all`;
      one.draw = () => {};
      return whole;
    }
    const bars = this.bars(name, cost);
    const slider = (end, words) => {
      const made = make("input", { type: "range", min: "0", max: String(STEPS), step: "1", id: `${name}-${end}`, "aria-label": `${NAMES[name]}, ${words}` });
      made.addEventListener("input", () => {
        const value = BigInt(made.value);
        one.at[end] = end === "low" ? (value < one.at.high ? value : one.at.high) : value > one.at.low ? value : one.at.low;
        one.draw();
        this.moved();
      });
      return made;
    };
    const low = slider("low", "at least"), high = slider("high", "at most");
    one.draw = () => {
      const from = String(one.value(one.at.low)), to = String(one.value(one.at.high));
      low.value = String(one.at.low);
      high.value = String(one.at.high);
      low.setAttribute("aria-valuetext", grouped(from));
      high.setAttribute("aria-valuetext", grouped(to));
      range.textContent = `${short(from)} to ${short(to)}`;
      range.title = `${grouped(from)} to ${grouped(to)}`;
      [...bars.children].forEach((bar, i, all) => {
        const middle = BigInt(Math.round(((i + 0.5) / all.length) * Number(STEPS)));
        bar.classList.toggle("out", middle < one.at.low || middle > one.at.high);
      });
    };
    one.draw();
    whole.append(make("div", { class: "spread" }, bars, make("div", { class: "sliders" }, low, high)));
    if (cost.why) whole.append(make("p", { class: "note" }, `No bars: ${cost.why}.`));
    else {
      const ends = make("div", { class: "ends" }, make("span", {}, short(cost.least)), make("span", {}, `median ${short(cost.median)}`), make("span", {}, short(cost.greatest)));
      whole.append(ends);
    }
    return whole;
  }

  bars(name, cost) {
    const drawing = document.createElementNS(SVG, "svg");
    const count = cost.bars.length, wide = 320, high = 64;
    drawing.setAttribute("viewBox", `0 0 ${wide} ${high}`);
    drawing.setAttribute("preserveAspectRatio", "none");
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", count ? `How many architectures have how many ${NAMES[name].toLowerCase()}: from ${grouped(cost.least)} to ${grouped(cost.greatest)}, half of them at most ${grouped(cost.median)}` : `From ${grouped(cost.least)} to ${grouped(cost.greatest)}`);
    cost.bars.forEach((share, i) => {
      const bar = document.createElementNS(SVG, "rect");
      const tall = share ? Math.max(1.5, share * (high - 2)) : 0;
      const place = { x: (i * wide) / count + 0.75, y: high - tall, width: wide / count - 1.5, height: tall };
      for (const [key, value] of Object.entries(place)) bar.setAttribute(key, value);
      drawing.append(bar);
    });
    return drawing;
  }
}
