/*
 * A collapsible drawing of a forest for mouse, touch and keyboard: in columns, with a parent beside
 * its first child, or as an outline with one label per row, for deep hierarchies and narrow screens.
 */
(() => {
  const NARROW = 132, WIDE = 300, GAP = 34, ROW = 50, HEIGHT = 42, PAD = 10;
  const INDENT = 30, FAR = 12;  /* rows between siblings beyond which columns are hard to read */
  const FIRST = 40;   /* children shown of one label before "more" */
  const SMALLEST = 0.8; /* zoom that a drawing begins with at least */
  const MOST = 2000;  /* labels drawn at once */

  /*
   * given: name, roots, children(i), parent(i), draw(group, i, width), under(i) (the small text),
   * describe(i), choose(i); for outlines of blocks also block(i), blockSize(i), isCalled(i).
   * Items are label numbers; -1 is the parent of the roots.
   */
  hl.Tree = class {
    constructor(host, given) {
      this.given = given;
      this.open = new Set();
      this.shown = new Map();
      this.marked = new Set();
      this.chosen = null;
      this.current = null;
      this.zoom = innerWidth < 600 ? 0.85 : 1;
      this.host = host;
      this.isOutline = false;
      this.drawing = hl.svg("svg", { role: "tree", "aria-label": given.name });
      host.replaceChildren(this.drawing);
      this.drawing.addEventListener("click", (event) => this.clicked(event));
      this.drawing.addEventListener("keydown", (event) => this.pressed(event));
      host.onwheel = (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.setZoom(this.zoom * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
      };
    }

    below(i) { return i < 0 ? this.given.roots : this.given.children(i); }

    /* Open level by level as long as no more than `most` labels are drawn. */
    openUpTo(most) {
      this.open.clear();
      let level = this.given.roots.slice(0, FIRST), drawn = level.length;
      while (level.length) {
        const next = [];
        for (const i of level) {
          const size = Math.min(this.below(i).length, FIRST);
          if (size === 0 || drawn + size > most) continue;
          this.open.add(i);
          drawn += size;
          next.push(...this.below(i).slice(0, FIRST));
        }
        level = next;
      }
    }

    reveal(i) {
      for (let at = i, above; ; at = above) {
        above = this.given.parent(at);
        const place = this.below(above).indexOf(at);
        if (place >= (this.shown.get(above) || FIRST)) this.shown.set(above, place + 1);
        if (above < 0) break;
        this.open.add(above);
      }
    }

    /* Return the visible items with row and depth. */
    layout() {
      const items = [];
      let row = 0;
      const stack = [{ of: -1, at: 0, depth: 0, parent: null }];
      while (stack.length) {
        const top = stack[stack.length - 1];
        const list = this.below(top.of);
        const limit = Math.min(this.shown.get(top.of) || FIRST, list.length);
        if (top.at > limit || (top.at === limit && limit === list.length)) { stack.pop(); continue; }
        if (items.length && (top.at > 0 || this.isOutline)) row += 1;
        const isMore = top.at === limit;
        const i = isMore ? null : list[top.at];
        const item = { i, row, depth: top.depth, parent: top.parent, of: top.of, rest: list.length - limit,
          place: top.at + 1, size: list.length };
        items.push(item);
        top.at += 1;
        if (!isMore && this.open.has(i) && this.below(i).length) {
          stack.push({ of: i, at: 0, depth: top.depth + 1, parent: item });
        }
      }
      return items;
    }

    /* Columns, unless siblings would end up far apart or the screen is narrow. */
    chooseShape() {
      this.isOutline = false;
      const last = new Map();
      this.isOutline = innerWidth < 600 || this.layout().some((item) => {
        const gap = item.row - (last.has(item.of) ? last.get(item.of) : item.row);
        last.set(item.of, item.row);
        return item.of >= 0 && gap > FAR;
      });
    }

    render(focus) {
      const items = this.layout();
      this.items = items;
      this.place = new Map(items.filter((item) => item.i !== null).map((item) => [item.i, item]));
      const ends = this.columns(items);
      if (!this.place.has(this.current)) this.current = items.length ? items[0].i : null;
      const parts = [this.blocks(items), this.edges(items)];
      const nodes = hl.svg("g", { role: "none" });
      for (const item of items) nodes.append(item.i === null ? this.more(item) : this.node(item));
      parts.push(nodes);
      this.drawing.replaceChildren(...parts);
      const rows = items.length ? items[items.length - 1].row + 1 : 1;
      this.size = [PAD + ends, 2 * PAD + rows * ROW - (ROW - HEIGHT)];
      this.drawing.setAttribute("viewBox", `0 0 ${this.size[0]} ${this.size[1]}`);
      this.setZoom(this.zoom);
      if (focus !== undefined) this.focus(focus);
    }

    /* Set places and widths of all items; return where the widest row ends. */
    columns(items) {
      const widths = [], starts = [PAD];
      for (const item of items) {
        const name = item.i === null ? 90 : Math.max(
          hl.width(hl.labels.name[item.i], "600 13px"), hl.width(this.given.under(item.i), "11px"));
        const needed = 58 + name + (item.i !== null && this.below(item.i).length ? 36 : 0);
        item.width = Math.min(WIDE, Math.max(NARROW, Math.ceil(needed)));
        widths[item.depth] = Math.max(widths[item.depth] || 0, item.width);
      }
      widths.forEach((width, k) => starts.push(starts[k] + width + GAP));
      for (const item of items) {
        item.x = this.isOutline ? PAD + item.depth * INDENT : starts[item.depth];
        item.y = PAD + item.row * ROW;
        if (!this.isOutline) item.width = widths[item.depth];
      }
      return items.reduce((most, item) => Math.max(most, item.x + item.width), 0);
    }

    /* From a parent to its child, as a path; the outline leaves the parent below its circle. */
    link(item, inset) {
      const { parent } = item, to = item.y + HEIGHT / 2;
      if (this.isOutline) return [parent.x + 23, parent.y + HEIGHT - inset, to, item.x + inset];
      return [parent.x + parent.width + GAP / 2, parent.y + HEIGHT / 2, to, item.x + inset];
    }

    node(item) {
      const { i, width } = item;
      const size = this.below(i).length;
      const isOpen = this.open.has(i);
      const classes = ["node"];
      if (this.chosen === i) classes.push("chosen");
      if (this.marked.has(i)) classes.push("marked");
      const group = hl.svg("g", {
        class: classes.join(" "), role: "treeitem", "data-label": i, tabindex: i === this.current ? 0 : -1,
        transform: `translate(${item.x},${item.y})`, "aria-label": this.given.describe(i),
        "aria-level": item.depth + 1, "aria-posinset": item.place, "aria-setsize": item.size,
        "aria-selected": this.chosen === i ? "true" : "false", "aria-expanded": size ? String(isOpen) : null,
      });
      group.append(hl.svg("rect", { class: "box", width, height: HEIGHT, rx: 8 }));
      this.given.draw(group, i, width - 46 - (size ? 38 : 4));
      if (size) {
        group.append(hl.svg("g", { class: "toggle", "data-toggle": i, "aria-hidden": "true", transform: `translate(${width - 40},0)` },
          hl.svg("rect", { width: 40, height: HEIGHT, rx: 8 }),
          hl.svg("path", { d: isOpen ? "M12,18l5,6l5,-6" : "M15,15l6,5l-6,5" }),
          isOpen ? null : hl.svg("text", { x: 20, y: 36, class: "tiny", text: hl.short(size) })));
      }
      group.append(hl.svg("title", { text: hl.whole[i] }));
      return group;
    }

    more(item) {
      const text = `… ${hl.count(item.rest)} more`;
      return hl.svg("g", {
        class: "node more", role: "treeitem", "data-more": item.of, tabindex: -1, "aria-level": item.depth + 1,
        "aria-label": `… ${hl.count(item.rest)} more; press Enter to show`, transform: `translate(${item.x},${item.y})`,
      }, hl.svg("rect", { class: "box", width: item.width, height: HEIGHT, rx: 8 }), hl.svg("text", { x: 14, y: 26, text }));
    }

    edges(items) {
      const path = [];
      for (const item of items) {
        if (!item.parent) continue;
        const [x, from, to, end] = this.link(item, 0);
        path.push(from === to ? `M${item.parent.x + item.parent.width},${from}H${end}` : `M${x},${from}V${to - 7}q0,7 7,7H${end}`);
      }
      return hl.svg("path", { class: "edges", d: path.join("") });
    }

    /* Outlines around blocks: thick strokes twice, so that only the rim of their union shows. */
    blocks(items) {
      const group = hl.svg("g", { class: "blocks", role: "none" });
      if (!this.given.block) return group;
      const kinds = { waiting: [], called: [] };
      for (const item of items) {
        if (item.i === null || this.given.blockSize(item.i) < 2) continue;
        const shapes = kinds[this.given.isCalled(item.i) ? "called" : "waiting"];
        shapes.push(["rect", { x: item.x, y: item.y, width: item.width, height: HEIGHT, rx: 10 }]);
        if (!item.parent || this.given.block(item.parent.i) !== this.given.block(item.i)) continue;
        const [x, from, to, end] = this.link(item, 4), side = item.parent.x + item.parent.width - 4;
        shapes.push(["path", { class: "link", d: from === to ? `M${side},${from}H${end}`
          : this.isOutline ? `M${x},${from}V${to}H${end}` : `M${side},${from}H${x}V${to}H${end}` }]);
      }
      for (const [kind, shapes] of Object.entries(kinds)) {
        for (const layer of ["rim", "inside"]) {
          group.append(hl.svg("g", { class: `${layer} ${kind}`, role: "none" }, ...shapes.map(([tag, given]) => hl.svg(tag, given))));
        }
      }
      return group;
    }

    /* Begin with all columns visible, as long as the text stays readable. */
    start() {
      this.render();
      if (this.host.clientWidth) this.setZoom(Math.min(this.zoom, Math.max(SMALLEST, this.fitting())));
    }

    /* Close the deepest levels until the others fit. */
    closeDeep() {
      this.render();
      while (!this.isOutline && this.host.clientWidth && this.fitting() < SMALLEST) {
        const deepest = Math.max(...this.items.map((item) => item.depth));
        if (deepest < 2) break;
        this.items.filter((item) => item.depth === deepest - 1).forEach((item) => this.open.delete(item.i));
        this.render();
      }
    }

    fitting() { return (this.host.clientWidth - 2) / this.size[0]; }

    setZoom(zoom) {
      this.zoom = Math.min(2.5, Math.max(0.15, zoom));
      this.drawing.style.width = `${Math.round(this.size[0] * this.zoom)}px`;
      this.drawing.style.height = `${Math.round(this.size[1] * this.zoom)}px`;
    }

    zoomToFit() { this.setZoom(Math.min(1.2, this.fitting())); }

    toggle(i, wanted) {
      const open = wanted === undefined ? !this.open.has(i) : wanted;
      if (open) this.open.add(i); else this.open.delete(i);
      this.current = i;
      this.render(i);
    }

    choose(i) {
      this.chosen = i;
      this.current = i;
      this.render(i);
      this.given.choose(i);
    }

    /* Open everything, or as much as can be drawn; returns whether all of it is open. */
    expandAll() {
      this.openUpTo(MOST);
      this.shown.clear();
      this.render();
      return this.items.every((item) => item.i !== null && (!this.below(item.i).length || this.open.has(item.i)));
    }

    collapseAll() {
      this.open.clear();
      this.render();
    }

    focus(i) {
      const node = this.drawing.querySelector(`[data-label="${i}"]`);
      if (!node) return;
      node.focus({ preventScroll: true });
      this.scrollTo(i);
    }

    scrollTo(i) {
      const item = this.place.get(i);
      if (!item) return;
      const left = item.x * this.zoom, top = item.y * this.zoom, host = this.host;
      const width = item.width * this.zoom, height = HEIGHT * this.zoom;
      if (left < host.scrollLeft || left + width > host.scrollLeft + host.clientWidth) {
        host.scrollLeft = Math.max(0, left - Math.max(12, (host.clientWidth - width) / 2));
      }
      if (top < host.scrollTop || top + height > host.scrollTop + host.clientHeight) {
        host.scrollTop = Math.max(0, top - host.clientHeight / 2);
      }
    }

    clicked(event) {
      const toggle = event.target.closest("[data-toggle]");
      if (toggle) return this.toggle(Number(toggle.dataset.toggle));
      const more = event.target.closest("[data-more]");
      if (more) return this.showMore(Number(more.dataset.more));
      const node = event.target.closest("[data-label]");
      if (node) this.choose(Number(node.dataset.label));
      return undefined;
    }

    showMore(of) {
      const shown = this.shown.get(of) || FIRST;
      this.shown.set(of, shown + 2 * FIRST);
      this.render(this.below(of)[shown]);
    }

    pressed(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const node = event.target.closest(".node");
      if (!node) return;
      const nodes = Array.from(this.drawing.querySelectorAll(".node"));
      const at = nodes.indexOf(node);
      const i = node.dataset.label === undefined ? null : Number(node.dataset.label);
      const isParent = i !== null && this.below(i).length > 0;
      const go = (to) => {
        if (!to) return;
        this.current = to.dataset.label === undefined ? this.current : Number(to.dataset.label);
        nodes.forEach((other) => other.setAttribute("tabindex", other === to ? 0 : -1));
        to.focus({ preventScroll: true });
        if (to.dataset.label !== undefined) this.scrollTo(Number(to.dataset.label));
        else to.scrollIntoView({ block: "nearest", inline: "nearest" });
      };
      const actions = {
        ArrowDown: () => go(nodes[at + 1]),
        ArrowUp: () => go(nodes[at - 1]),
        Home: () => go(nodes[0]),
        End: () => go(nodes[nodes.length - 1]),
        ArrowRight: () => isParent && (this.open.has(i) ? go(nodes[at + 1]) : this.toggle(i, true)),
        ArrowLeft: () => {
          if (isParent && this.open.has(i)) this.toggle(i, false);
          else {
            const above = i === null ? Number(node.dataset.more) : this.given.parent(i);
            if (above >= 0) go(this.drawing.querySelector(`[data-label="${above}"]`));
          }
        },
        Enter: () => i === null ? this.showMore(Number(node.dataset.more)) : this.choose(i),
        " ": () => i === null ? this.showMore(Number(node.dataset.more)) : isParent ? this.toggle(i) : this.choose(i),
      };
      if (!actions[event.key]) return;
      event.preventDefault();
      actions[event.key]();
    }

    shapeButton() {
      const button = hl.button("", () => { this.isOutline = !this.isOutline; this.render(); name(); });
      const name = () => { button.textContent = this.isOutline ? "As columns" : "As outline"; };
      name();
      return button;
    }

    /* Buttons of every drawing. */
    tools() {
      return [
        hl.button("Open all", () => { if (!this.expandAll()) this.host.dispatchEvent(new CustomEvent("too-many")); }),
        hl.button("Close all", () => this.collapseAll()),
        this.shapeButton(),
        hl.el("span", { class: "pair", role: "group", "aria-label": "Zoom" },
          hl.button("−", () => this.setZoom(this.zoom / 1.25), { "aria-label": "− zoom out" }),
          hl.button("+", () => this.setZoom(this.zoom * 1.25), { "aria-label": "+ zoom in" }),
          hl.button("Fit width", () => this.zoomToFit())),
      ];
    }
  };
})();
