// SPDX-License-Identifier: Apache-2.0
// Which operators drew random numbers, and where the generators stood; where NaN and Inf began.
"use strict";

{
  const MOST = 200;

  const generatorText = (use) => use
    ? `${use[0]} seed ${use[1]}, ${use[4] === -1 ? "draws not counted" : Page.plural(use[4], "draw")}`
    : "";
  const sameStart = (a, b) => a && b && a[2] === b[2] && a[1] === b[1];
  const sameEnd = (a, b) => a && b && a[3] === b[3];

  // null where nothing drew.
  Page.ledger = (model, onPick) => {
    const { items, total } = model.trail.draws;
    if (!total) return null;
    const gap = items.findIndex(([, , , b, c]) => !sameStart(b, c) || !sameEnd(b, c));
    const rowLabel = ([baseline, candidate]) => baseline === null ? `c${candidate}` : String(baseline);
    // A long ledger begins shortly before the first gap.
    const from = gap >= MOST ? gap - 10 : 0;
    const rows = items.slice(from, from + MOST).map(([baseline, candidate, op, b, c], i) => {
      const row = baseline === null ? model.rowOfCandidate[candidate]
        : model.rowOfBaseline[baseline];
      const link = Page.el("a", { href: `#op-${model.label(row)}` }, `op ${model.label(row)}`);
      link.addEventListener("click", (event) => { event.preventDefault(); onPick(row); });
      const verdict = !b || !c ? "one side only" : sameStart(b, c)
        ? (sameEnd(b, c) ? "same place" : "parted here") : "started apart";
      return Page.el("tr", { class: verdict === "same place" ? "mild" : "apart" },
        Page.el("td", {}, link), Page.el("td", {}, model.trail.operators[op]),
        Page.el("td", { title: b ? `${b[2]} to ${b[3]}` : "" }, generatorText(b)),
        Page.el("td", { title: c ? `${c[2]} to ${c[3]}` : "" }, generatorText(c)),
        Page.el("td", {}, verdict, from + i === gap ? " (first)" : ""));
    });
    return Page.el("section", { class: "card ledger" }, Page.el("h2", {}, "Generator ledger"),
      Page.el("p", {}, gap < 0
        ? `${Page.plural(total, "operator")} drew random numbers; the generators stood at the same places in both runs.`
        : "The generators did not stand at the same places in both runs; the first such operator: " +
          `op ${rowLabel(items[gap])}.`),
      Page.el("div", { class: "scroll" }, Page.el("table", {},
        Page.el("thead", {}, Page.el("tr", {}, ["op", "operator", "baseline", "candidate", "place"]
          .map((word) => Page.el("th", { scope: "col" }, word)))),
        Page.el("tbody", {}, rows))),
      total > rows.length ? Page.el("p", {}, `and ${Page.count(total - rows.length)} more`) : null);
  };

  // The first operator of each side that holds NaN or Inf; null where there is none.
  Page.specials = (model, onPick) => {
    const lines = [];
    for (const [key, word] of [["nan", "NaN"], ["inf", "Inf"]]) {
      for (const [side, name] of [["_b", "baseline"], ["_c", "candidate"]]) {
        const found = model.specials[key + side];
        if (!found.size) continue;
        const row = found.keys().next().value;
        const link = Page.el("a", { href: `#op-${model.label(row)}` },
          `op ${model.label(row)} ${model.operator(row)}`);
        link.addEventListener("click", (event) => { event.preventDefault(); onPick(row); });
        lines.push(Page.el("li", {}, `${word} in ${name}: first at `, link,
          `, ${Page.plural(found.size, "operator")} in all`));
      }
    }
    return lines.length ? Page.el("section", { class: "card specials" },
      Page.el("h2", {}, "NaN and Inf"), Page.el("ul", {}, lines)) : null;
  };
}
