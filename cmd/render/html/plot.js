// SPDX-License-Identifier: Apache-2.0
// What every picture by uPlot is: a plot, perhaps lanes below it, and a tip that follows the pointer.
"use strict";

{
  // By logarithm a label for whole powers of ten alone.
  Page.powerLabel = (v) => v !== null && Math.abs(Math.log10(v) % 1) < 1e-9 ? `1e${Math.round(Math.log10(v))}` : "";

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
      const { x, y, data, ...options } = this.options(Page.axis());
      const steps = [1, 2, 5, 10, 20, 50].flatMap((n) => [n, n * 100, n * 1e4]).sort((a, b) => a - b);
      this.plot = new uPlot({
        width, legend: { show: false },
        ...options,
        cursor: { y: false, points: { show: false }, ...options.cursor },
        axes: [{ ...Page.axis(), size: 28, incrs: [...steps, 1e6], values: (_, splits) => splits.map(x) },
          ...y.map((axis) => ({ ...Page.axis(), size: 74, ...axis,
            values: (_, splits) => splits.map(axis.values) }))],
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
