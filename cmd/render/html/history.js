// SPDX-License-Identifier: Apache-2.0
// The runs of each gate in their order, by uPlot: how far the worst output was off, how many of the
// last ones passed, and in a lane below what became of each.
"use strict";

{
  const HEIGHT = 220;
  const LANE = 14;
  const WINDOW = 20;
  const OUTCOMES = [
    { word: "passed", color: "--equal" },
    { word: "diverged", color: "--origin" },
    { word: "not judged", color: "--missing" },
  ];

  // Of the last WINDOW runs up to each one, the share that passed, in percent.
  const shares = (outcome) => {
    let passed = 0;
    return outcome.map((now, i) => {
      passed += now === 0;
      if (i >= WINDOW) passed -= outcome[i - WINDOW] === 0;
      return 100 * passed / Math.min(i + 1, WINDOW);
    });
  };

  class TrendPlot {
    constructor(data, node) {
      this.data = data;
      this.size = data.time.length;
      this.shares = shares(data.outcome);
      this.ulps = data.ulp.map(Page.numeric).map((ulp) => ulp > 0 && Number.isFinite(ulp) ? ulp : null);
      const known = this.ulps.filter((ulp) => ulp !== null);
      this.most = known.length ? 10 ** Math.ceil(Math.log10(Math.max(...known)) + 0.02) : 0;
      this.plotNode = Page.el("div", { class: "plot" });
      this.lanes = Page.el("canvas", { class: "lanes", "aria-hidden": "true" });
      this.tip = Page.el("div", { class: "tip", hidden: true });
      this.node = Page.el("div", {
        class: "timeline", role: "img", "aria-label":
          `${Page.plural(this.size, "run")} of the gate: share that passed and greatest ULP distance. ` +
          "The table below holds the newest ones.",
      }, this.plotNode, this.lanes, this.tip);
      node.replaceChildren(this.legend(), this.node);
      this.node.addEventListener("mousemove", (event) => this.hover(event));
      this.node.addEventListener("mouseleave", () => { this.tip.hidden = true; });
      this.build();
    }

    legend() {
      return Page.el("p", { class: "hint" }, `Line: share of the last ${WINDOW} runs that passed. `,
        this.most ? "Dots: greatest ULP distance of a run, on a logarithm to the right. " : "", "Below: each run, ",
        OUTCOMES.map(({ word, color }, i) => {
          const mark = Page.el("span", { class: "mark", "aria-hidden": "true" }, "\u25a0");
          mark.style.color = `var(${color})`;
          return [i ? ", " : "", mark, word];
        }).flat(), ".");
    }

    build() {
      const width = this.node.clientWidth;
      if (!width) return;
      if (this.plot) this.plot.destroy();
      const axis = Page.axis();
      const range = [-0.5, this.size - 0.5];
      this.plot = new uPlot({
        width, height: HEIGHT, legend: { show: false }, padding: [10, this.most ? 0 : 26, 0, 0],
        scales: {
          x: { time: false, range: () => range },
          share: { range: () => [0, 104] },
          ulp: { distr: 3, log: 10, range: () => [1, this.most || 10] },
        },
        axes: [
          { ...axis, size: 28, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5],
            values: (_, splits) => splits.map((x) => this.day(x)) },
          { ...axis, size: 74, scale: "share", values: (_, splits) => splits.map((v) => `${v} %`) },
          { ...axis, size: 74, scale: "ulp", side: 1, show: this.most > 0, grid: { show: false },
            values: (_, splits) => splits.map((v) => v !== null && Math.log10(v) % 1 === 0
              ? Page.ulp(v) : "") },
        ],
        series: [
          {},
          { scale: "share", stroke: Page.color("--accent"), width: 2, points: { show: this.size < 3 } },
          { scale: "ulp", stroke: Page.color("--origin"), paths: () => null,
            points: { show: true, size: 7, fill: Page.color("--origin"), width: 1 } },
        ],
        cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
        hooks: { ready: [(plot) => this.drawLane(plot)] },
      }, [this.ulps.map((_, i) => i), this.shares, this.ulps], this.plotNode);
    }

    day(x) {
      const at = Math.round(x);
      return at >= 0 && at < this.size && Math.abs(x - at) < 1e-6 ? this.data.time[at].slice(0, 10) : "";
    }

    drawLane(plot) {
      const context = Page.canvas(this.lanes, this.node.clientWidth, LANE + 4);
      const left = plot.over.offsetLeft;
      const step = plot.over.clientWidth / this.size;
      const wide = Math.max(1, Math.min(step * 0.8, 12));
      // What passed first, so that where runs are closer than pixels the others are seen.
      OUTCOMES.forEach(({ color }, outcome) => {
        context.fillStyle = Page.color(color);
        this.data.outcome.forEach((now, i) => {
          if (now === outcome) context.fillRect(left + (i + 0.5) * step - wide / 2, 2, wide, LANE);
        });
      });
    }

    hover(event) {
      if (!this.plot) return;
      const box = this.node.getBoundingClientRect();
      const x = event.clientX - box.left;
      const at = Math.floor((x - this.plot.over.offsetLeft) / this.plot.over.clientWidth * this.size);
      this.tip.hidden = at < 0 || at >= this.size;
      if (this.tip.hidden) return;
      const { time, commit, status, first } = this.data;
      this.tip.replaceChildren(Page.el("strong", {}, `${status[at]} ${commit[at].slice(0, 12)}`),
        Page.el("span", {}, time[at]), Page.el("span", {}, first[at]),
        Page.el("span", {}, this.ulps[at] === null ? "" : `max ${Page.ulp(this.ulps[at])} ULP`));
      Page.placeTip(this.tip, x, event.clientY - box.top);
    }
  }

  const start = async () => {
    const trends = await Page.read("data");
    const plots = trends.map((data, i) => new TrendPlot(data, document.getElementById(`plot-${i}`)));
    Page.whenLookChanges(document.querySelector("main"), () => plots.forEach((plot) => plot.build()));
    document.documentElement.dataset.ready = "all";
  };

  Page.start(start, "The plots", "The tables are complete without them.");
}
