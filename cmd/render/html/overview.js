// SPDX-License-Identifier: Apache-2.0
// The whole trace in one strip, with a brush for the part that the timeline shows.
"use strict";

{
  const HEIGHT = 34;
  const EDGE = 7;

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
      const context = Page.canvas(this.node, this.width, HEIGHT);
      context.fillStyle = Page.color("--sunken");
      context.fillRect(this.left, 0, this.right - this.left, HEIGHT);
      const colors = Page.states.map((state) => Page.color(state.color));
      this.columns.forEach((column, x) => {
        if (column.rank < 0) return;
        const height = column.bad ? HEIGHT * (0.35 + 0.65 * column.bad / column.all) : HEIGHT * 0.18;
        context.fillStyle = colors[column.state];
        context.globalAlpha = column.bad ? 0.9 : 0.5;
        context.fillRect(this.left + x, HEIGHT - height, 1, height);
      });
      context.globalAlpha = 1;
      this.paintBrush(context);
    }

    paintBrush(context) {
      if (this.selected >= 0) {
        context.fillStyle = Page.color("--accent");
        context.fillRect(this.toX(this.selected) - 1, 0, 2, HEIGHT);
      }
      if (!this.range) return;
      const [from, to] = this.range.map((row) => this.toX(row));
      context.fillStyle = Page.color("--veil");
      context.fillRect(this.left, 0, Math.max(0, from - this.left), HEIGHT);
      context.fillRect(to, 0, Math.max(0, this.right - to), HEIGHT);
      context.strokeStyle = Page.color("--accent");
      context.lineWidth = 2;
      context.strokeRect(from + 1, 1, Math.max(2, to - from - 2), HEIGHT - 2);
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

  Page.Overview = Overview;
}
