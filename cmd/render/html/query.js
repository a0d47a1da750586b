// SPDX-License-Identifier: Apache-2.0
// The search box: words, /regular expressions/, field:value and field:>number, all of which hold;
// a minus in front turns one around.
"use strict";

{
  const TERM = /(-?)(?:([a-z]+):)?("[^"]*"|\/(?:[^/\\]|\\.)*\/i?|\S+)/gi;
  const NUMBER = /^(>=|<=|>|<|=)?(-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf)$/i;
  const COMPARE = {
    ">": (a, b) => a > b, "<": (a, b) => a < b, ">=": (a, b) => a >= b, "<=": (a, b) => a <= b,
    "=": (a, b) => a === b,
  };

  const textTest = (value) => {
    const regex = /^\/(.*)\/(i?)$/s.exec(value);
    if (regex) {
      const pattern = new RegExp(regex[1], regex[2]);
      return (text) => pattern.test(text);
    }
    const plain = value.replace(/^"(.*)"$/s, "$1").toLowerCase();
    return (text) => text.toLowerCase().includes(plain);
  };

  // Asks each name of a table once, so that 100,000 rows cost a look-up each.
  const overTable = (names, test) => {
    const answers = Uint8Array.from(names, (name) => test(name) ? 1 : 0);
    return (id) => answers[id] === 1;
  };

  const numberTest = (value, of) => {
    const range = /^(\d+)\.\.(\d+)$/.exec(value);
    if (range) return (row) => of(row) >= Number(range[1]) && of(row) <= Number(range[2]);
    const match = NUMBER.exec(value);
    if (!match) throw new Error(`"${value}" is no number: write >1e-5, <3 or 10..20`);
    const holds = COMPARE[match[1] || "="];
    const bound = match[2].toLowerCase() === "inf" ? Infinity : Number(match[2]);
    return (row) => holds(of(row), bound);
  };

  const stateTest = (value, model) => {
    const word = value.toLowerCase();
    const groups = {
      bad: (s) => Page.isBad(s), diverged: (s) => s >= 2 && s <= 4, missing: (s) => s === 5 || s === 6,
    };
    const known = Page.states.findIndex((state) => state.key === word);
    if (known < 0 && !groups[word]) {
      const words = Page.states.map((state) => state.key).concat(Object.keys(groups)).join(", ");
      throw new Error(`is:${value} is not known: ${words}`);
    }
    return known >= 0 ? (row) => model.state[row] === known
      : (row) => groups[word](model.state[row]);
  };

  // A module and all below it.
  const moduleTest = (value, model) => {
    const inside = value.startsWith("=") ? value.slice(1).replace(/^"(.*)"$/, "$1") : null;
    const test = inside === null ? textTest(value)
      : (path) => path === inside || path.startsWith(`${inside}.`);
    const holds = overTable(model.trail.places.module, test);
    return (row) => holds(model.place[row]);
  };

  // Of the names in a table, and the column that points into it.
  const named = (names, column) => (value, model) => {
    const holds = overTable(names(model), textTest(value));
    return (row) => holds(model[column][row]);
  };
  const sources = (model) => model.trail.places.file.map((_, place) => model.sourceOf(place));
  const measured = (name) => (value, model) => numberTest(value, (row) => model.measured[name][row]);
  const special = (kind) => (value, model) => numberTest(value, (row) => model.special(kind, row));

  const fields = {
    is: stateTest,
    module: moduleTest,
    op: named((model) => model.trail.operators, "op"),
    type: named((model) => model.trail.types, "type"),
    source: named(sources, "place"),
    index: (value, model) => numberTest(value, (row) => model.shown(row)),
    abs: measured("abs"), rel: measured("rel"), l2: measured("l2"), ulp: measured("ulp"),
    nan: special("nan"), inf: special("inf"),
  };

  const places = named((model) => model.trail.places.module
    .map((path, place) => `${path} ${model.sourceOf(place)}`), "place");
  const anywhere = (value, model) => {
    const [inOperator, inPlace] = [fields.op(value, model), places(value, model)];
    return (row) => inOperator(row) || inPlace(row);
  };

  // Throws an Error that says what is wrong with the text.
  Page.query = (text, model) => {
    const tests = [];
    for (const [, minus, field, value] of text.matchAll(TERM)) {
      const make = field && fields[field.toLowerCase()];
      // aten::add holds a colon and is no field.
      const test = make ? make(value, model)
        : anywhere(field ? `${field}:${value}` : value, model);
      tests.push(minus ? (row) => !test(row) : test);
    }
    return (row) => tests.every((test) => test(row));
  };
}
