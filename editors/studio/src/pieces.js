// Small things that all parts of the page need.

export const byId = (id) => document.getElementById(id);

/** An element with attributes; texts stay texts. */
export function make(name, attributes = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...inside);
  return made;
}

/** What messages say, where `words` of the program stand apart. */
export const worded = (text) => text.split(/`([^`]+)`/).map((piece, i) => (i % 2 ? make("code", {}, piece) : piece));

/** Digits in threes. */
export const grouped = (digits) => String(digits).replace(/\B(?=(\d{3})+$)/g, ",");

const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** A whole number as it is, or where it is very long, as 1.08 × 10¹⁸. */
export function large(digits) {
  if (digits.length <= 12) return grouped(digits);
  let head = Math.round(Number(digits.slice(0, 4)) / 10), power = digits.length - 1;
  if (head === 1000) [head, power] = [100, power + 1];
  return `${(head / 100).toFixed(2)} × 10${[...String(power)].map((digit) => RAISED[digit]).join("")}`;
}

/** An amount in a word: 7.78 M. */
export function short(digits) {
  const number = Number(digits);
  for (const [unit, size] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["K", 1e3]]) {
    if (number >= size) return `${Number((number / size).toPrecision(3))} ${unit}`;
  }
  return String(digits);
}

/** What part one whole number is of another, in percent. */
export function percent(part, whole) {
  if (BigInt(whole) === 0n) return "";
  const thousandths = Number((BigInt(part) * 100000n) / BigInt(whole)) / 1000;
  if (thousandths === 100 || part === "0") return `${thousandths}%`;
  if (thousandths < 0.01) return "under 0.01%";
  return `${thousandths >= 99.995 ? "99.99" : thousandths.toFixed(thousandths < 1 ? 2 : 1)}%`;
}
