// SPDX-License-Identifier: Apache-2.0
// Every operator at its place in the trace, its error on a logarithm, by uPlot. What has no place
// on a logarithm (no error, NaN, no number) stands in the lanes below.
"use strict";

{
  const [LOWEST, HIGHEST] = [200, 300];
  const FLAT = 130;
  const LANE = 15;
  const REACH = 9;
  const METRICS = Page.METRICS = {
    abs: "max absolute error", rel: "max relative error", l2: "relative L2 error",
    ulp: "max ULP distance",
  };
  // A lane without a colour of its own shows each mark in that of its state.
  const LANES = [
    { name: "NaN, Inf", color: "--special" }, { name: "missing" }, { name: "no number" }, { name: "equal" },
  ];
  // By state, origins last so that they lie on top.
  const DRAWN = ["equal", "skipped", "baseline-only", "candidate-only", "propagated", "within",
    "not-judged", "mismatch", "origin"].map((key) => Page.states.findIndex((s) => s.key === key));

  const laneOf = (model, row) => {
    const state = model.state[row];
    if (state === 5 || state === 6) return 1;
    if (state === Page.EQUAL || state === Page.SKIPPED) return 3;
    return 2;
  };

  const polygon = (...corners) => (c, x, y, r) => {
    corners.forEach(([dx, dy], i) => c[i ? "lineTo" : "moveTo"](x + r * dx, y + r * dy));
    c.closePath();
  };
  const marks = {
    origin: polygon([0, -1.25], [1.15, 0.8], [-1.15, 0.8]),
    mismatch: polygon([0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]),
    dot: (c, x, y, r) => {
      c.moveTo(x + r, y);
      c.arc(x, y, r, 0, 2 * Math.PI);
    },
  };

  const STRIP = 34;
  const EDGE = 7;

  // The whole trace in one strip, with a brush for the part that the timeline shows.
  class Overview {
    constructor(model, onBrush) {
      this.model = model;
      this.onBrush = onBrush;
      this.selected = Page.NONE;
      this.node = Page.el("canvas", { class: "overview", "aria-hidden": "true" });
      this.listen();
    }

    build(width, left, right) {
      this.width = width;
      this.left = left;
      this.right = right;
      this.columns = this.worstByColumn(Math.max(1, Math.round(right - left)));
      this.paint();
    }

    // Per pixel the state that weighs most and the share of operators that are not fine.
    worstByColumn(pixels) {
      const columns = Array.from({ length: pixels }, () => ({ rank: -1, state: 0, bad: 0, all: 0 }));
      const { size, state } = this.model;
      for (let row = 0; row < size; row++) {
        const first = Math.floor(row * pixels / size);
        const last = Math.max(first, Math.floor((row + 1) * pixels / size) - 1);
        const { rank } = Page.states[state[row]];
        for (let x = first; x <= last && x < pixels; x++) {
          const column = columns[x];
          column.all++;
          if (Page.isBad(state[row])) column.bad++;
          if (rank > column.rank) { column.rank = rank; column.state = state[row]; }
        }
      }
      return columns;
    }

    toX(row) { return this.left + (row + 0.5) / Math.max(this.model.size, 1) * (this.right - this.left); }
    toRow(x) { return (x - this.left) / (this.right - this.left) * this.model.size - 0.5; }

    setRange(from, to) {
      this.range = [from, to];
      this.paint();
    }

    select(row) {
      this.selected = row;
      this.paint();
    }

    paint() {
      if (!this.columns) return;
      const context = Page.canvas(this.node, this.width, STRIP);
      context.fillStyle = Page.color("--sunken");
      context.fillRect(this.left, 0, this.right - this.left, STRIP);
      const colors = Page.states.map((state) => Page.color(state.color));
      this.columns.forEach((column, x) => {
        if (column.rank < 0) return;
        const height = column.bad ? STRIP * (0.35 + 0.65 * column.bad / column.all) : STRIP * 0.18;
        context.fillStyle = colors[column.state];
        context.fillRect(this.left + x, STRIP - height, 1, height);
      });
      this.paintBrush(context);
    }

    paintBrush(context) {
      if (this.selected >= 0) {
        context.fillStyle = Page.color("--accent");
        context.fillRect(this.toX(this.selected) - 1, 0, 2, STRIP);
      }
      if (!this.range) return;
      const [from, to] = this.range.map((row) => this.toX(row));
      context.fillStyle = Page.color("--veil");
      context.fillRect(this.left, 0, Math.max(0, from - this.left), STRIP);
      context.fillRect(to, 0, Math.max(0, this.right - to), STRIP);
      context.strokeStyle = Page.color("--accent");
      context.lineWidth = 2;
      context.strokeRect(from + 1, 1, Math.max(2, to - from - 2), STRIP - 2);
    }

    // A drag inside moves the brush, at an edge widens it, outside begins another.
    listen() {
      let grip = null;
      const at = (event) => event.clientX - this.node.getBoundingClientRect().left;
      this.node.addEventListener("pointerdown", (event) => {
        if (!this.range) return;
        const x = at(event);
        const [from, to] = this.range.map((row) => this.toX(row));
        const is_whole = to - from > (this.right - this.left) * 0.98;
        const kind = Math.abs(x - from) < EDGE ? "from" : Math.abs(x - to) < EDGE ? "to"
          : x > from && x < to && !is_whole ? "move" : "new";
        grip = { kind, start: this.toRow(x), range: [...this.range] };
        this.node.setPointerCapture(event.pointerId);
      });
      this.node.addEventListener("pointermove", (event) => {
        if (!grip) return;
        const row = this.toRow(at(event));
        const [from, to] = grip.range;
        if (grip.kind === "move") this.onBrush(from + row - grip.start, to + row - grip.start);
        else if (grip.kind === "from") this.onBrush(Math.min(row, to - 2), to);
        else if (grip.kind === "to") this.onBrush(from, Math.max(row, from + 2));
        else if (Math.abs(row - grip.start) > 0.5) {
          this.onBrush(Math.min(row, grip.start), Math.max(row, grip.start));
        }
      });
      this.node.addEventListener("pointerup", () => { grip = null; });
    }
  }

  Page.Timeline = class extends Page.Plot {
    constructor(model, { onPick, onRange }) {
      super(`Timeline of ${Page.plural(model.size, "operator")}: errors by op index. ` +
        "The table below holds the same numbers.", true, { tabindex: "0" });
      this.model = model;
      this.onPick = onPick;
      this.onRange = onRange;
      this.selected = Page.NONE;
      this.metric = this.bestMetric();
      this.borders = this.firstOfSteps();
      this.overview = new Overview(model, (from, to) => this.show(from, to));
      this.sortPoints();
      this.listen();
    }

    bestMetric() {
      for (const name of ["abs", "ulp", "l2"]) {
        if (this.model.measured[name].some((value) => value > 0 && Number.isFinite(value))) return name;
      }
      return "abs";
    }

    // The first row of every step, where there are several.
    firstOfSteps() {
      const found = [];
      let most = -1;
      this.model.step.forEach((step, row) => {
        if (step > most) found.push(row);
        most = Math.max(most, step);
      });
      return found.length > 1 ? found : [];
    }

    // A line where a step begins, and its number, as far as there is room.
    drawSteps(plot) {
      const { ctx, bbox } = plot;
      const ratio = window.devicePixelRatio || 1;
      let [line, word] = [-Infinity, -Infinity];
      ctx.save();
      ctx.font = `${11 * ratio}px system-ui, sans-serif`;
      ctx.textBaseline = "bottom";
      ctx.textAlign = "left";
      ctx.strokeStyle = ctx.fillStyle = Page.color("--muted-ink");
      ctx.lineWidth = ratio;
      ctx.beginPath();
      for (const row of this.borders) {
        const x = plot.valToPos(row - 0.5, "x", true);
        if (x < bbox.left - 1 || x > bbox.left + bbox.width || x - line < 12 * ratio) continue;
        line = x;
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        if (x - word < 56 * ratio) continue;
        word = x;
        ctx.fillText(`step ${this.model.step[row]}`, x, bbox.top - 3 * ratio);
      }
      ctx.stroke();
      ctx.restore();
    }

    setMetric(name) {
      this.metric = name;
      this.sortPoints();
      this.build();
    }

    // Rows with a point by state, and the other ones by lane and there by state.
    sortPoints() {
      const values = this.model.measured[this.metric];
      this.points = Page.states.map(() => []);
      this.inLane = LANES.map(() => []);
      this.heights = values;
      let least = Infinity;
      let most = 0;
      for (let row = 0; row < this.model.size; row++) {
        const value = values[row];
        const special = this.model.special("nan", row) || this.model.special("inf", row);
        if (special) this.inLane[0].push(row);
        if (value > 0 && Number.isFinite(value)) {
          this.points[this.model.state[row]].push(row);
          if (value < least) least = value;
          if (value > most) most = value;
        } else if (!special || !Page.isBad(this.model.state[row])) {
          this.inLane[laneOf(this.model, row)].push(row);
        }
      }
      this.most = most;
      const low = most ? Math.floor(Math.log10(least)) : -8;
      const high = most ? Math.ceil(Math.log10(most) + 0.02) : 0;
      this.yRange = [10 ** (low === high ? low - 1 : low), 10 ** high];
      this.marksInLane = this.inLane.map((rows) => DRAWN.map((state) => ({
        state, rows: rows.filter((row) => this.model.state[row] === state) })));
    }

    options(axis) {
      const range = this.range = this.range || [-0.5, Math.max(this.model.size - 0.5, 0.5)];
      return {
        height: this.most ? Math.min(HIGHEST, Math.max(LOWEST, innerHeight * 0.26)) : FLAT,
        padding: [this.borders.length ? 18 : 10, 26, 0, 0],
        scales: {
          x: { time: false, range: (_, from, to) => [from, to] },
          y: { distr: 3, log: 10, range: () => this.yRange },
        },
        x: (x) => {
          const row = Math.round(x);
          return row >= 0 && row < this.model.size && Math.abs(x - row) < 1e-6
            ? Page.count(this.model.shown(row)) : "";
        },
        // Without a single error there is nothing to measure, and no room for the numbers.
        y: { grid: { ...axis.grid, show: this.most > 0 }, values: (v) => this.most ? Page.powerLabel(v) : "" },
        names: ["op index", this.most ? METRICS[this.metric] : ""],
        series: [{}, ...DRAWN.map((state) => ({
          scale: "y", points: { show: false },
          paths: (plot) => { this.draw(plot, state); return null; },
        }))],
        cursor: { drag: { x: true, y: false }, bind: { dblclick: () => () => { this.reset(); return null; } } },
        hooks: {
          ready: [() => this.overview.build(this.node.clientWidth, this.left(), this.right())],
          setScale: [(plot, key) => { if (key === "x") this.moved(plot); }],
          drawAxes: [(plot) => this.drawSteps(plot)],
          draw: [(plot) => this.drawSelection(plot)],
        },
        data: [range, ...DRAWN.map(() => [null, null])],
      };
    }

    build() {
      super.build();
      if (this.plot) this.plot.setScale("x", { min: this.range[0], max: this.range[1] });
    }

    // Points on top of each other are drawn once: 100,000 of them have no more pixels than that.
    draw(plot, state) {
      const rows = this.points[state];
      if (!rows.length) return;
      const { ctx, bbox } = plot;
      const { min, max } = plot.scales.x;
      const ratio = window.devicePixelRatio || 1;
      const radius = (rows.length > 5000 && max - min > 5000 ? 2 : 3.4) * ratio;
      const mark = marks[Page.states[state].key] || marks.dot;
      const seen = new Set();
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left - radius, bbox.top - radius, bbox.width + 2 * radius, bbox.height + 2 * radius);
      ctx.clip();
      ctx.beginPath();
      for (const row of rows) {
        if (row < min || row > max) continue;
        const x = Math.round(plot.valToPos(row, "x", true));
        const y = Math.round(plot.valToPos(this.heights[row], "y", true));
        const key = x * 65536 + y;
        if (seen.has(key)) continue;
        seen.add(key);
        mark(ctx, x, y, state === Page.ORIGIN ? radius * 1.5 : radius);
      }
      ctx.fillStyle = Page.color(Page.states[state].color);
      ctx.fill();
      if (radius > 2 * ratio) {
        ctx.strokeStyle = Page.color("--card");
        ctx.lineWidth = ratio / 2;
        ctx.stroke();
      }
      ctx.restore();
    }

    drawSelection(plot) {
      if (this.selected < 0) return;
      this.drawLine(plot, this.selected, [4, 3]);
      const value = this.heights[this.selected];
      const { ctx, bbox } = plot;
      const x = plot.valToPos(this.selected, "x", true);
      if (!(value > 0 && Number.isFinite(value)) || x < bbox.left || x > bbox.left + bbox.width) return;
      const ratio = window.devicePixelRatio || 1;
      ctx.save();
      ctx.strokeStyle = Page.color("--accent");
      ctx.lineWidth = 2 * ratio;
      ctx.beginPath();
      ctx.arc(x, plot.valToPos(value, "y", true), 8 * ratio, 0, 2 * Math.PI);
      ctx.stroke();
      ctx.restore();
    }

    drawLanes() {
      const width = this.node.clientWidth;
      const context = Page.canvas(this.lanes, width, LANES.length * LANE + 2);
      const { min, max } = this.plot.scales.x;
      const left = this.left();
      const span = this.plot.over.clientWidth;
      const wide = Math.max(1.5, Math.min(span / (max - min) * 0.8, 10));
      context.font = "11px system-ui, sans-serif";
      context.textBaseline = "middle";
      LANES.forEach((lane, i) => {
        const top = i * LANE + 2;
        context.fillStyle = Page.color("--sunken");
        context.fillRect(left, top, span, LANE - 4);
        context.fillStyle = Page.color("--muted-ink");
        context.textAlign = "right";
        context.fillText(lane.name, left - 8, top + (LANE - 4) / 2);
        for (const { state, rows } of this.marksInLane[i]) {
          context.fillStyle = Page.color(lane.color || Page.states[state].color);
          let last = -1;
          for (const row of rows) {
            if (row < min - 1 || row > max + 1) continue;
            const x = left + (row - min) / (max - min) * span;
            if (x - last < 0.7 || x < left - wide || x > left + span) continue;
            last = x;
            const from = Math.max(left, x - wide / 2);
            context.fillRect(from, top, Math.min(x + wide / 2, left + span) - from, LANE - 4);
          }
        }
      });
    }

    moved(plot) {
      const { min, max } = plot.scales.x;
      if (min === null || min === undefined) return;
      this.range = [min, max];
      requestAnimationFrame(() => {
        if (plot !== this.plot) return;
        this.drawLanes();
        this.overview.setRange(min, max);
        this.onRange(min, max);
      });
    }

    show(from, to) {
      const all = [-0.5, Math.max(this.model.size - 0.5, 0.5)];
      const wide = Math.max(2, Math.min(to - from, all[1] - all[0]));
      const min = Math.max(all[0], Math.min(from, all[1] - wide));
      this.plot.setScale("x", { min, max: min + wide });
    }

    reset() { this.show(-0.5, this.model.size - 0.5); }

    zoom(factor, center) {
      const [min, max] = this.range;
      const middle = center === undefined ? (min + max) / 2 : center;
      this.show(middle - (middle - min) * factor, middle + (max - middle) * factor);
    }

    select(row) {
      this.selected = row;
      if (!this.plot) return;
      const [min, max] = this.range;
      if (row >= 0 && (row < min || row > max)) {
        this.show(row - (max - min) / 2, row + (max - min) / 2);
      } else {
        this.plot.redraw(false);
      }
      this.overview.select(row);
    }

    // The row nearest to a place, in CSS pixels of the whole picture; NONE where none is near.
    near(x, y) {
      const { min, max } = this.plot.scales.x;
      const width = this.plot.over.clientWidth;
      const at = min + (x - this.left()) / width * (max - min);
      const reach = REACH / width * (max - min);
      const top = this.plot.over.offsetTop;
      const lane = Math.floor((y - this.lanes.offsetTop) / LANE);
      let best = Page.NONE;
      let least = REACH * REACH;
      const consider = (row, dy) => {
        const dx = (row - at) / (max - min) * width;
        if (dx * dx + dy * dy < least) { least = dx * dx + dy * dy; best = row; }
      };
      if (y >= this.lanes.offsetTop) {
        for (const row of this.inLane[lane] || []) if (Math.abs(row - at) <= reach) consider(row, 0);
        return best;
      }
      for (let row = Math.max(0, Math.floor(at - reach)); row <= at + reach && row < this.model.size; row++) {
        const value = this.heights[row];
        if (value > 0 && Number.isFinite(value)) consider(row, top + this.plot.valToPos(value, "y") - y);
      }
      return best;
    }

    listen() {
      let down = null;
      this.node.addEventListener("mousedown", (event) => { down = this.where(event); }, true);
      this.node.addEventListener("click", (event) => {
        const [x, y] = this.where(event);
        if (!this.plot || (down && Math.abs(down[0] - x) > 4)) return;
        const row = this.near(x, y);
        if (row >= 0) this.onPick(row);
      });
      this.node.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
        event.preventDefault();
        const [min, max] = this.range;
        const [x] = this.where(event);
        const at = min + (x - this.left()) / this.plot.over.clientWidth * (max - min);
        this.zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, at);
      }, { passive: false });
      this.node.addEventListener("keydown", (event) => {
        const [min, max] = this.range || [0, 1];
        const step = (max - min) / 10;
        const acts = {
          "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
          "0": () => this.reset(), ArrowLeft: () => this.show(min - step, max - step),
          ArrowRight: () => this.show(min + step, max + step),
        };
        if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        acts[event.key]();
      });
    }

    says(x, y) {
      const { model } = this;
      const row = this.near(x, y);
      this.node.classList.toggle("aims", row >= 0);
      if (row < 0) return null;
      const value = model.measured[this.metric][row];
      return [`op ${model.label(row)} ${model.operator(row)}`, model.module(row),
        [Page.stateBadge(model.state[row]),
          Number.isNaN(value) ? "" : ` ${METRICS[this.metric]} ${Page.error(value)}`]];
    }
  };
}
