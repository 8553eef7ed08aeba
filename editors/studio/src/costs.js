// Histograms of costs, each with two sliders that bound the cost.

import { byId, grouped, make, short } from "./elements.js";

const STEPS = 1000n;
const NAMES = { params: "Parameters", macs: "Multiply-accumulates" };
const SVG = "http://www.w3.org/2000/svg";
const BARS = { width: 320, height: 64 };

export class Costs {
  /** `onMove` is called when a slider moves. */
  constructor(onMove) {
    this.onMove = onMove;
    this.ranges = {};
    this.parent = byId("costs");
  }

  /** Minimum and maximum of each cost whose sliders exclude something, as decimal digits. */
  get bounds() {
    const bounds = {};
    for (const [name, range] of Object.entries(this.ranges)) {
      const { low, high } = range.steps;
      if (low > 0n || high < STEPS) bounds[name] = [String(range.value(low)), String(range.value(high))];
    }
    return bounds;
  }

  /** Show the costs of a space. Sliders keep their positions. */
  show(costs) {
    const focused = document.activeElement && document.activeElement.id;
    this.parent.replaceChildren();
    for (const [name, cost] of Object.entries(costs)) {
      const least = BigInt(cost.least), width = BigInt(cost.greatest) - least;
      const before = this.ranges[name];
      const range = { steps: before && width ? before.steps : { low: 0n, high: STEPS }, value: (step) => least + (width * step) / STEPS };
      this.ranges[name] = range;
      this.parent.append(this.group(name, cost, range, width > 0n));
    }
    if (focused && byId(focused)) byId(focused).focus();
  }

  clear() {
    this.ranges = {};
    this.parent.replaceChildren();
  }

  reset() {
    for (const range of Object.values(this.ranges)) {
      range.steps.low = 0n;
      range.steps.high = STEPS;
      range.draw();
    }
  }

  /** Return the heading, histogram and sliders of a cost, and set `draw` of its range. */
  group(name, cost, range, varies) {
    const output = make("output", { class: "range", for: `${name}-low ${name}-high` });
    const head = make("div", { class: "head" }, make("h3", {}, NAMES[name]), output);
    const group = make("div", { class: "cost", role: "group", "aria-label": NAMES[name] }, head);
    if (!varies) {
      output.textContent = `${grouped(cost.least)} for all`;
      range.draw = () => {};
      return group;
    }
    const bars = histogram(name, cost);
    const slider = (end, description) => {
      const input = make("input", { type: "range", min: "0", max: String(STEPS), step: "1", id: `${name}-${end}`, "aria-label": `${NAMES[name]}, ${description}` });
      input.addEventListener("input", () => {
        const { low, high } = range.steps, step = BigInt(input.value);
        range.steps[end] = end === "low" ? (step < high ? step : high) : step > low ? step : low;
        range.draw();
        this.onMove();
      });
      return input;
    };
    const low = slider("low", "at least"), high = slider("high", "at most");
    range.draw = () => {
      const from = String(range.value(range.steps.low)), to = String(range.value(range.steps.high));
      low.value = String(range.steps.low);
      high.value = String(range.steps.high);
      low.setAttribute("aria-valuetext", grouped(from));
      high.setAttribute("aria-valuetext", grouped(to));
      output.textContent = `${short(from)} to ${short(to)}`;
      output.title = `${grouped(from)} to ${grouped(to)}`;
      [...bars.children].forEach((bar, i, all) => {
        const middle = BigInt(Math.round(((i + 0.5) / all.length) * Number(STEPS)));
        bar.classList.toggle("out", middle < range.steps.low || middle > range.steps.high);
      });
    };
    range.draw();
    group.append(make("div", { class: "spread" }, bars, make("div", { class: "sliders" }, low, high)));
    if (cost.why) group.append(make("p", { class: "note" }, `No histogram: ${cost.why}.`));
    else group.append(make("div", { class: "ends" }, make("span", {}, short(cost.least)), make("span", {}, `median ${short(cost.median)}`), make("span", {}, short(cost.greatest))));
    return group;
  }
}

/** Return a histogram as SVG; the heights of its bars are shares of the highest. */
function histogram(name, cost) {
  const svg = document.createElementNS(SVG, "svg"), { width, height } = BARS, count = cost.bars.length;
  const limits = `${NAMES[name]} from ${grouped(cost.least)} to ${grouped(cost.greatest)}`;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", count ? `Histogram of all architectures: ${limits}, median ${grouped(cost.median)}` : limits);
  cost.bars.forEach((share, i) => {
    const bar = document.createElementNS(SVG, "rect"), barHeight = share ? Math.max(1.5, share * (height - 2)) : 0;
    const box = { x: (i * width) / count + 0.75, y: height - barHeight, width: width / count - 1.5, height: barHeight };
    for (const [key, value] of Object.entries(box)) bar.setAttribute(key, value);
    svg.append(bar);
  });
  return svg;
}
