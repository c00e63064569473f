"use strict";
/* One sample per screen. Names from the data only ever become text: nothing here parses HTML. */
(() => {
  const id = (name) => document.getElementById(name);
  const data = JSON.parse(id("data").textContent);
  const samples = data.samples, store = `hierlpr-audit-${data.audit}`;
  const answers = new Map();
  let at = 0, row = 0, stored = true;

  const el = (tag, attributes, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "text") node.textContent = value; else node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
  };

  /* -- answers: what was pressed for each label of a sample ("yes", "no", "unsure" or null) --------
     What follows from it is computed, so that a slip leaves nothing behind once it is corrected. */
  const pressed = (k) => answers.get(samples[k].name) || samples[k].labels.map(() => null);
  try {
    const read = new Map(JSON.parse(localStorage.getItem(store)) || []);
    for (const sample of samples) {
      const saved = read.get(sample.name);
      if (Array.isArray(saved) && saved.length === sample.labels.length) answers.set(sample.name, saved);
    }
  } catch { stored = false; }
  const keep = () => {
    try { localStorage.setItem(store, JSON.stringify([...answers])); } catch { stored = false; }
  };

  const ancestors = (labels, i) => {
    const out = new Set();
    const walk = (j) => labels[j].parents.forEach((p) => { if (!out.has(p)) { out.add(p); walk(p); } });
    walk(i);
    return out;
  };
  const of = (k) => {
    const { labels } = samples[k], now = pressed(k), out = [...now];
    labels.forEach((_, i) => {
      const above = [...ancestors(labels, i)];
      if (now[i] === "yes") above.forEach((j) => { out[j] = "yes"; });
      if (above.some((j) => now[j] === "no")) out[i] = "no";
    });
    return out;
  };
  const isDone = (k) => of(k).every((answer) => answer !== null);
  const answer = (i, value) => {
    const { name, labels } = samples[at], now = [...pressed(at)];
    now[i] = value;
    // The last answer wins over an earlier one that contradicts it.
    labels.forEach((_, j) => {
      if (value === "yes" && now[j] === "no" && ancestors(labels, i).has(j)) now[j] = null;
      if (value !== "yes" && now[j] === "yes" && ancestors(labels, j).has(i)) now[j] = null;
    });
    answers.set(name, now);
    keep();
  };
  const downTo = (i) => {
    answer(i, "yes");
    samples[at].labels.forEach((label, j) => { if (label.parents.includes(i)) answer(j, "no"); });
  };

  /* -- one screen ------------------------------------------------------------------------------- */
  const CHOICES = [["yes", "Right", "y"], ["no", "Wrong", "n"], ["unsure", "Unsure", "u"]];
  const isLink = (text) => /^(https?:|file:|\.{0,2}\/|[\w-]+\/)\S+$|^\S+\.(png|jpe?g|gif|webp|svg|mp3|wav|ogg|flac|m4a|mp4|webm)$/i.test(text);
  const shown = (text) => {
    if (!text) return [];
    if (!isLink(text) || /^\s*(javascript|data):/i.test(text)) return [el("p", { dir: "auto", text })];
    if (/\.(mp3|wav|ogg|flac|m4a)(\?|#|$)/i.test(text)) return [el("audio", { controls: "", src: text })];
    if (/\.(mp4|webm)(\?|#|$)/i.test(text)) return [el("video", { controls: "", src: text })];
    if (/\.(png|jpe?g|gif|webp|svg)(\?|#|$)/i.test(text)) return [el("img", { src: text, alt: `Picture of ${samples[at].name}` })];
    return [el("p", {}, el("a", { href: text, target: "_blank", rel: "noreferrer", text }))];
  };
  const percent = (chance) => `${chance < 1 ? Math.min(99, Math.round(100 * chance)) : 100} %`;
  const line = (label, i) => {
    const choices = el("span", { class: "choices", role: "group", "aria-label": `Answer on ${label.name}` });
    const value = of(at)[i];
    for (const [word, text, key] of CHOICES) {
      const button = el("button", { type: "button", class: word, "aria-pressed": value === word, tabindex: -1 }, text, " ", el("kbd", { text: key }));
      button.addEventListener("click", () => { row = i; answer(i, word); draw(); });
      choices.append(button);
    }
    const down = el("button", { type: "button", class: "down", tabindex: -1, "aria-label": `Right down to ${label.name}, wrong below` }, "Down to here ", el("kbd", { text: "d" }));
    down.addEventListener("click", () => { row = i; downTo(i); draw(); });
    if (samples[at].labels.some((other) => other.parents.includes(i))) choices.append(down);
    const name = el("bdi", { class: "label", text: label.title ? `${label.name} (${label.title})` : label.name });
    name.style.setProperty("--depth", label.depth);
    const chance = el("span", { class: "chance", title: "chance by the model", text: percent(label.chance) });
    const spoken = `${label.name}, chance ${percent(label.chance)}, ${value === null ? "not answered" : CHOICES.find((c) => c[0] === value)[1]}`;
    const item = el("li", { tabindex: i === row ? 0 : -1, "data-answer": value || "", "aria-label": spoken }, name, chance, choices);
    item.addEventListener("focus", () => { row = i; });
    return item;
  };
  const draw = (focus = true) => {
    const sample = samples[at];
    row = Math.min(row, sample.labels.length - 1);
    id("name").textContent = sample.name;
    if (id("show").dataset.at !== String(at)) {
      id("show").replaceChildren(...shown(sample.show));
      id("show").dataset.at = at;
    }
    id("labels").replaceChildren(...sample.labels.map(line));
    const done = samples.filter((_, k) => isDone(k)).length;
    const all = done === samples.length ? " Save check.csv and continue the audit with it." : "";
    id("progress").textContent = `Sample ${at + 1} of ${samples.length}; ${done} checked${isDone(at) ? ", this one too" : ""}.${all}`;
    id("bar").value = done / samples.length;
    id("back").disabled = at === 0;
    id("next").disabled = at === samples.length - 1;
    id("kept").textContent = stored ? "" : "This browser keeps no answers: save them before you close the page.";
    if (focus) id("labels").children[row].focus();
  };
  const go = (k) => {
    at = Math.max(0, Math.min(samples.length - 1, k));
    const first = of(at).indexOf(null);
    row = Math.max(first, 0);
    draw();
  };
  const firstOpen = () => {
    const k = samples.findIndex((_, i) => !isDone(i));
    return k < 0 ? samples.length - 1 : k;
  };
  const ahead = () => {
    const next = of(at).indexOf(null, row);
    if (next >= 0) row = next;
  };

  /* -- saving ----------------------------------------------------------------------------------- */
  const cell = (value) => /[",\r\n]/.test(value) ? `"${value.replace(/"/g, '""')}"` : value;
  const save = () => {
    const rows = [["audit", "sample", "label", "correct"]];
    samples.forEach((sample, k) => {
      if (isDone(k)) sample.labels.forEach((label, i) => rows.push([data.audit, sample.name, label.name, of(k)[i]]));
    });
    const text = `${rows.map((cells) => cells.map(cell).join(",")).join("\r\n")}\r\n`;
    const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    const link = el("a", { href: url, download: "check.csv" });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };

  /* -- keys ------------------------------------------------------------------------------------- */
  const all = () => { samples[at].labels.forEach((_, i) => answer(i, "yes")); draw(); };
  const set = (value) => () => { answer(row, value); ahead(); draw(); };
  const move = (step) => () => { row = Math.max(0, Math.min(samples[at].labels.length - 1, row + step)); draw(); };
  const KEYS = {
    y: set("yes"), n: set("no"), u: set("unsure"), d: () => { downTo(row); ahead(); draw(); }, a: all,
    ArrowDown: move(1), ArrowUp: move(-1), ArrowRight: () => go(at + 1), Enter: () => go(at + 1), ArrowLeft: () => go(at - 1),
    o: () => go(firstOpen()), s: save,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const tag = event.target.tagName, isPlain = tag !== "BUTTON" && tag !== "SUMMARY" && tag !== "A" && tag !== "AUDIO" && tag !== "VIDEO";
    const run = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!run || (!isPlain && event.key.length > 1)) return;
    event.preventDefault();
    run();
  });
  for (const [name, run] of [["all", all], ["back", KEYS.ArrowLeft], ["next", KEYS.ArrowRight], ["open", KEYS.o], ["save", save]]) {
    id(name).addEventListener("click", run);
  }
  const theme = id("theme"), dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const showTheme = () => { theme.textContent = dark() ? "Light mode" : "Dark mode"; };
  theme.hidden = false;
  theme.addEventListener("click", () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; showTheme(); });
  showTheme();
  go(firstOpen());
})();
