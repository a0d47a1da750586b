// SPDX-License-Identifier: Apache-2.0
// Every operator in a row; only the rows that can be seen are in the document.
"use strict";

{
  const ROW = 40;
  // Browsers clamp the height of an element; beyond this one the way scrolled is scaled.
  const MOST_PIXELS = 8e6;
  const TAIL = 40;

  // The end of a path tells modules apart.
  const tail = (path) => path.length > TAIL ? `\u2026${path.slice(1 - TAIL)}` : path;

  const measured = (key, word, said) => ({ key, word, number: true, down: true, of: (m, r) => m.measured[key][r],
    text: (m, r) => said(m.measured[key][r]) });

  const COLUMNS = [
    { key: "index", word: "op", of: (m, r) => m.shown(r), text: (m, r) => m.label(r), number: true },
    { key: "state", word: "state", of: (m, r) => Page.states[m.state[r]].rank, down: true },
    { key: "operator", word: "operator", of: (m, r) => m.operator(r) },
    { key: "module", word: "module", of: (m, r) => m.module(r), text: (m, r) => tail(m.module(r)),
      title: (m, r) => m.module(r) },
    measured("abs", "abs", Page.error),
    measured("rel", "rel", Page.error),
    measured("ulp", "ULP", Page.ulp),
    { key: "share", word: "differ", number: true, down: true,
      of: (m, r) => m.elements[r] ? m.differing[r] / m.elements[r] : NaN,
      text: (m, r) => m.elements[r] ? Page.percent(m.differing[r], m.elements[r]) : "" },
    { key: "special", word: "NaN, Inf", number: true, down: true,
      of: (m, r) => (m.special("nan", r) + m.special("inf", r)) || NaN,
      text: (m, r) => [["NaN", m.special("nan", r)], ["Inf", m.special("inf", r)]]
        .filter(([, n]) => n).map(([word]) => word).join(" ") },
    { key: "type", word: "output", of: (m, r) => m.typeText(r) },
    { key: "source", word: "source", of: (m, r) => m.source(r) },
  ];

  class Table {
    constructor(model, onPick) {
      this.model = model;
      this.onPick = onPick;
      this.selected = Page.NONE;
      this.sort = { key: "index", down: false };
      this.rows = Uint32Array.from({ length: model.size }, (_, row) => row);
      this.pool = [];
      this.spacer = Page.el("div", { class: "spacer" });
      this.body = Page.el("div", { class: "rows", role: "rowgroup" }, this.spacer);
      this.head = Page.el("div", { class: "row head", role: "row", "aria-rowindex": "1" },
        COLUMNS.map((column) => this.headCell(column)));
      this.node = Page.el("div", {
        class: "table", role: "grid", tabindex: "0", "aria-label": "Operators",
        onkeydown: (event) => this.key(event),
      }, Page.el("div", { role: "rowgroup", class: "headgroup" }, this.head), this.body);
      this.node.addEventListener("scroll", () => this.paint(), { passive: true });
      new ResizeObserver(() => this.paint()).observe(this.node);
      this.showRows(this.rows);
    }

    headCell(column) {
      return Page.el("div", {
        role: "columnheader", class: `cell ${column.key}${column.number ? " number" : ""}`,
        "data-key": column.key, "aria-sort": "none",
      }, Page.el("button", { type: "button", onclick: () => this.sortBy(column.key) }, column.word));
    }

    // The first click on a number shows the greatest first; what is not known stays last.
    sortBy(key) {
      const column = COLUMNS.find((one) => one.key === key);
      const again = this.sort.key === key;
      this.sort = { key, down: again ? !this.sort.down : Boolean(column.down) };
      this.showRows(Uint32Array.from(this.rows).sort());
      this.node.scrollTop = 0;
    }

    arrange() {
      // Rows come in the order of the trace.
      if (this.sort.key === "index" && !this.sort.down) return;
      const column = COLUMNS.find((one) => one.key === this.sort.key);
      const values = Array.from(this.rows, (row) => column.of(this.model, row));
      const sign = this.sort.down ? -1 : 1;
      const text = typeof values[0] === "string";
      const unknown = (value) => text ? value === "" : Number.isNaN(value);
      const order = Array.from(values.keys());
      order.sort((a, b) => {
        const [x, y] = [values[a], values[b]];
        if (unknown(x) || unknown(y)) return unknown(x) - unknown(y) || this.rows[a] - this.rows[b];
        return (x < y ? -sign : x > y ? sign : 0) || this.rows[a] - this.rows[b];
      });
      this.rows = Uint32Array.from(order, (i) => this.rows[i]);
    }

    showRows(rows) {
      this.rows = rows;
      this.arrange();
      this.node.setAttribute("aria-rowcount", String(rows.length + 1));
      for (const cell of this.head.children) {
        const mine = cell.dataset.key === this.sort.key;
        cell.setAttribute("aria-sort", mine ? (this.sort.down ? "descending" : "ascending") : "none");
      }
      this.spacer.style.height = `${Math.min(rows.length * ROW, MOST_PIXELS)}px`;
      this.place = null;
      this.paint(true);
    }

    seen() { return this.node.clientHeight - this.head.offsetHeight; }

    // What a pixel scrolled stands for, which in a very long table is more than itself.
    scale() {
      const whole = this.rows.length * ROW;
      const shown = Math.min(whole, MOST_PIXELS);
      return shown > this.seen() ? Math.max(1, (whole - this.seen()) / (shown - this.seen())) : 1;
    }

    first() { return this.node.scrollTop * this.scale() / ROW; }

    paint(force) {
      const many = Math.ceil(this.node.clientHeight / ROW) + 2;
      const start = this.first();
      const first = Math.max(0, Math.floor(start));
      while (this.pool.length < many) this.pool.push(this.newRow());
      this.pool.forEach((line, i) => {
        const position = first + i;
        const row = i < many && position < this.rows.length ? this.rows[position] : Page.NONE;
        line.node.hidden = row < 0;
        if (row < 0) { line.row = row; return; }
        line.node.style.transform =
          `translateY(${this.node.scrollTop + (position - start) * ROW}px)`;
        if (force || line.row !== row) this.fillRow(line, row);
        line.node.setAttribute("aria-rowindex", String(position + 2));
        line.node.setAttribute("aria-selected", String(row === this.selected));
      });
    }

    newRow() {
      const cells = COLUMNS.map((column) => Page.el("div", {
        role: "gridcell", class: `cell ${column.key}${column.number ? " number" : ""}`,
      }));
      const line = { cells, row: Page.NONE };
      line.node = Page.el("div", { class: "row", role: "row", onclick: () => this.onPick(line.row) }, cells);
      this.body.append(line.node);
      return line;
    }

    fillRow(line, row) {
      line.row = row;
      line.node.id = `row-${row}`;
      COLUMNS.forEach((column, i) => {
        const cell = line.cells[i];
        if (column.key === "state") {
          cell.replaceChildren(Page.stateBadge(this.model.state[row]));
          return;
        }
        const text = Page.visible((column.text || column.of)(this.model, row));
        cell.textContent = text;
        cell.title = column.number ? ""
          : column.title ? Page.visible(column.title(this.model, row)) : text;
      });
    }

    select(row, keepInView) {
      this.selected = row;
      this.node.setAttribute("aria-activedescendant", `row-${row}`);
      const at = this.rows.indexOf(row);
      if (at >= 0 && keepInView) {
        const seen = Math.floor(this.seen() / ROW);
        const first = this.first();
        if (at < first || at > first + seen - 1) {
          this.node.scrollTop = Math.max(0, (at - seen / 2) * ROW / this.scale());
        }
      }
      this.paint();
    }

    // The row so many places on in the order of the table.
    beside(step) {
      const at = this.rows.indexOf(this.selected);
      const to = at < 0 ? 0 : Math.max(0, Math.min(this.rows.length - 1, at + step));
      return this.rows.length ? this.rows[to] : Page.NONE;
    }

    key(event) {
      const page = Math.floor(this.node.clientHeight / ROW) - 2;
      const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
        Home: -this.rows.length, End: this.rows.length };
      if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const row = this.beside(steps[event.key]);
      if (row >= 0) this.onPick(row);
    }
  }

  Page.Table = Table;
}
