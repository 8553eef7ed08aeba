// HTML elements and formats of numbers that all parts of the page use.

export const byId = (id) => document.getElementById(id);

/** Return a new element. Attributes whose names start with "on" are event listeners; strings inside become text. */
export function make(name, attributes = {}, ...inside) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...inside);
  return element;
}

/** Return the parts of a message, with `names` of the program as code elements. */
export const withCode = (text) => text.split(/`([^`]+)`/).map((part, i) => (i % 2 ? make("code", {}, part) : part));

/** Return decimal digits with thousands separators. */
export const grouped = (digits) => String(digits).replace(/\B(?=(\d{3})+$)/g, ",");

const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** Return an integer with thousands separators, or like 1.08 × 10¹⁸ if it has more than 12 digits. */
export function large(digits) {
  if (digits.length <= 12) return grouped(digits);
  let mantissa = Math.round(Number(digits.slice(0, 4)) / 10), exponent = digits.length - 1;
  if (mantissa === 1000) [mantissa, exponent] = [100, exponent + 1];
  return `${(mantissa / 100).toFixed(2)} × 10${[...String(exponent)].map((digit) => SUPERSCRIPT[digit]).join("")}`;
}

/** Return an integer with three significant digits and a unit prefix, like 7.78 M. */
export function short(digits) {
  const number = Number(digits);
  for (const [prefix, size] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["K", 1e3]]) {
    if (number >= size) return `${Number((number / size).toPrecision(3))} ${prefix}`;
  }
  return String(digits);
}

/** Return the share of one integer in another in percent; only equal integers give 100%, and only zero gives 0%. */
export function percent(part, whole) {
  if (BigInt(whole) === 0n) return "";
  const share = Number((BigInt(part) * 100000n) / BigInt(whole)) / 1000;
  if (share === 100 || part === "0") return `${share}%`;
  if (share < 0.01) return "under 0.01%";
  return `${share >= 99.995 ? "99.99" : share.toFixed(share < 1 ? 2 : 1)}%`;
}
