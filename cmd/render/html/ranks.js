// SPDX-License-Identifier: Apache-2.0
// Ranks by steps on a canvas, each cell in the colour of the kind that parts first, drawn from runs of
// steps. A click tells rank, step, kind and operator.
"use strict";

{
  const COLORS = ["--origin", "--missing", "--muted-ink", "--trouble", "--accent", "--mismatch", "--special", "--good",
    "--propagated", "--within"];
  const TALL = 1024;
  const LEFT = 64;
  const FOOT = 38;
  const REACH = 4; // pixels around a click in which a cell is meant
  const NAMES = 20;

  // The runs of all ranks in columns, those of one row between starts[row] and starts[row + 1].
  const columnsOf = (ranks) => {
    const count = ranks.reduce((sum, { runs }) => sum + runs.length / 5, 0);
    const columns = { starts: [0] };
    for (const name of ["row", "first", "steps", "kind"]) columns[name] = new Int32Array(count);
    for (const name of ["op", "stride"]) columns[name] = new Float64Array(count);
    let at = 0;
    ranks.forEach(({ runs }, row) => {
      let end = 0;
      for (let i = 0; i < runs.length; i += 5, at++) {
        columns.row[at] = row;
        columns.first[at] = end + runs[i];
        columns.steps[at] = runs[i + 1];
        columns.kind[at] = runs[i + 2];
        columns.op[at] = runs[i + 3];
        columns.stride[at] = runs[i + 4];
        end = columns.first[at] + runs[i + 1];
      }
      columns.starts.push(at);
    });
    return columns;
  };

  class RankMap {
    constructor(data, node, detail) {
      Object.assign(this, data, { detail, runs: columnsOf(data.ranks), from: 0, to: Math.max(data.steps, 1) });
      this.rows = new Map(data.ranks.map(({ rank }, row) => [rank, row]));
      // What is drawn last is seen where cells are closer than pixels: what comes first in a step.
      this.order = Uint32Array.from(this.runs.kind.keys()).sort((a, b) => this.runs.kind[b] - this.runs.kind[a]);
      this.canvas = Page.el("canvas", { class: "rank-map", role: "img", tabindex: "0", "aria-label":
        `${Page.plural(this.ranks.length, "rank")} by ${Page.plural(this.steps, "step")}. The table below names the ranks that part.` });
      this.tip = Page.el("div", { class: "tip", hidden: true });
      this.picked = null;
      this.whole = Page.el("button", { type: "button", hidden: true, onclick: () => this.show(0, Math.max(this.steps, 1)) }, "all steps");
      this.node = Page.el("div", { class: "timeline" }, this.canvas, this.tip);
      node.replaceChildren(this.legend(), this.node);
      this.canvas.addEventListener("pointerdown", (event) => { this.grip = this.place(event).x; });
      this.canvas.addEventListener("pointerup", (event) => this.release(event));
      this.canvas.addEventListener("pointermove", (event) => this.hover(event));
      this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    }

    legend() {
      const seen = new Set(this.runs.kind);
      const kinds = this.kinds.map(({ name }, kind) => seen.has(kind)
        ? Page.el("span", {}, Page.mark("\u25a0", "", COLORS[kind]), `${name}. `) : null);
      return Page.el("p", { class: "hint" }, seen.size ? "What parts first in a step: " : "No rank parts. ", kinds,
        this.ranks.some(({ steps }) => steps < this.steps)
          ? Page.el("span", {}, Page.mark("\u2500", "", "--muted"), "no such step, or rank. ") : null,
        "Drag over steps to look closer. ", this.whole);
    }

    show(from, to) {
      [this.from, this.to] = [from, to];
      this.whole.hidden = from === 0 && to >= this.steps;
      this.draw();
    }

    draw() {
      const width = this.node.clientWidth;
      if (!width) return;
      const rows = this.ranks.length;
      this.high = Math.min(Math.max(Math.floor(480 / rows), 1), 22);
      if (rows * this.high > TALL) this.high = TALL / rows;
      this.wide = (width - LEFT) / (this.to - this.from);
      const height = rows * this.high;
      const context = Page.canvas(this.canvas, width, height + FOOT);
      context.fillStyle = Page.color("--sunken");
      context.fillRect(LEFT, 0, width - LEFT, height);
      // A line where a rank has no steps.
      context.fillStyle = Page.color("--muted");
      this.ranks.forEach(({ steps }, row) => {
        const end = Math.max(LEFT, this.x(steps));
        if (steps < this.to) context.fillRect(end, (row + 0.5) * this.high - 0.5, width - end, 1);
      });
      this.drawRuns(context, width);
      this.drawAxes(context, width, height);
      this.drawn = Page.el("canvas", { width: this.canvas.width, height: this.canvas.height });
      this.drawn.getContext("2d").drawImage(this.canvas, 0, 0);
      this.mark(context);
    }

    // The picked cell over the map, which is not drawn again for it.
    mark(context) {
      if (!this.drawn || !this.picked) return;
      const { width, height } = this.canvas;
      context.save();
      context.resetTransform();
      context.clearRect(0, 0, width, height);
      context.drawImage(this.drawn, 0, 0);
      context.restore();
      context.strokeStyle = Page.color("--ink");
      context.lineWidth = 2;
      const side = Math.max(this.wide, 7);
      const tall = Math.max(this.high, 7);
      context.strokeRect(this.x(this.picked.step + 0.5) - side / 2, (this.picked.row + 0.5) * this.high - tall / 2, side, tall);
    }

    drawRuns(context, width) {
      const { row, first, steps, kind } = this.runs;
      const colors = COLORS.map(Page.color);
      const thin = Math.max(this.high, 1);
      let last = -1;
      let lastRow = -1;
      for (const at of this.order) {
        const begin = Math.max(LEFT, this.x(first[at]));
        const end = Math.min(width, this.x(first[at] + steps[at]));
        if (end <= LEFT || begin >= width) continue;
        const pixel = Math.floor(begin);
        // A run within a pixel that has just been drawn.
        if (end - begin < 1 && pixel === last && lastRow === row[at]) continue;
        [last, lastRow] = [pixel, row[at]];
        context.fillStyle = colors[kind[at]];
        context.fillRect(begin, row[at] * this.high, Math.max(end - begin, 1), thin);
      }
    }

    drawAxes(context, width, height) {
      context.fillStyle = Page.color("--muted-ink");
      context.font = "12px system-ui, sans-serif";
      context.textBaseline = "middle";
      context.textAlign = "right";
      const every = 2 ** Math.ceil(Math.log2(Math.max(1, 18 / this.high)));
      for (let row = 0; row < this.ranks.length; row += every) {
        context.fillText(String(this.ranks[row].rank), LEFT - 8, Math.max(7, (row + 0.5) * this.high));
      }
      context.textAlign = "center";
      const least = 56 / this.wide; // steps between two numbers
      const stride = [1, 2, 5, 10].map((n) => n * 10 ** Math.max(0, Math.floor(Math.log10(least)))).find((n) => n >= least);
      for (let step = Math.ceil(this.from / stride) * stride; step < this.to; step += stride) {
        context.fillText(String(step), this.x(step + 0.5), height + 10);
      }
      context.fillText("step", (LEFT + width) / 2, height + 29);
      context.rotate(-Math.PI / 2);
      context.fillText("rank", -height / 2, 10);
      context.rotate(Math.PI / 2);
    }

    x(step) { return LEFT + (step - this.from) * this.wide; }

    place(event) {
      const box = this.canvas.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      return { x, y, row: Math.floor(y / this.high), step: Math.floor(this.from + (x - LEFT) / this.wide) };
    }

    // The run of a row that is nearest to a step: {at, step}; null where none is in reach.
    nearest(row, step, reach) {
      const { starts, first, steps } = this.runs;
      let [low, high] = [starts[row], starts[row + 1]];
      const end = high;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (first[middle] + steps[middle] <= step) low = middle + 1; else high = middle;
      }
      let best = null;
      for (const at of [low - 1, low]) {
        if (at < starts[row] || at >= end) continue;
        const near = Math.min(Math.max(step, first[at]), first[at] + steps[at] - 1);
        if (Math.abs(near - step) <= reach && (!best || Math.abs(near - step) < Math.abs(best.step - step))) best = { at, step: near };
      }
      return best;
    }

    // The cell that is meant by a place: what parts around it, else the place itself.
    meant({ row, step }) {
      const rows = Math.ceil(REACH / this.high) - 1;
      for (let off = 0; off <= rows; off++) {
        for (const near of off ? [row - off, row + off] : [row]) {
          if (near < 0 || near >= this.ranks.length) continue;
          const found = this.nearest(near, step, Math.max(0, REACH / this.wide - 1));
          if (found) return { row: near, ...found };
        }
      }
      return row >= 0 && row < this.ranks.length && step >= 0 && step < this.steps ? { row, step, at: -1 } : null;
    }

    release(event) {
      const place = this.place(event);
      const grip = this.grip;
      this.grip = null;
      if (grip !== null && grip !== undefined && Math.abs(grip - place.x) > 5) {
        const [from, to] = [grip, place.x].sort((a, b) => a - b).map((x) => this.from + (x - LEFT) / this.wide);
        return this.show(Math.max(0, Math.floor(from)), Math.min(Math.max(this.steps, 1), Math.ceil(to)));
      }
      const cell = this.meant(place);
      if (cell) this.pick(cell);
    }

    hover(event) {
      const place = this.place(event);
      const cell = place.x < LEFT ? null : this.meant(place);
      this.tip.hidden = !cell;
      if (!cell) return;
      this.tip.replaceChildren(Page.el("strong", {}, `rank ${this.ranks[cell.row].rank}, step ${cell.step}`),
        Page.el("span", {}, this.word(cell)));
      Page.placeTip(this.tip, place.x, place.y);
    }

    word({ row, step, at }) {
      if (at >= 0) return this.kinds[this.runs.kind[at]].name;
      const { steps, state } = this.ranks[row];
      return step < steps ? "as most ranks" : state || "no such step";
    }

    pick(cell) {
      this.picked = cell;
      const { rank, dump, whole } = this.ranks[cell.row];
      const lines = [Page.el("h3", {}, `Rank ${rank}, step ${cell.step}: `, this.word(cell))];
      if (cell.at >= 0) lines.push(...this.operator(cell, dump, whole));
      this.detail.replaceChildren(...lines);
      Page.address(`#rank-${rank}/step-${cell.step}`);
      this.mark(this.canvas.getContext("2d"));
    }

    operator({ row, step, at }, dump, whole) {
      const { first, op, stride, kind } = this.runs;
      const isRest = !whole && at === this.runs.starts[row + 1] - 1 && step > first[at];
      if (isRest) return [Page.el("p", {}, "This rank parts too often for the page: from here on it is not told by step.")];
      const index = op[at] + stride[at] * (step - first[at]);
      const { name, operator } = this.kinds[kind[at]];
      const told = this.firsts[kind[at]].first;
      const names = told && told.step === step ? told.names : [];
      const command = `repro-check inspect ${Page.shellWord(dump)} --op ${index}`;
      const fact = (word, value) => Page.el("div", {}, Page.el("dt", {}, word), Page.el("dd", {}, value));
      return [Page.el("dl", { class: "facts small" }, fact("operator", `op ${index} ${operator}`), fact("kind", name),
        fact("step", String(step)), fact("rank", String(this.ranks[row].rank)),
        fact("names", names.length ? names.slice(0, NAMES).join(", ") +
          (names.length > NAMES ? ` and ${names.length - NAMES} more` : "") : "those that the command lists")),
      Page.el("p", {}, Page.el("code", { class: "command" }, command), Page.copyButton(command))];
    }

    // #rank-5/step-2
    follow() {
      const found = /^#rank-(\d+)\/step-(\d+)$/.exec(location.hash);
      const row = found ? this.rows.get(Number(found[1])) : undefined;
      if (row === undefined) return;
      const step = Number(found[2]);
      this.pick({ row, ...(this.nearest(row, step, 0) || { step, at: -1 }) });
    }
  }

  const start = async () => {
    const map = new RankMap(await Page.read("data"), document.getElementById("map"), document.getElementById("detail"));
    document.documentElement.classList.add("live");
    Page.makeCopied();
    const tools = document.getElementById("tools");
    tools.append(Page.themeButton(() => map.draw()));
    tools.hidden = false;
    map.draw();
    map.follow();
    window.addEventListener("hashchange", () => map.follow());
    Page.whenLookChanges(document.querySelector("main"), () => map.draw());
    document.documentElement.dataset.ready = "all";
  };

  Page.start(start, "The map", "The text and the table are complete without it.");
}
