"use strict";
// Making elements, and numbers as people read them. Texts of runs enter the page here, as text alone.

function el(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function number(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return WHOLE.format(value);
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(2);
  return size >= 1000 ? WHOLE.format(value) : value.toFixed(size >= 100 ? 1 : 3);
}

function short(value) { // on an axis
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)} M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)} k`;
  return size && size < 1e-3 ? value.toExponential(0) : `${+value.toPrecision(6)}`;
}

function ticks(low, high, about) { // round numbers from low to high
  const raw = (high - low) / Math.max(about, 1), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) found.push(+(i * step).toPrecision(12));
  return found;
}

const colour = (index) => `c${index % 8}`;
const dot = (index) => el("span", { class: `dot ${colour(index)}`, "aria-hidden": "true" });
const state = { data: null, against: "turn", hidden: new Set() };
const runs = () => state.data.runs;
