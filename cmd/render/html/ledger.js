// SPDX-License-Identifier: Apache-2.0
// Which operators drew random numbers, and where the generators stood; where NaN and Inf began.
"use strict";

{
  const MOST = 200;

  const generatorText = (use) => use
    ? `${use.device} seed ${use.seed}, ${use.drawn === null ? "draws not counted" : Page.plural(use.drawn, "draw")}`
    : "";
  const positions = (use) => use ? `${use.before} to ${use.after}` : "";
  const verdictOf = ({ baseline, candidate }) => {
    if (!baseline || !candidate) return "one side only";
    if (baseline.before !== candidate.before || baseline.seed !== candidate.seed) return "started apart";
    return baseline.after === candidate.after ? "same place" : "parted here";
  };

  // null where nothing drew.
  Page.ledger = (model, onPick) => {
    const { draws, draws_total: total } = model.trail;
    if (!total) return null;
    const items = draws.op.map((_, at) => Page.itemOf(draws, at));
    const rowOf = (draw) => model.rowOf(draw.row_baseline, draw.row_candidate);
    const gap = items.findIndex((draw) => verdictOf(draw) !== "same place");
    // A long ledger begins shortly before the first gap.
    const from = gap >= MOST ? gap - 10 : 0;
    const rows = items.slice(from, from + MOST).map((draw, i) => {
      const verdict = verdictOf(draw);
      const row = rowOf(draw);
      return Page.el("tr", { class: verdict === "same place" ? "mild" : "apart" },
        Page.el("td", {}, Page.opLink(model, row, onPick, `op ${model.label(row)}`)),
        Page.el("td", {}, model.trail.operators[draw.op]),
        Page.el("td", { title: positions(draw.baseline) }, generatorText(draw.baseline)),
        Page.el("td", { title: positions(draw.candidate) }, generatorText(draw.candidate)),
        Page.el("td", {}, verdict, from + i === gap ? " (first)" : ""));
    });
    return Page.el("section", { class: "card ledger" }, Page.el("h2", {}, "Generator ledger"),
      Page.el("p", {}, gap < 0
        ? `${Page.plural(total, "operator")} drew random numbers; the generators stood at the same places in both runs.`
        : "The generators did not stand at the same places in both runs; the first such operator: " +
          `op ${model.label(rowOf(items[gap]))}.`),
      Page.el("div", { class: "scroll" }, Page.el("table", {},
        Page.head("op", "operator", "baseline", "candidate", "place"), Page.el("tbody", {}, rows))),
      total > rows.length ? Page.el("p", {}, `and ${Page.count(total - rows.length)} more`) : null);
  };

  // The first operator of each side that holds NaN or Inf; null where there is none.
  Page.specials = (model, onPick) => {
    const lines = [];
    for (const [kind, word] of [["nan", "NaN"], ["inf", "Inf"]]) {
      for (const side of ["baseline", "candidate"]) {
        const found = [...model.state.keys()].filter((row) => model.special(kind, row, side));
        if (!found.length) continue;
        lines.push(Page.el("li", {}, `${word} in ${side}: first at `, Page.opLink(model, found[0], onPick),
          `, ${Page.plural(found.length, "operator")} in all`));
      }
    }
    return lines.length ? Page.el("section", { class: "card specials" },
      Page.el("h2", {}, "NaN and Inf"), Page.el("ul", {}, lines)) : null;
  };
}
