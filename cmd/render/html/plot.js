// SPDX-License-Identifier: Apache-2.0
// What every picture by uPlot is: a plot, perhaps lanes below it, and a tip that follows the pointer.
"use strict";

{
  // A logarithm's lines: whole powers of ten, as many as there is room for.
  const ROOM = 24;
  const powers = (plot, _, min, max) => {
    const [low, high] = [min, max].map((v) => Math.round(Math.log10(v)));
    const tall = plot.bbox.height / (window.devicePixelRatio || 1);
    const every = Math.max(1, Math.ceil((high - low) * ROOM / Math.max(tall, 1)));
    return Array.from({ length: Math.floor((high - low) / every) + 1 }, (__, i) => 10 ** (low + i * every));
  };
  Page.powerLabel = (v) => v === null ? "" : `1e${Math.round(Math.log10(v))}`;

  Page.Plot = class {
    // A name for readers; lanes: whether there are any; onHover(x, y): what the tip says, or nothing.
    constructor(label, lanes, props) {
      this.plotNode = Page.el("div", { class: "plot" });
      this.lanes = lanes ? Page.el("canvas", { class: "lanes", "aria-hidden": "true" }) : "";
      this.tip = Page.el("div", { class: "tip", hidden: true });
      this.node = Page.el("div", { class: "timeline", role: "img", "aria-label": label, ...props },
        this.plotNode, this.lanes, this.tip);
      this.node.addEventListener("mousemove", (event) => this.hover(...this.where(event)));
      this.node.addEventListener("mouseleave", () => { this.tip.hidden = true; });
    }

    where(event) {
      const box = this.node.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    }
    left() { return this.plot.over.offsetLeft; }
    right() { return this.left() + this.plot.over.clientWidth; }

    hover(x, y) {
      const says = this.plot ? this.says(x, y) : null;
      this.tip.hidden = !says;
      if (!says) return;
      const [first, ...rest] = says;
      this.tip.replaceChildren(Page.el("strong", {}, first), ...rest.map((line) => Page.el("span", {}, line)));
      Page.placeTip(this.tip, x, y);
    }

    // Once in the document, and again when its width or the colours change.
    build() {
      const width = this.node.clientWidth;
      if (!width) return;
      if (this.plot) this.plot.destroy();
      const { x, y, data, names, ...options } = this.options(Page.axis());
      const named = (label) => ({ label, labelSize: 18, labelGap: 0, labelFont: "12px system-ui, sans-serif" });
      const steps = [1, 2, 5, 10, 20, 50].flatMap((n) => [n, n * 100, n * 1e4]).sort((a, b) => a - b);
      this.plot = new uPlot({
        width, legend: { show: false },
        ...options,
        cursor: { y: false, points: { show: false }, ...options.cursor },
        axes: [{ ...Page.axis(), ...named(names[0]), size: 24, incrs: [...steps, 1e6],
          values: (_, splits) => splits.map(x) },
        { ...Page.axis(), ...named(names[1]), size: 56, ...y, ...(options.scales.y.distr === 3 ? { splits: powers, filter: (_, splits) => splits } : {}),
          values: (_, splits) => splits.map(y.values) }],
      }, data, this.plotNode);
    }

    // A dashed line at a place of the x axis; how high it is, or nothing where it is outside.
    drawLine(plot, at, dash) {
      const { ctx, bbox } = plot;
      const x = plot.valToPos(at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) return;
      const ratio = window.devicePixelRatio || 1;
      ctx.save();
      ctx.strokeStyle = Page.color("--accent");
      ctx.lineWidth = ratio;
      ctx.setLineDash(dash.map((n) => n * ratio));
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.restore();
    }
  };
}
