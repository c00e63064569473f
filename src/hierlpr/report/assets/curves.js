/* Values under the pointer on every curve, and a slider that moves the cutoff along them. */
(() => {
  const { data } = hl;
  const NEAR = 12;  /* pixels to a single point */

  const short = (level) => String(level > 0.99 ? Number(level.toPrecision(5)) : level.toPrecision(3));
  const format = (axis, value) => axis[3] ? hl.percent(value) : hl.count(Math.round(value));

  /* The points of a drawn line, in the units of the drawing. */
  function drawn(group) {
    const marks = Array.from(group.querySelectorAll("use"), (use) => [Number(use.getAttribute("x")), Number(use.getAttribute("y"))]);
    if (marks.length) return { points: marks, isLine: false };
    const path = group.querySelector("path"), points = [];
    const numbers = path ? path.getAttribute("d").match(/-?[\d.]+/g).map(Number) : [];
    for (let k = 0; k < numbers.length; k += 2) points.push([numbers[k], numbers[k + 1]]);
    return { points, isLine: true };
  }

  function heightAt({ points, isLine }, x) {
    if (!isLine) {
      const best = points.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);
      return Math.abs(best[0] - x) <= NEAR ? best[1] : null;
    }
    const k = points.findIndex((point) => point[0] >= x);
    if (k <= 0) return k === 0 && points[0][0] - x < 1 ? points[0][1] : null;
    const [a, b] = [points[k - 1], points[k]];
    return a[1] + (b[1] - a[1]) * (b[0] === a[0] ? 1 : (x - a[0]) / (b[0] - a[0]));
  }

  class Figure {
    constructor(key, plot) {
      this.plot = plot;
      this.drawing = hl.id(key);
      this.curves = Object.entries(plot.curves).map(([id, name]) => ({ name, ...drawn(hl.id(id)) })).filter((curve) => curve.points.length);
      this.hair = hl.svg("path", { class: "hair" });
      this.moved = hl.svg("path", { class: "hair moved" });
      this.drawing.append(this.moved, this.hair);
      this.tip = hl.el("div", { class: "tip", "aria-hidden": "true", hidden: true });
      this.drawing.after(this.tip);
      this.drawing.addEventListener("pointermove", (event) => this.point(event));
      this.drawing.addEventListener("pointerleave", () => this.leave());
    }

    line(x) {
      const [, top, , bottom] = this.plot.box;
      return `M${x},${top}V${bottom}`;
    }

    point(event) {
      const [left, top, right, bottom] = this.plot.box, [across, up] = this.plot.axes;
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.drawing.getScreenCTM().inverse());
      if (at.x < left || at.x > right || at.y < top || at.y > bottom) return this.leave();
      const value = (height) => up[0] + (up[1] - up[0]) * (bottom - height) / (bottom - top);
      const rows = this.curves.map((curve) => [curve.name, heightAt(curve, at.x)]).filter(([, height]) => height !== null)
        .map(([name, height]) => hl.el("div", {}, hl.el("span", { text: name }), hl.el("b", { text: format(up, value(height)) })));
      if (!rows.length) return this.leave();
      const share = (at.x - left) / (right - left);
      this.hair.setAttribute("d", this.line(at.x));
      this.tip.replaceChildren(hl.el("div", { class: "at", text: `${across[2]} ${format(across, across[0] + (across[1] - across[0]) * share)}` }), ...rows);
      this.tip.hidden = false;
      const host = this.tip.parentNode.getBoundingClientRect();
      const beside = event.clientX - host.left + (share > 0.5 ? -this.tip.offsetWidth - 14 : 14);
      this.tip.style.left = `${Math.max(0, beside)}px`;
      this.tip.style.top = `${event.clientY - host.top + 10}px`;
      return undefined;
    }

    leave() {
      this.hair.removeAttribute("d");
      this.tip.hidden = true;
    }

    /* Mark another cutoff, where this figure has its calls or its recall on the axis. */
    mark(values) {
      const [left, , right] = this.plot.box, [low, high, name] = this.plot.axes[0], value = values[name];
      if (value === undefined || value === null || value > high) this.moved.removeAttribute("d");
      else this.moved.setAttribute("d", this.line(left + (right - left) * (value - low) / (high - low)));
    }
  }

  hl.startCurves = () => {
    const figures = Object.entries(data.figures).map(([key, plot]) => new Figure(key, plot));
    const host = hl.id("cutoff-slider"), { cutoffs, marks } = data;
    if (!host || !cutoffs || !cutoffs.length) return;
    const slider = hl.el("input", { type: "range", id: "cutoff-at", min: 0, max: cutoffs.length - 1 });
    const numbers = hl.el("output", { for: "cutoff-at" }), promise = hl.el("p", { class: "small" });
    const nearest = (calls) => cutoffs.reduce((best, row, k) => Math.abs(row[1] - calls) < Math.abs(cutoffs[best][1] - calls) ? k : best, 0);
    const show = ([level, calls, precision, recall], text, isMoved) => {
      const where = level === null ? "At the cutoffs of the groups" : `At a cutoff of ${short(level)}`;
      const correct = `${hl.percent(precision)} ${hl.hasTruth ? "" : "expected to be "}correct`;
      const found = hl.hasTruth && recall !== null ? `, ${hl.percent(recall)} of the true labels found` : "";
      numbers.textContent = `${where}: ${hl.plural(calls, "call")}, ${correct}${found}.`.replace(/ %/g, "\u00a0%");
      slider.setAttribute("aria-valuetext", numbers.textContent);
      promise.textContent = text.replace(/ %/g, "\u00a0%");
      for (const figure of figures) figure.mark(isMoved ? { calls, recall } : {});
    };
    const choose = (mark) => {
      slider.value = nearest(mark.numbers[1]);
      show(mark.numbers, mark.text, false);
    };
    slider.addEventListener("input", () => show(cutoffs[slider.value], data.elsewhere, true));
    const name = (mark) => mark.name === "in use" ? "Cutoff in use" : `Target ${mark.name}`;
    host.append(
      hl.el("label", { for: "cutoff-at", text: "Other cutoffs" }), slider, numbers, promise,
      hl.el("div", { class: "tools" }, ...marks.map((mark) => hl.button(name(mark), () => choose(mark), { class: "quiet" }))));
    host.hidden = false;
    choose(marks[0]);
  };
})();
