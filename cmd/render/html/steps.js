// SPDX-License-Identifier: Apache-2.0
// What two trainings recorded of their steps, by uPlot: losses, gradient norms, learning rates of both,
// and how far their parameters are apart.
"use strict";

{
  const HEIGHT = 190;
  const PLOTS = [
    { number: "loss", word: "Loss" },
    { number: "drift", word: "Drift of the parameters", log: true, unit: "relative L2 distance", hint: "estimated" },
    { number: "gradient_norm", word: "Gradient norm" },
    { number: "learning_rate", word: "Learning rate" },
  ];
  const SIDES = [{ name: "baseline", color: "--propagated", width: 4 },
    { name: "candidate", color: "--origin", width: 2, dash: [6, 3] }];

  // As many digits as float32 has, which most numbers are.
  const digits = (value) => Number.isFinite(value) ? String(Number(value.toPrecision(9))) : Page.error(value);

  class StepPlot extends Page.Plot {
    // runs: names of baseline and candidate
    constructor(series, plot, runs) {
      super("", false);
      const { log, unit, hint, word } = plot;
      const values = Object.fromEntries(SIDES.map(({ name }) => [name, series[name].map(Page.numeric)]));
      Object.assign(this, { series, log, unit, hint, word, runs, values, sides: log ? SIDES.slice(1) : SIDES });
      this.node.setAttribute("aria-label",
        `${word} of ${Page.plural(series.steps.length, "step")}. ${this.summary()}`);
      this.card = Page.el("figure", { class: "steps" }, Page.el("h3", {}, word, this.legend()), this.node,
        Page.el("figcaption", {}, this.summary()));
    }

    legend() {
      return this.log ? Page.el("span", { class: "hint" }, this.hint) : SIDES.map(({ color }, i) => {
        return Page.el("span", { class: "hint" }, Page.mark(i ? "\u2505" : "\u2501", "", color), this.runs[i]);
      });
    }

    summary() {
      const { first_apart: apart, steps, stride } = this.series;
      const last = steps.length - 1;
      const ends = this.log ? `${Page.error(this.values.candidate[last])} after step ${steps[last]}`
        : `${digits(this.values.baseline[last])} | ${digits(this.values.candidate[last])} at step ${steps[last]}`;
      const odd = this.sides.map(({ name }) => this.series[name].filter((v) => typeof v === "string").length);
      const since = apart === null ? "Bit-equal at every step" : apart === steps[0] ? "Apart from the first step on"
        : `Bit-equal before step ${apart}`;
      return [since, ends,
        odd.some(Boolean) ? `NaN or Inf at ${odd.join(" | ")} steps` : "",
        stride > 1 ? `one step in ${stride} is shown` : ""].filter(Boolean).join("; ") + ".";
    }

    // What has no place in the picture is left out of it.
    shown(name) {
      return this.values[name].map((v) => Number.isFinite(v) && (!this.log || v > 0) ? v : null);
    }

    options() {
      const { steps, first_apart: apart } = this.series;
      const columns = this.sides.map(({ name }) => this.shown(name));
      const known = columns.flat().filter((v) => v !== null);
      const low = Math.min(...known);
      const high = Math.max(...known);
      const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
      const range = !known.length ? [this.log ? 0.1 : 0, 1]
        : this.log ? [10 ** Math.floor(Math.log10(low) - 0.02), 10 ** Math.ceil(Math.log10(high) + 0.02)]
          : [low - room, high + room];
      const edge = Math.max(0.5, (steps[steps.length - 1] - steps[0]) * 0.02);
      return {
        height: HEIGHT, padding: [10, 12, 0, 0],
        scales: {
          x: { time: false, range: () => [steps[0] - edge, steps[steps.length - 1] + edge] },
          y: { distr: this.log ? 3 : 1, log: 10, range: () => range },
        },
        x: (x) => x < 0 ? "" : Page.brief(x),
        y: { values: this.log ? Page.powerLabel : Page.error },
        names: ["step", this.unit || this.word.toLowerCase()],
        series: [{}, ...this.sides.map(({ color, width, dash }) => ({
          scale: "y", stroke: Page.color(color), width, dash: this.log ? undefined : dash,
          points: { show: steps.length < 60, size: 5, fill: Page.color(color) },
        }))],
        cursor: { drag: { x: false, y: false } },
        // Where the runs are bit-equal no longer.
        hooks: { draw: [(plot) => { if (apart !== null) this.drawLine(plot, apart, [4, 3]); }] },
        data: [steps, ...columns],
      };
    }

    says(x) {
      const at = this.plot.posToIdx(x - this.left());
      return [`step ${this.series.steps[at]}`, ...this.sides.map(({ name }, i) =>
        `${this.log ? "apart by" : this.runs[i]} ${digits(this.values[name][at]) || "nothing recorded"}`)];
    }
  }

  // A rate that never changes, the same in both runs, is no picture.
  const isFlat = ({ baseline, candidate }) =>
    [...baseline, ...candidate].every((value) => value === baseline[0]);

  // The plots of a report's training, and what is put into the page; null where none was recorded.
  Page.steps = (report) => {
    const all = report.steps || [];
    if (!all.length) return null;
    const runs = report.runs.map((run) => run.name);
    const body = Page.el("div", { class: "step-plots" });
    const view = { plots: [], build: () => view.plots.forEach((plot) => plot.build()) };
    const show = (ordinal) => {
      view.plots = PLOTS.flatMap((plot) => {
        const of = all.filter(({ number }) => number === plot.number);
        const series = of[Math.min(ordinal, of.length - 1)];
        return !series || (plot.number === "learning_rate" && isFlat(series)) ? []
          : [new StepPlot(series, plot, runs)];
      });
      const missing = PLOTS.slice(0, 3).filter(({ number }) => !all.some((series) => series.number === number));
      body.replaceChildren(...view.plots.map((plot) => plot.card), missing.length
        ? Page.el("p", { class: "hint" }, `Not recorded: ${missing.map(({ word }) => word.toLowerCase()).join(", ")}.`) : "");
      view.build();
    };
    const ordinals = 1 + Math.max(...all.map(({ ordinal }) => ordinal));
    const choices = Array.from({ length: ordinals > 1 ? ordinals : 0 },
      (_, ordinal) => [ordinal + 1, ["", () => show(ordinal)]]);
    view.node = Page.el("section", { class: "card training" }, Page.el("div", { class: "cardhead" },
      Page.el("h2", {}, "Training"), Page.el("span", { class: "metric" }, "by step"),
      Page.choice("Which loss or optimizer of a step", "1", Object.fromEntries(choices))), body);
    show(0);
    return view;
  };
}
