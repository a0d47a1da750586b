// SPDX-License-Identifier: Apache-2.0
// Reads the data of the page.
"use strict";

{
  const NONE = Page.NONE = -1;

  const unpack = async (text) => {
    if (typeof DecompressionStream === "undefined") {
      throw new Error("this browser cannot unpack the data of the report; a newer one can");
    }
    const raw = atob(text);
    const bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  };

  // "inf", "nan" and integers that a double cannot hold come as text; null is not known.
  const numeric = Page.numeric = (value) => {
    if (value === null || value === undefined) return NaN;
    if (typeof value === "number") return value;
    if (value === "inf") return Infinity;
    return value === "-inf" ? -Infinity : Number(value);
  };

  // One line of a table that is held in columns.
  const itemOf = Page.itemOf = (columns, at) =>
    Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, column[at]]));

  // Places in other tables, or op indices.
  const numbers = (column) => Int32Array.from(column, (value) => value === null ? NONE : value);

  // Places by number: where[i] is the row with that op index.
  const inverse = (indices) => {
    let most = -1;
    for (const index of indices) if (index > most) most = index;
    const where = new Int32Array(most + 1).fill(NONE);
    indices.forEach((index, row) => { if (index !== NONE) where[index] = row; });
    return where;
  };

  // A trail as the report holds it (comparators::OpTrail), and ways through it by row.
  class Model {
    constructor(trail, report) {
      this.report = report;
      this.trail = trail;
      this.total = trail.rows_total;
      this.size = trail.rows.state.length;
      for (const [name, column] of Object.entries(trail.rows)) this[name] = numbers(column);
      this.rowOfBaseline = inverse(this.baseline);
      this.rowOfCandidate = inverse(this.candidate);
      const spread = (name, empty) => Float64Array.from(trail.rows.errors,
        (at) => at === null ? empty : numeric(trail.errors[name][at]));
      this.measured = { abs: spread("abs"), rel: spread("rel"), l2: spread("l2"), ulp: spread("ulp") };
      this.differing = spread("differing", 0);
      this.elements = spread("elements", 0);
      this.described = new Map();
      if (report.first_divergence) this.describe([report.first_divergence]);
    }

    // What the report says in full of some operators.
    describe(items) {
      for (const item of items) {
        const row = this.rowOf(item.op_index.baseline, item.op_index.candidate);
        if (row >= 0) this.described.set(row, item);
      }
    }

    rowOf(baseline, candidate) {
      const row = baseline === null ? this.rowOfCandidate[candidate] : this.rowOfBaseline[baseline];
      return row === undefined ? NONE : row;
    }
    shown(row) { return this.baseline[row] !== NONE ? this.baseline[row] : this.candidate[row]; }
    label(row) { return (this.baseline[row] === NONE ? "c" : "") + this.shown(row); }
    operator(row) { return this.trail.operators[this.op[row]] || "(no operator)"; }
    module(row) { return this.trail.places.module[this.place[row]]; }
    typeText(row) { return this.trail.types[this.type[row]]; }
    sourceOf(place, whole) {
      const file = this.trail.places.file[place];
      const line = this.trail.places.line[place];
      const separator = file.startsWith("In [") ? ", line " : ":"; // a cell of a notebook
      return file ? (whole ? file : file.split("/").pop()) + (line ? `${separator}${line}` : "") : "";
    }
    source(row, whole) { return this.sourceOf(this.place[row], whole); }
    // How many elements of a side are NaN or Inf; of both without one.
    special(kind, row, side) {
      const at = this.errors[row];
      if (at === NONE) return 0;
      const of = (one) => numeric(this.trail.errors[`${kind}_${one}`][at]);
      return side ? of(side) : of("baseline") + of("candidate");
    }

    // The row that "41" or "c41" names; the candidate's where the baseline has no such one.
    find(label) {
      const match = /^(c?)(\d+)$/.exec(label);
      if (!match) return NONE;
      const order = match[1] ? [this.rowOfCandidate] : [this.rowOfBaseline, this.rowOfCandidate];
      for (const where of order) if (where[match[2]] >= 0) return where[match[2]];
      return NONE;
    }

    // Rows that made what this one reads.
    producersOf(row) {
      const first = this.first_producer[row];
      const where = this.baseline[row] === NONE ? this.rowOfCandidate : this.rowOfBaseline;
      return this.trail.producers.slice(first, first + this.producers[row])
        .map((index) => where[index]).filter((maker) => maker >= 0);
    }

    // Rows that read what this one made; the table behind it is built when first asked for.
    consumersOf(row) {
      if (!this.consumers) {
        this.consumers = new Map();
        for (let reader = 0; reader < this.size; reader++) {
          for (const maker of this.producersOf(reader)) {
            if (!this.consumers.has(maker)) this.consumers.set(maker, []);
            this.consumers.get(maker).push(reader);
          }
        }
      }
      return this.consumers.get(row) || [];
    }

    mapOf(row, slot) {
      const { op, slot: slots } = this.maps || { op: [] };
      const at = op.findIndex((index, i) => index === this.baseline[row] && slots[i] === slot);
      return at < 0 ? null : itemOf(this.maps, at);
    }
  }

  const read = Page.read = async (id) => {
    const node = document.getElementById(id);
    const packed = node.type !== "application/json";
    return JSON.parse(packed ? await unpack(node.textContent) : node.textContent);
  };

  Page.load = async () => (await read("data")).map(({ report, trail }) =>
    ({ report, model: trail ? new Model(trail, report) : null }));
  // By report the operators that are described in full, and the maps of their outputs: read when
  // the page stands already.
  Page.loadDetails = () => read("details");
}
