// SPDX-License-Identifier: Apache-2.0
// Reads the data of the page, and unfolds the columns of a trail.
"use strict";

{
  const NONE = -1;

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
  const numeric = (value) => {
    if (value === null || value === undefined) return NaN;
    if (typeof value === "number") return value;
    if (value === "inf") return Infinity;
    return value === "-inf" ? -Infinity : Number(value);
  };

  const undoSteps = (steps) => {
    const out = new Int32Array(steps.length);
    let last = -1;
    steps.forEach((step, i) => {
      if (step === null) { out[i] = NONE; return; }
      last += step;
      out[i] = last;
    });
    return out;
  };

  // Places by number: where[i] is the row with that op index.
  const inverse = (indices) => {
    let most = -1;
    for (const index of indices) if (index > most) most = index;
    const where = new Int32Array(most + 1).fill(NONE);
    indices.forEach((index, row) => { if (index !== NONE) where[index] = row; });
    return where;
  };

  class Model {
    constructor(trail, report) {
      this.report = report;
      this.trail = trail;
      const rows = trail.rows;
      this.size = rows.state.length;
      this.total = trail.total;
      this.baseline = undoSteps(rows.baseline);
      this.candidate = undoSteps(rows.candidate);
      this.op = new Uint32Array(rows.op);
      this.place = new Uint32Array(rows.place);
      this.type = new Uint32Array(rows.type);
      this.state = new Uint8Array(rows.state);
      this.phase = new Uint8Array(rows.phase);
      this.rowOfBaseline = inverse(this.baseline);
      this.rowOfCandidate = inverse(this.candidate);
      this.readErrors(trail.errors);
      this.readProducers(rows.producers);
      this.described = new Map();
      if (report.first_divergence) this.describe([report.first_divergence]);
    }

    // Errors by row: NaN where there are none.
    readErrors(columns) {
      const rows = columns.row;
      const spread = (column, empty) => {
        const out = new Float64Array(this.size).fill(empty);
        for (let i = 0; i < rows.length; i++) out[rows[i]] = numeric(column[i]);
        return out;
      };
      this.errors = {};
      for (const name of ["abs", "rel", "l2", "ulp"]) this.errors[name] = spread(columns[name], NaN);
      this.differing = spread(columns.differing, 0);
      this.elements = spread(columns.elements, 0);
      this.specials = {};
      for (const name of ["nan_b", "nan_c", "inf_b", "inf_c"]) {
        const found = new Map();
        columns[name].forEach((count, i) => { if (count) found.set(rows[i], numeric(count)); });
        this.specials[name] = found;
      }
    }

    // First how many, then how far back each is; kept as rows.
    readProducers(flat) {
      this.producerStart = new Uint32Array(this.size + 1);
      const makers = new Int32Array(flat.length);
      let at = 0;
      let used = 0;
      for (let row = 0; row < this.size; row++) {
        this.producerStart[row] = used;
        const where = this.baseline[row] === NONE ? this.rowOfCandidate : this.rowOfBaseline;
        for (let many = flat[at++]; many > 0; many--) {
          const maker = where[this.shown(row) - flat[at++]];
          if (maker !== undefined && maker !== NONE) makers[used++] = maker;
        }
      }
      this.producerStart[this.size] = used;
      this.producers = makers.subarray(0, used);
    }

    // What the report says in full of some operators.
    describe(items) {
      for (const item of items) {
        const { baseline, candidate } = item.op_index;
        const row = baseline === null ? this.rowOfCandidate[candidate] : this.rowOfBaseline[baseline];
        if (row !== undefined && row !== NONE) this.described.set(row, item);
      }
    }

    shown(row) { return this.baseline[row] !== NONE ? this.baseline[row] : this.candidate[row]; }
    label(row) { return (this.baseline[row] === NONE ? "c" : "") + this.shown(row); }
    operator(row) { return this.trail.operators[this.op[row]] || "(no operator)"; }
    module(row) { return this.trail.places.module[this.place[row]]; }
    typeText(row) { return this.trail.types[this.type[row]]; }
    sourceOf(place) {
      const file = this.trail.places.file[place];
      const line = this.trail.places.line[place];
      return file ? file.split("/").pop() + (line ? `:${line}` : "") : "";
    }
    source(row) { return this.sourceOf(this.place[row]); }
    fullSource(row) {
      const { file, line } = this.trail.places;
      const place = this.place[row];
      return file[place] ? file[place] + (line[place] ? `:${line[place]}` : "") : "";
    }
    special(kind, row) {
      return (this.specials[`${kind}_b`].get(row) || 0) + (this.specials[`${kind}_c`].get(row) || 0);
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
      return [...this.producers.subarray(this.producerStart[row], this.producerStart[row + 1])];
    }

    // Rows that read what this one made; the table behind it is built when first asked for.
    consumersOf(row) {
      if (!this.consumerStart) this.turnProducers();
      return [...this.consumers.subarray(this.consumerStart[row], this.consumerStart[row + 1])];
    }

    turnProducers() {
      const start = new Uint32Array(this.size + 2);
      for (const maker of this.producers) start[maker + 2]++;
      for (let row = 0; row < this.size; row++) start[row + 2] += start[row + 1];
      this.consumers = new Int32Array(this.producers.length);
      for (let reader = 0; reader < this.size; reader++) {
        for (let i = this.producerStart[reader]; i < this.producerStart[reader + 1]; i++) {
          this.consumers[start[this.producers[i] + 1]++] = reader;
        }
      }
      this.consumerStart = start;
    }

    mapsOf(row) { return (this.maps || []).filter((map) => map.op === this.baseline[row]); }
  }

  Page.NONE = NONE;
  Page.numeric = numeric;

  const read = async (id) => {
    const node = document.getElementById(id);
    const packed = node.type !== "application/json";
    return JSON.parse(packed ? await unpack(node.textContent) : node.textContent);
  };

  Page.read = read;
  Page.load = async () => (await read("data")).map(({ report, trail }) =>
    ({ report, model: trail ? new Model(trail, report) : null }));
  // By report the operators that are described in full, and the maps of their outputs: read when
  // the page stands already.
  Page.loadDetails = () => read("details");
}
