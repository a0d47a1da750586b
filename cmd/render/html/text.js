// SPDX-License-Identifier: Apache-2.0
// Words, numbers and elements. Names from a report reach the page through here, as text alone.
"use strict";

const Page = {};

// By OpState. The shape says what the colour says.
Page.states = [
  { key: "equal", word: "equal", mark: "\u2713", color: "--equal", rank: 0 },
  { key: "within", word: "within policy", mark: "\u25cb", color: "--within", rank: 2 },
  { key: "origin", word: "origin", mark: "\u25b2", color: "--origin", rank: 8 },
  { key: "propagated", word: "propagated", mark: "\u25cf", color: "--propagated", rank: 4 },
  { key: "mismatch", word: "mismatch", mark: "\u25c6", color: "--mismatch", rank: 7 },
  { key: "baseline-only", word: "baseline only", mark: "\u2715", color: "--missing", rank: 6 },
  { key: "candidate-only", word: "candidate only", mark: "\u271a", color: "--missing", rank: 5 },
  { key: "skipped", word: "skipped", mark: "\u2013", color: "--muted", rank: 1 },
  { key: "not-judged", word: "not judged", mark: "?", color: "--muted", rank: 3 },
];
Page.EQUAL = 0;
Page.WITHIN = 1;
Page.ORIGIN = 2;
Page.SKIPPED = 7;

// Operators that a reader looks for: all but the equal, the allowed and the skipped ones.
Page.isBad = (state) => state > Page.WITHIN && state !== Page.SKIPPED;

// Characters that cannot be seen or that turn the text around, made visible.
const HIDDEN = new RegExp("[\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b-\\u200f\\u2028-" +
  "\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]", "g");
Page.visible = (text) => String(text).replace(HIDDEN, (c) =>
  "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

// Page.el("td", {class: "x", title: t, onclick: f}, child, ...): text children are text.
Page.el = (tag, props, ...children) => {
  const svg = tag === "svg" || tag === "rect" || tag === "text";
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : Page.visible(value));
  }
  Page.fill(node, ...children);
  return node;
};

Page.fill = (node, ...children) => {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === "") continue;
    node.append(child instanceof Node ? child : Page.visible(child));
  }
  return node;
};

Page.count = (n) => n < 10000 ? String(n) : Math.round(n).toLocaleString("en-US");
// Where room is scarce: 70.0k for 70,002. Rounded down, so that what is not all does not look like all.
Page.brief = (n) => n < 10000 ? String(n) : n < 1e6 ? `${(Math.floor(n / 100) / 10).toFixed(1)}k`
  : `${(Math.floor(n / 1e5) / 10).toFixed(1)}M`;
Page.plural = (n, noun) => `${Page.count(n)} ${noun}${n === 1 ? "" : "s"}`;

// Four significant digits, as the other reports have them.
Page.error = (value) => {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return value;
  if (Number.isNaN(value)) return "";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e5) return String(Number(value.toPrecision(4)));
  return value.toExponential(3).replace(/\.?0+e/, "e").replace(/e([+-])(\d)$/, "e$10$2");
};
Page.ulp = (value) => Number.isNaN(value) ? ""
  : value < 1e6 ? String(value) : value.toExponential(1);
// Never rounded to a lie: some is not none, and not all is not all.
Page.percent = (part, whole) => {
  if (!whole || !part) return whole ? "0 %" : "";
  if (part >= whole) return "100 %";
  const share = 100 * part / whole;
  if (share < 0.001) return "<0.001 %";
  if (share > 99.999) return ">99.999 %";
  return share > 99 ? `${Math.floor(share * 1000) / 1000} %` : `${Number(share.toPrecision(2))} %`;
};

Page.head = (...words) => Page.el("thead", {}, Page.el("tr", {},
  words.map((word) => Page.el("th", { scope: "col" }, word))));
Page.color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// A sign in front of a word, which says the same.
Page.mark = (sign, key, color) => {
  const mark = Page.el("span", { class: `mark ${key || ""}`, "aria-hidden": "true" }, sign);
  if (color) mark.style.color = `var(${color})`;
  return mark;
};
Page.stateBadge = (state) => {
  const { word, mark, key } = Page.states[state];
  return Page.el("span", { class: `state ${key}` }, Page.mark(mark), word);
};
// Buttons of which one is pressed. choices: {word: what pressing it does}
Page.choice = (label, now, choices) => {
  const buttons = Object.entries(choices).map(([word, [title, act]]) => Page.el("button", {
    type: "button", "aria-pressed": String(word === now), title: title || null, onclick: (event) => {
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === event.currentTarget));
      act();
    } }, word));
  return Page.el("span", { class: "group", role: "group", "aria-label": label }, buttons);
};

// To an operator, by what names it unless there are other words.
Page.opLink = (model, row, onPick, ...words) => {
  const onclick = (event) => { event.preventDefault(); onPick(row); };
  return Page.el("a", { href: `#op-${model.label(row)}`, onclick },
    ...(words.length ? words : [`op ${model.label(row)} ${model.operator(row)}`]));
};

// A context for drawing in CSS pixels, sharp on any screen.
Page.canvas = (node, width, height) => {
  const ratio = window.devicePixelRatio || 1;
  node.width = Math.round(width * ratio);
  node.height = Math.round(height * ratio);
  node.style.width = `${width}px`;
  node.style.height = `${height}px`;
  const context = node.getContext("2d");
  context.scale(ratio, ratio);
  context.clearRect(0, 0, width, height);
  return context;
};

// Axes, the way that a pointer's tip keeps inside its picture, and what makes a picture be drawn again.
Page.axis = () => {
  const grid = { stroke: Page.color("--line"), width: 1 };
  return { stroke: Page.color("--muted-ink"), grid, ticks: { show: false }, font: "12px system-ui, sans-serif" };
};
Page.placeTip = (tip, x, y) => {
  const room = tip.parentNode.clientWidth - tip.offsetWidth - 8;
  tip.style.left = `${Math.max(8, Math.min(x + 14, room))}px`;
  tip.style.top = `${Math.max(4, y - tip.offsetHeight - 10)}px`;
};
Page.whenLookChanges = (node, rebuild) => {
  new ResizeObserver(() => requestAnimationFrame(rebuild)).observe(node);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", rebuild);
  window.addEventListener("beforeprint", rebuild);
};

// What stands in the page without its scripts is whole.
Page.start = (act, what, rest) => act().catch((error) => {
  document.documentElement.classList.remove("live");
  document.querySelector("main").prepend(Page.el("p", { class: "failed", role: "alert" },
    `${what} could not be shown: ${error.message}. ${rest}`));
  console.error(error);
});

// The address follows what is shown, where there is one: not in the frame of a notebook.
Page.address = (text) => {
  try { history.replaceState(null, "", text); } catch { /* none here */ }
};

// As a POSIX shell reads it back.
Page.shellWord = (text) => /^[\w@%+=:,./-]+$/.test(text) ? text
  : `'${text.replace(/'/g, "'\\''")}'`;

// Between visits, where there is storage.
Page.remembered = (name) => {
  try { return localStorage.getItem(`repro-check-${name}`); } catch { return null; }
};
Page.remember = (name, value) => {
  try { localStorage.setItem(`repro-check-${name}`, value); } catch { /* no storage here */ }
};

// Where the dark colours hold, by what was asked for.
const themes = { auto: "(prefers-color-scheme: dark)", light: "not all", dark: "all" };
Page.themeButton = (onChange) => {
  let now = Page.remembered("theme");
  if (!(now in themes)) now = "auto";
  const dark = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])
    .find((rule) => rule.media && rule.media.mediaText === themes.auto);
  const apply = () => {
    dark.media.mediaText = themes[now];
    button.textContent = `theme: ${now}`;
  };
  const button = Page.el("button", { type: "button", onclick: () => {
    const names = Object.keys(themes);
    now = names[(names.indexOf(now) + 1) % names.length];
    Page.remember("theme", now);
    apply();
    onChange();
  } });
  apply();
  return button;
};

Page.copyButton = (text) => {
  const button = Page.el("button", { class: "copy", type: "button", "aria-label": `Copy: ${text}` },
    "copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = Page.el("textarea", { class: "offscreen" });
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
  return button;
};
Page.makeCopied = () => {
  for (const code of document.querySelectorAll("article .next .command")) code.after(Page.copyButton(code.textContent));
};
