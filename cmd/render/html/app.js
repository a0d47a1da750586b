// SPDX-License-Identifier: Apache-2.0
// Puts the parts of a page together and keeps them in step: one operator is selected, one search
// holds, one address names both.
"use strict";

{
  const SHORT = { abs: "abs", rel: "rel", l2: "L2", ulp: "ULP" };

  class View {
    // parts: of the report as it stood before any script
    constructor(model, parts) {
      this.model = model;
      this.selected = Page.NONE;
      this.module = null;
      this.states = new Set();
      this.bad = [];
      for (let row = 0; row < model.size; row++) if (Page.isBad(model.state[row])) this.bad.push(row);
      const pick = (row) => this.select(row);
      this.timeline = new Page.Timeline(model, { onPick: pick, onRange: (from, to) => this.ranged(from, to) });
      this.table = new Page.Table(model, pick);
      this.tree = new Page.Tree(model, (module) => { this.module = module; this.search(); });
      this.detail = new Page.Detail(model, pick);
      this.steps = Page.steps(model.report);
      // The picture stands above all tables, those of the report itself included.
      this.node = Page.el("div", { class: "view" }, this.legend(), this.timelineCard(),
        this.steps ? this.steps.node : "",
        Page.el("div", { class: "workbench" }, this.tableCard(), this.treeCard(), this.detail.node),
        ...parts, Page.el("div", { class: "pair" }, Page.specials(model, pick), Page.ledger(model, pick)));
      this.search();
    }

    // Counts by state, which are filters as well.
    legend() {
      const counts = new Uint32Array(Page.states.length);
      for (const state of this.model.state) counts[state]++;
      const bar = Page.el("div", { class: "coverage", "aria-hidden": "true" });
      const buttons = [];
      const order = [...Page.states.keys()].sort((a, b) => Page.states[b].rank - Page.states[a].rank);
      for (const state of order) {
        if (!counts[state]) continue;
        const { word, key, mark } = Page.states[state];
        const part = Page.el("span", { class: `part ${key}` });
        part.style.flexGrow = String(counts[state]);
        bar.append(part);
        const button = Page.el("button", { type: "button", class: `filter ${key}`, "aria-pressed": "false" },
          Page.mark(mark),
          Page.el("strong", {}, Page.count(counts[state])), ` ${word}`);
        button.addEventListener("click", () => {
          if (!this.states.delete(state)) this.states.add(state);
          button.setAttribute("aria-pressed", String(this.states.has(state)));
          this.search();
        });
        buttons.push(button);
      }
      return Page.el("section", { class: "legend", "aria-label": "Operators by state" }, bar,
        Page.el("div", { class: "filters" }, buttons));
    }

    timelineCard() {
      const act = (label, word, does) => Page.el("button", { type: "button", "aria-label": word, title: word,
        onclick: does }, label);
      return Page.el("section", { class: "card timeline-card" },
        Page.el("div", { class: "cardhead" }, Page.el("h2", {}, "Timeline"),
          Page.choice("Metric", SHORT[this.timeline.metric], Object.fromEntries(
            Object.entries(Page.METRICS).map(([name, word]) => [SHORT[name], [word, () => this.timeline.setMetric(name)]]))),
          Page.el("span", { class: "group", role: "group", "aria-label": "Zoom" },
            act("+", "Zoom in", () => this.timeline.zoom(0.5)),
            act("\u2212", "Zoom out", () => this.timeline.zoom(2)),
            act("all", "Whole trace", () => this.timeline.reset()))),
        this.timeline.node, this.timeline.overview.node);
    }

    treeCard() {
      return Page.el("nav", { class: "card modules", "aria-label": "Modules" },
        Page.el("h2", {}, "Modules"), this.tree.node);
    }

    tableCard() {
      this.box = Page.el("input", {
        type: "search", placeholder: "addmm, is:origin, abs:>1e-5", spellcheck: "false",
        autocomplete: "off", "aria-label": "Search operators", id: "search",
      });
      this.shown = Page.el("span", { class: "shown", role: "status" });
      this.inView = Page.el("input", { type: "checkbox", onchange: () => this.search() });
      let waiting = 0;
      this.box.addEventListener("input", () => {
        clearTimeout(waiting);
        waiting = setTimeout(() => { this.search(); this.address(); }, 60);
      });
      return Page.el("section", { class: "card operators" },
        Page.el("div", { class: "cardhead" }, Page.el("h2", {}, "Operators"), this.box, this.shown,
          Page.el("label", { class: "inview" }, this.inView, " in the timeline's window")),
        this.table.node);
    }

    // Rows by the search box, the states pressed, the module picked and the window of the timeline.
    search() {
      let holds;
      try {
        holds = Page.query(this.box.value, this.model);
        this.box.setCustomValidity("");
        this.box.removeAttribute("aria-invalid");
      } catch (error) {
        this.box.setCustomValidity(error.message);
        this.box.setAttribute("aria-invalid", "true");
        this.shown.textContent = error.message;
        return;
      }
      const { model, states, module, timeline } = this;
      const inModule = module && module.path
        ? model.trail.places.module.map((path) => path === module.path || path.startsWith(`${module.path}.`))
        : null;
      const window = this.inView.checked && timeline.range;
      // Nobody looks for what was not compared, unless it is asked for.
      const hides = !states.size && !this.box.value.includes("is:skipped");
      let hidden = 0;
      const found = [];
      for (let row = 0; row < model.size; row++) {
        if (states.size && !states.has(model.state[row])) continue;
        if (inModule && !inModule[model.place[row]]) continue;
        if (window && (row < window[0] || row > window[1])) continue;
        if (!holds(row)) continue;
        if (hides && model.state[row] === Page.SKIPPED) hidden++;
        else found.push(row);
      }
      this.shown.textContent = `${Page.count(found.length)} of ${Page.count(model.total)}` +
        (hidden ? `, ${Page.count(hidden)} skipped hidden` : "");
      this.table.showRows(Uint32Array.from(found));
    }

    ranged() {
      if (!this.inView.checked) return;
      clearTimeout(this.ranging);
      this.ranging = setTimeout(() => this.search(), 80);
    }

    select(row, quietly) {
      if (row === undefined || row < 0) return;
      this.selected = row;
      this.table.select(row, true);
      this.timeline.select(row);
      this.detail.show(row);
      const state = Page.states[this.model.state[row]];
      document.getElementById("live").textContent =
        Page.visible(`op ${this.model.label(row)} ${this.model.operator(row)}, ${state.word}`);
      if (!quietly) this.address();
    }

    // The next one of `rows` (in order) in a direction from the one selected.
    step(rows, direction) {
      const from = this.selected;
      const found = direction > 0 ? rows.find((row) => row > from)
        : rows.findLast((row) => row < from);
      if (found !== undefined) this.select(found);
    }

    address() {
      const text = this.selected >= 0 ? `#op-${this.model.label(this.selected)}`
        : this.box.value ? `#q=${encodeURIComponent(this.box.value)}` : location.pathname;
      Page.address(text);
    }

    // #op-41, #op-41/out0, #module=encoder.0, #q=is:origin
    follow(hash) {
      const text = decodeURIComponent(hash.slice(1));
      const op = /^op-(c?\d+)(?:\/out(.+))?$/.exec(text);
      if (op) {
        const row = this.model.find(op[1]);
        this.select(row, true);
        return row >= 0;
      }
      if (text.startsWith("module=")) {
        this.module = this.tree.find(text.slice(7));
        this.tree.reveal(text.slice(7));
        this.search();
        return true;
      }
      if (text.startsWith("q=")) {
        this.box.value = text.slice(2);
        this.search();
        return true;
      }
      return false;
    }
  }

  // Single keys, for those who want them: they can be switched off.
  const HELP = [
    ["/", "search"], ["n  p", "next, previous operator that is not fine"], ["o", "next origin"],
    ["j  k", "next, previous row of the table"], ["Enter", "read the details"], ["Esc", "back to the table"],
    ["r", "whole timeline"], ["?", "this help"],
  ];
  const SEARCHES = [
    ["addmm", "in operator, module or source"], ["/linear[12]/", "regular expression"],
    ["is:origin", "origin, propagated, mismatch, missing, bad, equal ..."],
    ["op:softmax module:encoder", "one field; both must hold"], ["abs:>1e-5 ulp:>4", "numbers"],
    ["nan:>0", "operators with NaN; inf: likewise"], ["-is:equal", "all but those"],
    ["index:100..200", "a part of the trace"],
  ];

  let on = Page.remembered("keys") !== "off";

  const list = (pairs) => Page.el("dl", { class: "keys" }, pairs.map(([key, what]) =>
    Page.el("div", {}, Page.el("dt", {}, Page.el("kbd", {}, key)), Page.el("dd", {}, what))));

  const helpDialog = () => {
    const box = Page.el("input", { type: "checkbox", onchange: () => {
      on = box.checked;
      Page.remember("keys", on ? "on" : "off");
    } });
    box.checked = on;
    const close = Page.el("button", { type: "button", onclick: () => dialog.close() }, "close");
    const dialog = Page.el("dialog", { "aria-label": "Help" }, Page.el("h2", {}, "Keys"), list(HELP),
      Page.el("label", {}, box, " single keys are on"), Page.el("h2", {}, "Search"), list(SEARCHES),
      Page.el("h2", {}, "Timeline"),
      Page.el("p", {}, "Drag to zoom, double click for all, Shift and wheel to zoom at the pointer, " +
        "drag in the strip below to move the window. With the keyboard: + \u2212 0 and the arrows."), close);
    return dialog;
  };

  // acts: by key; not while somebody types.
  const listenToKeys = (acts) => {
    document.addEventListener("keydown", (event) => {
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
      if (event.key === "Escape" && acts.Escape) acts.Escape(event);
      if (typing || !on || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Enter" && /^(BUTTON|A|LI|SUMMARY)$/.test(event.target.tagName)) return;
      if (event.key === "Escape" || !acts[event.key]) return;
      event.preventDefault();
      acts[event.key](event);
    });
  };

  const start = async () => {
    const reports = await Page.load();
    const app = document.getElementById("app");
    const tools = document.getElementById("tools");
    const views = new Map();
    let view = null;
    document.documentElement.classList.add("live");
    Page.makeCopied();
    const rebuild = () => {
      if (!view) return;
      view.timeline.build();
      if (view.steps) view.steps.build();
    };

    const show = (number) => {
      reports.forEach((_, i) => { document.getElementById(`report-${i}`).hidden = i !== number; });
      const { model } = reports[number];
      app.hidden = !model || !model.size;
      if (app.hidden) { view = null; return; }
      if (!views.has(number)) {
        const article = document.getElementById(`report-${number}`);
        views.set(number, new View(model, article.querySelectorAll(".settings, .warnings, .text")));
      }
      view = views.get(number);
      app.replaceChildren(view.node);
      rebuild();
      view.table.paint(true);
      if (!view.follow(location.hash) && view.bad.length) view.select(view.bad[0], true);
    };

    const help = helpDialog();
    document.body.append(help);
    if (reports.length > 1) {
      tools.append(Page.el("select", { "aria-label": "Report",
        onchange: (event) => show(Number(event.target.value)) }, reports.map(({ report }, i) =>
        Page.el("option", { value: i }, report.runs.map((run) => run.name).join(" \u2192 ")))));
    }
    tools.append(Page.themeButton(rebuild),
      Page.el("button", { type: "button", onclick: () => help.showModal() }, "keys and search (?)"));
    tools.hidden = false;

    show(0);
    window.addEventListener("hashchange", () => { if (view) view.follow(location.hash); });
    Page.whenLookChanges(app, rebuild);
    const on = (act) => () => { if (view) act(view); };
    listenToKeys({
      "/": on((v) => { v.box.focus(); v.box.select(); }),
      n: on((v) => v.step(v.bad, 1)),
      p: on((v) => v.step(v.bad, -1)),
      o: on((v) => v.step(v.bad.filter((row) => v.model.state[row] === Page.ORIGIN), 1)),
      j: on((v) => v.select(v.table.beside(1))),
      k: on((v) => v.select(v.table.beside(-1))),
      r: on((v) => v.timeline.reset()),
      Enter: on((v) => v.detail.node.focus()),
      Escape: on((v) => { if (!help.open) v.table.node.focus(); }),
      "?": () => help.showModal(),
    });
    document.documentElement.dataset.ready = "yes";

    const details = await Page.loadDetails();
    reports.forEach(({ model }, i) => {
      if (!model) return;
      model.describe(details[i].items);
      model.maps = details[i].maps;
    });
    if (view && view.selected >= 0) view.detail.show(view.selected);
    document.documentElement.dataset.ready = "all";
  };

  Page.start(start, "The interactive part", "What stands here is complete without it.");
}
