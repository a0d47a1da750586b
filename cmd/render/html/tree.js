// SPDX-License-Identifier: Apache-2.0
// The modules of the model, each with the state of the worst operator below it.
"use strict";

{
  const MOST_CHILDREN = 200;

  const newNode = (name, path, parent) =>
    ({ name, path, parent, kids: new Map(), total: 0, bad: 0, worst: 0, firstBad: Page.NONE });

  // Every operator counts in its module and in all above it.
  const rollUp = (model) => {
    const root = newNode("(model)", "", null);
    const nodes = model.trail.places.module.map((path) => {
      let node = root;
      if (path) {
        path.split(".").forEach((name, i, names) => {
          if (!node.kids.has(name)) {
            node.kids.set(name, newNode(name, names.slice(0, i + 1).join("."), node));
          }
          node = node.kids.get(name);
        });
      }
      return node;
    });
    for (let row = 0; row < model.size; row++) {
      const state = model.state[row];
      const bad = Page.isBad(state);
      for (let node = nodes[model.place[row]]; node; node = node.parent) {
        node.total++;
        if (bad) {
          node.bad++;
          if (node.firstBad < 0) node.firstBad = row;
        }
        if (Page.states[state].rank > Page.states[node.worst].rank) node.worst = state;
      }
    }
    return root;
  };

  class Tree {
    constructor(model, onPick) {
      this.onPick = onPick;
      this.root = rollUp(model);
      this.open = new Set([this.root]);
      this.openToFirst();
      this.node = Page.el("ul", { class: "tree", role: "tree", "aria-label": "Modules",
        onkeydown: (event) => this.key(event) });
      this.picked = null;
      this.paint();
    }

    // What goes wrong first lies open.
    openToFirst() {
      for (let node = this.root; node;) {
        this.open.add(node);
        const kids = [...node.kids.values()].filter((kid) => kid.bad);
        node = kids.sort((a, b) => a.firstBad - b.firstBad)[0];
      }
    }

    paint() {
      const had = this.node.contains(document.activeElement) ? this.picked : null;
      this.rows = [];
      this.node.replaceChildren(...this.paintNode(this.root, 1));
      const focus = this.rows.find((row) => row.module === (had || this.picked)) || this.rows[0];
      if (focus) focus.node.tabIndex = 0;
      if (had && focus) focus.node.focus();
    }

    paintNode(module, level) {
      const open = this.open.has(module);
      const state = Page.states[module.worst];
      const item = Page.el("li", {
        role: "treeitem", "aria-level": level, tabindex: "-1",
        "aria-expanded": module.kids.size ? String(open) : null,
        "aria-selected": String(module === this.picked),
        "aria-label": `${module.name}, ${state.word}, ${module.bad} of ` +
          `${Page.plural(module.total, "operator")} not fine`,
        class: module.bad ? "bad" : "", title: module.path,
        onclick: (event) => event.target.classList.contains("twist") ? this.toggle(module) : this.pick(module),
      },
      Page.el("span", { class: "twist", "aria-hidden": "true" },
        module.kids.size ? (open ? "\u25be" : "\u25b8") : ""),
      Page.mark(state.mark, state.key),
      Page.el("span", { class: "name" }, module.name),
      Page.el("span", { class: "counts" },
        module.bad ? `${Page.brief(module.bad)} / ${Page.brief(module.total)}`
          : Page.brief(module.total)));
      item.style.paddingLeft = `${(level - 1) * 14 + 4}px`;
      this.rows.push({ module, node: item });
      if (!open) return [item];
      const kids = [...module.kids.values()];
      const shown = kids.slice(0, MOST_CHILDREN).flatMap((kid) => this.paintNode(kid, level + 1));
      const rest = kids.length - MOST_CHILDREN;
      return [item, ...shown,
        ...(rest > 0 ? [Page.el("li", { role: "none" }, `and ${Page.count(rest)} more`)] : [])];
    }

    toggle(module) {
      if (!this.open.delete(module)) this.open.add(module);
      this.paint();
    }

    pick(module) {
      this.picked = module === this.picked ? null : module;
      this.paint();
      this.onPick(this.picked);
    }

    // What a link names, or nothing.
    find(path) {
      let node = this.root;
      for (const name of path ? path.split(".") : []) {
        node = node.kids.get(name);
        if (!node) return null;
      }
      return node;
    }

    reveal(path) {
      const found = this.find(path);
      for (let node = found && found.parent; node; node = node.parent) this.open.add(node);
      this.picked = found;
      this.paint();
    }

    key(event) {
      const at = this.rows.findIndex((row) => row.node === document.activeElement);
      if (at < 0) return;
      const { module } = this.rows[at];
      const focus = (i) => {
        if (i < 0 || i >= this.rows.length) return;
        this.rows[at].node.tabIndex = -1;
        this.rows[i].node.tabIndex = 0;
        this.rows[i].node.focus();
      };
      const turn = (open) => {
        if (module.kids.size && this.open.has(module) !== open) {
          this.toggle(module);
          this.rows[at].node.focus();
        } else {
          focus(open ? at + 1 : this.rows.findIndex((row) => row.module === module.parent));
        }
      };
      const acts = {
        ArrowDown: () => focus(at + 1), ArrowUp: () => focus(at - 1), ArrowRight: () => turn(true),
        ArrowLeft: () => turn(false), Enter: () => { this.pick(module); this.rows[at].node.focus(); },
        Home: () => focus(0), End: () => focus(this.rows.length - 1),
      };
      if (!acts[event.key]) return;
      event.preventDefault();
      event.stopPropagation();
      acts[event.key]();
    }
  }

  Page.Tree = Tree;
}
