// SPDX-License-Identifier: Apache-2.0
// Single keys, for those who want them: they can be switched off.
"use strict";

{
  const HELP = [
    ["/", "search"], ["n  p", "next, previous operator that is not fine"], ["o", "next origin"],
    ["j  k", "next, previous row of the table"], ["Enter", "read the details"], ["Esc", "back to the table"],
    ["r", "whole timeline"], ["?", "this help"],
  ];
  const SEARCHES = [
    ["addmm", "in operator, module or source"], ["/linear[12]/", "regular expression"],
    ["is:origin", "origin, propagated, mismatch, missing, bad, equal ..."],
    ["op:softmax module:encoder", "one field; both must hold"], ["abs:>1e-5 ulp:>4", "numbers"],
    ["nan:>0", "operators with NaN; inf: likewise"], ["-is:equal", "all but those"],
    ["index:100..200", "a part of the trace"],
  ];

  let on = true;
  try { on = localStorage.getItem("repro-check-keys") !== "off"; } catch { /* no storage here */ }

  const list = (pairs) => Page.el("dl", { class: "keys" }, pairs.map(([key, what]) =>
    Page.el("div", {}, Page.el("dt", {}, Page.el("kbd", {}, key)), Page.el("dd", {}, what))));

  Page.helpDialog = () => {
    const box = Page.el("input", { type: "checkbox" });
    box.checked = on;
    box.addEventListener("change", () => {
      on = box.checked;
      try { localStorage.setItem("repro-check-keys", on ? "on" : "off"); } catch { /* as above */ }
    });
    const close = Page.el("button", { type: "button" }, "close");
    const dialog = Page.el("dialog", { "aria-label": "Help" }, Page.el("h2", {}, "Keys"), list(HELP),
      Page.el("label", {}, box, " single keys are on"), Page.el("h2", {}, "Search"), list(SEARCHES),
      Page.el("h2", {}, "Timeline"),
      Page.el("p", {}, "Drag to zoom, double click for all, Shift and wheel to zoom at the pointer, " +
        "drag in the strip below to move the window. With the keyboard: + \u2212 0 and the arrows."), close);
    close.addEventListener("click", () => dialog.close());
    return dialog;
  };

  // acts: by key; not while somebody types.
  Page.listenToKeys = (acts) => {
    document.addEventListener("keydown", (event) => {
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
      if (event.key === "Escape" && acts.Escape) acts.Escape(event);
      if (typing || !on || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Enter" && /^(BUTTON|A|LI|SUMMARY)$/.test(event.target.tagName)) return;
      if (event.key === "Escape" || !acts[event.key]) return;
      event.preventDefault();
      acts[event.key](event);
    });
  };
}
