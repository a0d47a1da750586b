// SPDX-License-Identifier: Apache-2.0
// What two trainings recorded of their steps, by uPlot: losses, gradient norms, learning rates of both,
// and how far their parameters are apart.
"use strict";

{
  const HEIGHT = 190;
  const PLOTS = [
    { number: "loss", word: "Loss" },
    { number: "drift", word: "Drift of the parameters", log: true, unit: "relative L2 distance, estimated" },
    { number: "gradient_norm", word: "Gradient norm" },
    { number: "learning_rate", word: "Learning rate" },
  ];
  const SIDES = [{ name: "baseline", color: "--propagated", width: 4 },
    { name: "candidate", color: "--origin", width: 2, dash: [6, 3] }];

  // As many digits as float32 has, which most numbers are.
  const digits = (value) => Number.isFinite(value) ? String(Number(value.toPrecision(9))) : Page.error(value);

  class StepPlot {
    // runs: names of baseline and candidate
    constructor(series, plot, runs) {
      this.series = series;
      this.log = plot.log;
      this.unit = plot.unit;
      this.runs = runs;
      this.values = Object.fromEntries(SIDES.map(({ name }) => [name, series[name].map(Page.numeric)]));
      this.sides = this.log ? SIDES.slice(1) : SIDES;
      this.plotNode = Page.el("div", { class: "plot" });
      this.tip = Page.el("div", { class: "tip", hidden: true });
      this.node = Page.el("div", { class: "timeline", role: "img", "aria-label":
        `${plot.word} of ${Page.plural(series.steps.length, "step")}. ${this.summary()}` }, this.plotNode, this.tip);
      this.card = Page.el("figure", { class: "steps" }, Page.el("h3", {}, plot.word, this.legend()), this.node,
        Page.el("figcaption", {}, this.summary()));
      this.node.addEventListener("mousemove", (event) => this.hover(event));
      this.node.addEventListener("mouseleave", () => { this.tip.hidden = true; });
    }

    legend() {
      if (this.log) return Page.el("span", { class: "hint" }, this.unit);
      return SIDES.map(({ color }, i) => {
        const mark = Page.el("span", { class: "mark", "aria-hidden": "true" }, i ? "\u2505" : "\u2501");
        mark.style.color = `var(${color})`;
        return Page.el("span", { class: "hint" }, mark, this.runs[i]);
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

    build() {
      const width = this.node.clientWidth;
      if (!width) return;
      if (this.plot) this.plot.destroy();
      const { steps } = this.series;
      const axis = Page.axis();
      const columns = this.sides.map(({ name }) => this.shown(name));
      const known = columns.flat().filter((v) => v !== null);
      const low = Math.min(...known);
      const high = Math.max(...known);
      const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
      const range = !known.length ? [this.log ? 0.1 : 0, 1]
        : this.log ? [10 ** Math.floor(Math.log10(low) - 0.02), 10 ** Math.ceil(Math.log10(high) + 0.02)]
          : [low - room, high + room];
      const label = (v) => v === null ? "" : !this.log ? Page.error(v)
        : Math.abs(Math.log10(v) % 1) < 1e-9 ? `1e${Math.round(Math.log10(v))}` : "";
      const edge = Math.max(0.5, (steps[steps.length - 1] - steps[0]) * 0.02);
      this.plot = new uPlot({
        width, height: HEIGHT, legend: { show: false }, padding: [10, 12, 0, 0],
        scales: {
          x: { time: false, range: () => [steps[0] - edge, steps[steps.length - 1] + edge] },
          y: { distr: this.log ? 3 : 1, log: 10, range: () => range },
        },
        axes: [
          { ...axis, size: 28, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6],
            values: (_, splits) => splits.map((x) => x < 0 ? "" : Page.brief(x)) },
          { ...axis, size: 74, values: (_, splits) => splits.map(label) },
        ],
        series: [{}, ...this.sides.map(({ color, width: line, dash }) => ({
          scale: "y", stroke: Page.color(color), width: line, dash: this.log ? undefined : dash,
          points: { show: steps.length < 60, size: 5, fill: Page.color(color) },
        }))],
        cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
        hooks: { draw: [(plot) => this.drawParting(plot)] },
      }, [steps, ...columns], this.plotNode);
    }

    // Where the runs are bit-equal no longer.
    drawParting(plot) {
      const { first_apart: apart } = this.series;
      if (apart === null) return;
      const { ctx, bbox } = plot;
      const x = Math.round(plot.valToPos(apart, "x", true));
      ctx.save();
      ctx.strokeStyle = Page.color("--accent");
      ctx.lineWidth = window.devicePixelRatio || 1;
      ctx.setLineDash([4, 3]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.restore();
    }

    hover(event) {
      if (!this.plot) return;
      const box = this.node.getBoundingClientRect();
      const x = event.clientX - box.left;
      const at = this.plot.posToIdx(x - this.plot.over.offsetLeft);
      this.tip.hidden = false;
      this.tip.replaceChildren(Page.el("strong", {}, `step ${this.series.steps[at]}`),
        ...this.sides.map(({ name }, i) => Page.el("span", {},
          `${this.log ? "apart by" : this.runs[i]} ${digits(this.values[name][at]) || "nothing recorded"}`)));
      Page.placeTip(this.tip, x, event.clientY - box.top);
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
    const buttons = [...Array(ordinals > 1 ? ordinals : 0).keys()].map((ordinal) => Page.el("button", {
      type: "button", "aria-pressed": String(ordinal === 0), onclick: (event) => {
        for (const other of buttons) other.setAttribute("aria-pressed", String(other === event.currentTarget));
        show(ordinal);
      } }, ordinal + 1));
    view.node = Page.el("section", { class: "card training" }, Page.el("div", { class: "cardhead" },
      Page.el("h2", {}, "Training"), Page.el("span", { class: "metric" }, "by step"),
      Page.el("span", { class: "group", role: "group", "aria-label": "Which loss or optimizer of a step" }, buttons)),
    body);
    show(0);
    return view;
  };
}
