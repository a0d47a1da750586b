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

  class TrendPlot extends Page.Plot {
    constructor(data, node) {
      super(`${Page.plural(data.time.length, "run")} of the gate: share that passed and greatest ULP distance. ` +
        "The table below holds the newest ones.", true);
      this.data = data;
      this.size = data.time.length;
      this.shares = shares(data.outcome);
      this.ulps = data.ulp.map(Page.numeric).map((ulp) => ulp > 0 && Number.isFinite(ulp) ? ulp : null);
      const known = this.ulps.filter((ulp) => ulp !== null);
      this.most = known.length ? 10 ** Math.ceil(Math.log10(Math.max(...known)) + 0.02) : 0;
      node.replaceChildren(this.legend(), this.node);
      this.build();
    }

    legend() {
      return Page.el("p", { class: "hint" }, `Line: share of the last ${WINDOW} runs that passed. `,
        this.most ? "Dots: greatest ULP distance of a run, on a logarithm to the right. " : "", "Below: each run, ",
        OUTCOMES.flatMap(({ word, color }, i) => [i ? ", " : "", Page.mark("\u25a0", "", color), word]), ".");
    }

    options() {
      const range = [-0.5, this.size - 0.5];
      return {
        height: HEIGHT, padding: [10, this.most ? 0 : 26, 0, 0],
        scales: {
          x: { time: false, range: () => range },
          share: { range: () => [0, 104] },
          ulp: { distr: 3, log: 10, range: () => [1, this.most || 10] },
        },
        x: (x) => this.day(x),
        y: [{ scale: "share", values: (v) => `${v} %` },
          { scale: "ulp", side: 1, show: this.most > 0, grid: { show: false },
            values: (v) => v !== null && Math.log10(v) % 1 === 0 ? Page.ulp(v) : "" }],
        series: [
          {},
          { scale: "share", stroke: Page.color("--accent"), width: 2, points: { show: this.size < 3 } },
          { scale: "ulp", stroke: Page.color("--origin"), paths: () => null,
            points: { show: true, size: 7, fill: Page.color("--origin"), width: 1 } },
        ],
        cursor: { drag: { x: false, y: false } },
        hooks: { ready: [(plot) => this.drawLane(plot)] },
        data: [this.ulps.map((_, i) => i), this.shares, this.ulps],
      };
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

    says(x) {
      const at = Math.floor((x - this.left()) / this.plot.over.clientWidth * this.size);
      if (at < 0 || at >= this.size) return null;
      const { time, commit, status, first } = this.data;
      return [`${status[at]} ${commit[at].slice(0, 12)}`, time[at], first[at],
        this.ulps[at] === null ? "" : `max ${Page.ulp(this.ulps[at])} ULP`];
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
