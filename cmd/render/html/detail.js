// SPDX-License-Identifier: Apache-2.0
// All that is known of one operator.
"use strict";

{
  const MOST_LINKS = 12;

  const METRICS = [
    ["differ", (m) => `${Page.count(m("n_diff"))} of ${Page.count(m("elements"))} ` +
      `(${Page.percent(m("n_diff"), m("elements"))})`],
    ["beyond policy", (m) => Page.count(m("n_beyond"))],
    ["max abs", (m) => Page.error(m("max_abs"))],
    ["mean abs", (m) => Page.error(m("mean_abs"))],
    ["max rel", (m) => Page.error(m("max_rel"))],
    ["max ULP", (m) => Page.ulp(m("ulp_max"))],
    ["L2 rel", (m) => Page.error(m("l2_rel"))],
    ["cosine", (m) => Number.isNaN(m("cosine")) ? "" : String(m("cosine"))],
    ["RMSE", (m) => Page.error(m("rmse"))],
    ["norm ratio", (m) => Page.error(m("norm_ratio"))],
    ["rtol needed", (m) => Page.error(m("rtol_needed"))],
    ["atol needed", (m) => Page.error(m("atol_needed"))],
    ["NaN one side", (m) => m("nan_baseline") + m("nan_candidate")
      ? `${Page.count(m("nan_baseline"))} | ${Page.count(m("nan_candidate"))}` : ""],
    ["Inf one side", (m) => m("inf_baseline") + m("inf_candidate") + m("inf_sign")
      ? `${Page.count(m("inf_baseline"))} | ${Page.count(m("inf_candidate"))}` +
        (m("inf_sign") ? `, ${Page.count(m("inf_sign"))} opposite` : "") : ""],
    ["only zero signs", (m) => m("zero_sign_only") ? Page.count(m("zero_sign_only")) : ""],
    ["sign flips", (m) => m("flips") ? Page.count(m("flips")) : ""],
  ];

  const facts = (pairs) => Page.el("dl", { class: "facts small" },
    pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined)
      .map(([name, value]) => Page.el("div", {}, Page.el("dt", {}, name), Page.el("dd", {}, value))));

  const typeOf = (tensor) => `${tensor.dtype} [${tensor.shape.join(", ")}]` +
    (tensor.candidate_dtype || tensor.candidate_shape
      ? ` against ${tensor.candidate_dtype || tensor.dtype} ` +
        `[${(tensor.candidate_shape || tensor.shape).join(", ")}]` : "");

  const sampleTable = (samples) => Page.el("div", { class: "scroll" },
    Page.el("table", { class: "samples" },
      Page.head("index", "baseline", "candidate", "ULP"),
      Page.el("tbody", {}, samples.map((sample) => Page.el("tr", {},
        Page.el("td", {}, `[${sample.index.join(", ")}]`),
        Page.el("td", { title: `bits ${sample.baseline.bits}` }, sample.baseline.value),
        Page.el("td", { title: `bits ${sample.candidate.bits}` }, sample.candidate.value),
        Page.el("td", {}, sample.ulp === null ? "" : Page.ulp(Page.numeric(sample.ulp))))))));

  class Detail {
    constructor(model, onPick) {
      this.model = model;
      this.onPick = onPick;
      this.node = Page.el("aside", { class: "card detail", "aria-label": "Operator", tabindex: "-1" });
      this.node.append(Page.el("p", { class: "hint" },
        "Choose an operator: in the timeline, in the table, or with the keys n and p."));
    }

    show(row) {
      const model = this.model;
      const item = model.described.get(row);
      this.node.replaceChildren();
      Page.fill(this.node,
        this.title(row),
        facts(this.place(row)),
        this.cause(item),
        ...this.outputs(row, item),
        this.notes(item),
        this.inputs(row, item),
        this.links("read by", model.consumersOf(row)),
        this.commands(row));
      this.node.scrollTop = 0;
    }

    title(row) {
      const model = this.model;
      return Page.el("header", {},
        Page.el("p", { class: "eyebrow" }, `op ${model.label(row)}`, " ",
          Page.stateBadge(model.state[row])),
        Page.el("h2", {}, model.operator(row)),
        Page.el("p", { class: "permalink" }, Page.opLink(model, row, this.onPick, `#op-${model.label(row)}`)));
    }

    place(row) {
      const model = this.model;
      const candidate = model.candidate[row];
      const other = candidate !== Page.NONE && candidate !== model.baseline[row] ? candidate : "";
      return [
        ["module", model.module(row)],
        ["source", model.source(row, true)],
        ["phase", ["", "backward", "optimizer", "setup", "data", "loss", "reduce", "recompute", "eval"][model.phase[row]]],
        ["output", model.typeText(row)],
        ["in candidate", other === "" ? "" : `op ${other}`],
        ["max abs", Page.error(model.measured.abs[row])],
        ["max rel", Page.error(model.measured.rel[row])],
        ["max ULP", Page.ulp(model.measured.ulp[row])],
        ["NaN", this.sides("nan", row)],
        ["Inf", this.sides("inf", row)],
      ];
    }

    sides(kind, row) {
      const [left, right] = ["baseline", "candidate"].map((side) => this.model.special(kind, row, side));
      return left + right ? `${Page.count(left)} in baseline, ${Page.count(right)} in candidate` : "";
    }

    cause(item) {
      if (!item || !item.cause || !item.cause.name) return null;
      const { name, evidence, advice } = item.cause;
      return Page.el("section", { class: "why" }, Page.el("h3", {}, `Why: ${name}`),
        Page.el("p", {}, evidence), ...(advice ? [Page.el("h3", {}, "Fix"), Page.el("p", {}, advice)] : []));
    }

    outputs(row, item) {
      if (!item) {
        if (!Page.isBad(this.model.state[row]) || !this.model.maps) return [];
        return [Page.el("p", { class: "hint" },
          "The report describes its first 1,000 differing operators in full; of this one it holds the row.")];
      }
      return item.outputs.map((tensor) => this.tensor(`output ${tensor.slot}`, tensor,
        this.model.mapOf(row, tensor.slot)));
    }

    tensor(name, tensor, map) {
      const metrics = tensor.metrics;
      const value = (key) => Page.numeric(metrics[key]);
      const parts = [
        Page.el("h3", {}, name, Page.el("span", { class: "type" }, typeOf(tensor))),
        tensor.note ? Page.el("p", { class: "note" }, tensor.note) : null,
      ];
      if (metrics) {
        parts.push(facts(METRICS.map(([word, of]) => [word, of(value)])));
        if (tensor.samples.length) parts.push(sampleTable(tensor.samples));
        if (metrics.ulp_hist) parts.push(Page.ulpHistogram(metrics.ulp_hist));
        else if (metrics.rel_hist) parts.push(Page.relHistogram(metrics.rel_hist));
        if (map) parts.push(Page.heatMap(map));
      }
      return Page.fill(Page.el("section", { class: "tensor" }), parts);
    }

    notes(item) {
      if (!item) return null;
      const replaced = (item.replaced || []).map((phrase) => phrase.text);
      const notes = item.notes.concat(replaced.length ? ["operator differs: " + replaced.join("; ")] : []);
      if (!notes.length) return null;
      return Page.el("section", {}, Page.el("h3", {}, "arguments and results that differ"),
        Page.el("ul", {}, notes.map((note) => Page.el("li", {}, note))));
    }

    // Every producer, and of the inputs that differ how much.
    inputs(row, item) {
      const list = item ? item.inputs.map((input) => Page.el("li", {},
        Page.el("code", {}, input.slot), ` ${typeOf(input)} differs`,
        input.note ? `: ${input.note}` : "",
        input.metrics ? `, max abs ${Page.error(Page.numeric(input.metrics.max_abs))}` : "")) : [];
      const links = this.links("inputs made by", this.model.producersOf(row));
      if (!list.length) return links;
      return Page.el("section", {}, Page.el("h3", {}, "inputs that differ"), Page.el("ul", {}, list), links);
    }

    links(word, rows) {
      if (!rows.length) return null;
      const rest = rows.length - MOST_LINKS;
      return Page.el("section", {}, Page.el("h3", {}, word),
        Page.el("ul", { class: "links" }, rows.slice(0, MOST_LINKS).map((row) => {
          const state = Page.states[this.model.state[row]];
          return Page.el("li", {}, Page.opLink(this.model, row, this.onPick,
            Page.el("span", { class: `mark ${state.key}`, "aria-label": state.word }, state.mark),
            ` op ${this.model.label(row)} ${this.model.operator(row)}`));
        }), rest > 0 ? Page.el("li", {}, `and ${Page.count(rest)} more`) : null));
    }

    commands(row) {
      const { runs } = this.model.report;
      const [baseline, candidate] = [this.model.baseline[row], this.model.candidate[row]];
      const side = baseline !== Page.NONE ? runs[0] : runs[1];
      const other = baseline !== Page.NONE && candidate !== Page.NONE ? runs[1] : null;
      if (!side || !side.dump) return null;
      const index = baseline !== Page.NONE ? baseline : candidate;
      const word = Page.shellWord;
      const lines = [`repro-check inspect ${word(side.dump)} --op ${index}`,
        `repro-check replay ${word(side.dump)} --op ${index}` +
          (other && other.dump && baseline === candidate ? ` --against ${word(other.dump)}` : "")];
      return Page.el("section", {}, Page.el("h3", {}, "look closer"),
        Page.el("ul", { class: "next" }, lines.map((line) => Page.el("li", {},
          Page.el("code", { class: "command" }, line), Page.copyButton(line)))));
    }
  }

  Page.Detail = Detail;
}
