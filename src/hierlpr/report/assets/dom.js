"use strict";
/* Small helpers. Names from the data only ever become text: nothing here parses HTML. */
const hl = {};
(() => {
  const SVG = "http://www.w3.org/2000/svg";

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "text") node.textContent = value;
      else if (name === "on") for (const [event, run] of Object.entries(value)) node.addEventListener(event, run);
      else node.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children) if (child) node.append(child);
    return node;
  }

  hl.el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  hl.svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
  hl.id = (id) => document.getElementById(id);
  hl.data = JSON.parse(hl.id("data").textContent);

  hl.count = (n) => n.toLocaleString("en-US");
  hl.plural = (n, word) => `${hl.count(n)} ${word}${n === 1 ? "" : "s"}`;
  hl.percent = (share) => {
    if (share === null || Number.isNaN(share)) return "–";
    const value = 100 * share;
    if (value > 99 && value < 100) return `${Math.min(99.99, Number(value.toPrecision(4)))} %`;
    return `${value > 0 && value < 10 ? Number(value.toPrecision(2)) : Math.round(value)} %`;
  };
  /* 1234567 -> 1.2M: fits into a circle. */
  hl.short = (n) => n < 1000 ? String(n)
    : n < 99950 ? `${(n / 1000).toFixed(n < 9950 ? 1 : 0)}k`
    : n < 999500 ? `${Math.round(n / 1000)}k` : `${(n / 1e6).toFixed(1)}M`;

  const canvas = document.createElement("canvas").getContext("2d");
  const family = getComputedStyle(document.body).fontFamily;
  const widths = new Map();
  hl.width = (text, font) => {
    const key = `${font} ${text}`;
    if (!widths.has(key)) {
      canvas.font = `${font} ${family}`;
      widths.set(key, canvas.measureText(text.slice(0, 200)).width);
    }
    return widths.get(key);
  };
  /* The longest beginning of a text that fits a width, in whole characters. */
  hl.fit = (text, width, font) => {
    canvas.font = `${font} ${family}`;
    if (canvas.measureText(text).width <= width) return text;
    const letters = Array.from(text.slice(0, 200));
    let low = 0, high = letters.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      const part = `${letters.slice(0, middle).join("")}…`;
      if (canvas.measureText(part).width <= width) low = middle; else high = middle - 1;
    }
    return `${letters.slice(0, low).join("").trimEnd()}…`;
  };

  const labels = hl.data.labels;
  hl.labels = labels;
  /* Files have the codes; the page shows the name beside the code. */
  const titles = labels.title || {};
  hl.code = labels.name;
  hl.title = (i) => titles[i] || "";
  hl.hasTitles = Object.keys(titles).length > 0;
  /* A path that ends with the name is shown as the name: the drawing has the rest. */
  const isPath = (code, title) => code.replaceAll(";", " ").endsWith(title) && /[^\p{L}\p{N}]$/u.test(code.slice(0, -title.length));
  hl.whole = hl.code.map((code, i) => titles[i] && !isPath(code, titles[i]) ? `${code} (${titles[i]})` : code);
  labels.name = hl.whole.map((text, i) => titles[i] && isPath(text, titles[i]) ? titles[i] : text);
  hl.hasTruth = hl.data.hasTruth !== false;
  hl.hasSets = Boolean(hl.data.sets);
  hl.children = labels.name.map(() => []);
  hl.roots = [];
  labels.parent.forEach((parent, i) => (parent < 0 ? hl.roots : hl.children[parent]).push(i));
  hl.auc = (i) => labels.auc[i] === null ? null : labels.auc[i] / 1000;
  hl.share = (i) => labels.share[i] === null ? null : labels.share[i] / 1000;
  hl.limit = (i) => hl.data.maxCalls.length === 1 ? hl.data.maxCalls[0] : hl.data.maxCalls[i];
  hl.level = (i) => hl.data.levels.length === 1 ? hl.data.levels[0] : hl.data.levels[i];
  hl.parents = (i) => labels.parent[i] < 0 ? [] : [labels.parent[i], ...(labels.others[i] || [])];
  hl.path = (i) => {
    const path = [];
    for (let at = labels.parent[i]; at >= 0; at = labels.parent[at]) path.unshift(at);
    return path;
  };
  hl.quality = (auc) => auc === null ? "none" : auc > 0.9 ? "good" : auc > 0.7 ? "fair" : "poor";

  /* The LPR against the score, with axes: chance from 0 to 100 %, scores of the fit. */
  hl.curve = (i, width, height) => {
    const points = labels.curve[i];
    if (!points) return hl.el("span", { class: "small", text: "not drawn" });
    const [from, to] = labels.range[i].map((end) => Number(end.toPrecision(2))), left = 34, bottom = height - 14, right = width - 4, top = 5;
    const name = `Chance by score: ${points[0]} % at ${from} to ${points[points.length - 1]} % at ${to}`;
    const x = (k) => (left + (right - left) * k / (points.length - 1)).toFixed(1);
    const y = (p) => (bottom - (bottom - top) * p / 100).toFixed(1);
    const line = points.map((p, k) => `${x(k)},${y(p)}`).join(" ");
    const tick = (at, height, anchor, text) => hl.svg("text", { x: at, y: height, "text-anchor": anchor, text });
    return hl.svg("svg", { class: "curve", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": name },
      hl.svg("polygon", { points: `${left},${bottom} ${line} ${right},${bottom}` }),
      hl.svg("polyline", { points: line }),
      hl.svg("path", { class: "frame", d: `M${left},${top}V${bottom}H${right}` }),
      tick(left - 3, top + 5, "end", "100 %"), tick(left - 3, bottom, "end", "0 %"),
      tick(left, height - 3, "start", String(from)), tick(right, height - 3, "end", String(to)));
  };

  /* Let the address of the page name what is shown, so that it can be passed on. */
  hl.setAddress = (kind, name) => {
    try { history.replaceState(null, "", `#${kind}=${encodeURIComponent(name)}`); } catch { /* pages in frames have no address, and broken letters none either */ }
  };

  hl.button = (text, run, attributes) => hl.el("button", { type: "button", text, on: { click: run }, ...attributes });
  hl.matches = (name, words) => {
    const low = name.toLowerCase();
    return words.every((word) => low.includes(word));
  };
  hl.words = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
})();
