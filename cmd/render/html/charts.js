// SPDX-License-Identifier: Apache-2.0
// Small pictures of one tensor: histograms, and where its elements differ.
"use strict";

{
  const WIDTH = 360;
  const HEIGHT = 110;
  const FOOT = 16;

  // Bars by logarithm: one pair in a million must still be seen.
  const bars = (entries, label) => {
    const most = Math.max(...entries.map(([, count]) => Math.log1p(count)), 1e-9);
    const step = WIDTH / entries.length;
    const svg = Page.el("svg", {
      class: "bars", viewBox: `0 0 ${WIDTH} ${HEIGHT + FOOT}`, role: "img",
      "aria-label": [label].concat(entries.filter(([, count]) => count)
        .map(([name, count]) => `${name}: ${count}`)).join(", "),
    });
    const every = Math.ceil(entries.length / 7);
    entries.forEach(([name, count], i) => {
      const height = count ? Math.max(2, HEIGHT * 0.92 * Math.log1p(count) / most) : 0;
      const bar = Page.el("rect", {
        x: i * step + step * 0.08, y: HEIGHT - height, width: step * 0.84, height, rx: 1.5,
        class: name === "0" || name === "none" ? "bar same" : "bar",
      });
      const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
      title.textContent = `${name}: ${Page.plural(count, "element")}`;
      bar.append(title);
      svg.append(bar);
      if (i % every === 0 || entries.length <= 12) {
        svg.append(Page.el("text", {
          x: (i + 0.5) * step, y: HEIGHT + 12, "text-anchor": "middle",
        }, entries.length <= 12 ? name.replace("incomparable", "NaN").replace(/^(\d+)-.*/, "$1+")
          : name));
      }
    });
    return Page.el("figure", {}, svg, Page.el("figcaption", {}, label));
  };

  Page.ulpHistogram = (histogram) => bars(
    Object.entries(histogram).map(([name, count]) => [name, Page.numeric(count)]),
    "elements by ULP distance (height: logarithm)");

  Page.relHistogram = (histogram) => {
    const found = Object.keys(histogram.exponents).map(Number);
    if (!found.length) return null;
    const entries = [["none", Page.numeric(histogram.zero)]];
    for (let e = Math.min(...found); e <= Math.max(...found); e++) {
      entries.push([`2^${e}`, Page.numeric(histogram.exponents[e] || 0)]);
    }
    if (Page.numeric(histogram.infinite)) entries.push(["inf", Page.numeric(histogram.infinite)]);
    return bars(entries, "elements by relative error (height: logarithm)");
  };

  // From nothing to all of a block: pale to strong, on a logarithm.
  Page.heatMap = (map) => {
    const counts = map.differing.map(Page.numeric);
    const side = Math.min(WIDTH, 64 * 5);
    const width = map.column_blocks === 1 ? 24 : Math.max(24, Math.round(
      side * Math.min(1, map.column_blocks / Math.max(map.row_blocks, 8))));
    const height = Math.max(16, Math.round(width === side
      ? side * Math.min(1, Math.max(map.row_blocks, 3) / map.column_blocks) : side));
    const node = Page.el("canvas", {
      class: "heat", role: "img",
      "aria-label": `Where elements differ: ${counts.filter((c) => c > 0).length} of ` +
        `${counts.length} blocks hold differing elements`,
    });
    const context = Page.canvas(node, width, height);
    const most = Math.log1p(Math.max(...counts, 1));
    context.fillStyle = Page.color("--sunken");
    context.fillRect(0, 0, width, height);
    const x = width / map.column_blocks;
    const y = height / map.row_blocks;
    context.fillStyle = Page.color("--origin");
    counts.forEach((count, i) => {
      if (!count) return;
      context.globalAlpha = 0.25 + 0.75 * Math.log1p(count) / most;
      context.fillRect(i % map.column_blocks * x, Math.floor(i / map.column_blocks) * y,
        Math.max(x, 1), Math.max(y, 1));
    });
    const note = Page.el("figcaption", {},
      `where elements differ: ${Page.count(map.rows)} \u00d7 ${Page.count(map.columns)}` +
      (map.leading > 1 ? `, ${Page.count(map.leading)} on top of each other` : ""));
    node.addEventListener("mousemove", (event) => {
      const column = Math.min(map.column_blocks - 1, Math.floor(event.offsetX / x));
      const row = Math.min(map.row_blocks - 1, Math.floor(event.offsetY / y));
      const from = (block, blocks, all) => Math.ceil(block * all / blocks);
      const count = counts[row * map.column_blocks + column] || 0;
      node.title = `rows ${from(row, map.row_blocks, map.rows)} to ` +
        `${from(row + 1, map.row_blocks, map.rows) - 1}, columns ` +
        `${from(column, map.column_blocks, map.columns)} to ` +
        `${from(column + 1, map.column_blocks, map.columns) - 1}: ${Page.count(count)} differ`;
    });
    return Page.el("figure", {}, node, note);
  };
}
