/* One sample: its labels with LPRs, blocks, calls and truth, and why each was called or not. */
(() => {
  const { labels } = hl;
  const LISTED = 200;

  /* Rows of five numbers: label, LPR, block score (ten-thousandths), block, flags. */
  function unpack(sample) {
    const entries = new Map(), members = new Map();
    for (let at = 0; at < sample.entries.length; at += 5) {
      const [label, lpr, score, block, flags] = sample.entries.slice(at, at + 5);
      const entry = { label, lpr: lpr / 1e4, score: score / 1e4, block,
        called: Boolean(flags & 1), truth: Boolean(flags & 2), reaches: Boolean(flags & 4),
        unknown: Boolean(flags & 8), set: hl.hasSets ? hl.data.sets[(flags >> 4) & 3] : null, reason: flags >> 6 };
      entries.set(label, entry);
      if (!members.has(block)) members.set(block, []);
      members.get(block).push(entry);
    }
    return { sample, entries, members };
  }

  /* Numbers with enough digits to distinguish them from the cutoff. */
  function distinctDigits(lpr, score, level) {
    if (level === null) return [lpr.toFixed(2), score.toFixed(2), "none"];
    let digits = 2;
    const same = (x) => x.toFixed(digits) === level.toFixed(digits) && x !== level;
    while (digits < 4 && (same(lpr) || same(score))) digits += 1;
    return [lpr, score, level].map((x) => x.toFixed(digits));
  }

  function named(list) {
    const shown = list.slice(0, 3).map((entry) => `“${labels.name[entry.label]}” (${entry.lpr.toFixed(2)})`);
    if (list.length > 3) shown.push(`${list.length - 3} more`);
    return shown.length > 1 ? `${shown.slice(0, -1).join(", ")} and ${shown[shown.length - 1]}` : shown[0];
  }

  /* The sentences are those of the model's explanations. */
  function why(view, entry) {
    const [lpr, mean, level] = distinctDigits(entry.lpr, entry.score, hl.level(entry.label));
    const others = view.members.get(entry.block).filter((other) => other !== entry);
    const most = hl.limit(entry.label);
    const words = { lpr, mean, level, others: others.length ? named(others) : "",
      most: most === null ? "" : hl.plural(most, "call") };
    return hl.data.reasons[entry.reason].replace(/\{(\w+)\}/g, (_, name) => words[name]);
  }

  const verdict = (entry) => !hl.hasTruth ? "left" : entry.unknown ? "unknown" : entry.called ? (entry.truth ? "correct" : "wrong") : entry.truth ? "missed" : "left";
  const SIGN = { correct: "✓ correct", wrong: "✗ incorrect", missed: "○ missed", left: "", unknown: "? unknown" };
  const OUTCOME = {
    correct: "Correct: called, and true.", wrong: "Incorrect: called, but not true.",
    missed: "Missed: true, but not called.", left: "Correctly left out: not called, and not true.",
    unknown: "The truth of this label is unknown.",
  };

  const SET = { sure: "sure", possible: "possible, not sure", no: "neither sure nor possible" };

  function describe(view, i) {
    const entry = view.entries.get(i);
    const truth = hl.hasTruth ? `, ${entry.unknown ? "truth unknown" : entry.truth ? "true" : "not true"}` : "";
    const set = hl.hasSets && entry.set !== "no" ? `, ${entry.set}` : "";
    return `${labels.name[i]}, chance ${entry.lpr.toFixed(2)}, block score ${entry.score.toFixed(2)}, ${entry.called ? "called" : "not called"}${set}${truth}`;
  }

  function draw(view, group, i, width) {
    const entry = view.entries.get(i), state = verdict(entry);
    group.append(
      hl.svg("circle", { class: `disc ${entry.called ? "called" : "open"}`, cx: 23, cy: 16, r: 13.5 }),
      hl.svg("text", { class: `inside ${entry.called ? "called" : "open"}`, x: 23, y: 20, text: lprText(entry.lpr) }),
      hl.svg("text", { class: "name", x: 46, y: 19, text: hl.fit(labels.name[i], width, "600 13px") }));
    if (entry.truth) group.append(hl.svg("circle", { class: "ring", cx: 23, cy: 16, r: 16.5 }));
    const line = hl.svg("text", { class: "tiny", x: 46, y: 35 });
    if (SIGN[state]) line.append(hl.svg("tspan", { class: `sign ${state}`, text: SIGN[state] }));
    line.append(blockText(view, entry));
    group.append(line);
  }

  function blockText(view, entry) {
    const size = view.members.get(entry.block).length;
    const parts = [...(hl.hasSets && entry.set !== "no" ? [entry.set] : []), ...(size > 1 ? [`block of ${size}: ${lprText(entry.score)}`] : [])];
    return parts.length ? `${SIGN[verdict(entry)] ? " · " : ""}${parts.join(" · ")}` : "";
  }

  const lprText = (p) => p >= 0.995 ? "1.0" : p < 0.005 ? "0" : p.toFixed(2).slice(1);

  function panel(view, i) {
    const entry = view.entries.get(i);
    return [
      hl.el("h3", { dir: "auto", text: labels.name[i] }),
      hl.el("p", { id: "why", text: why(view, entry) }),
      hl.hasTruth ? hl.el("p", { class: `outcome ${verdict(entry)}`, text: OUTCOME[verdict(entry)] }) : "",
      hl.el("dl", {},
        hl.el("dt", { text: "Chance" }), hl.el("dd", { text: entry.lpr.toFixed(3) }),
        hl.el("dt", { text: "Block score" }), hl.el("dd", { text: entry.score.toFixed(3) }),
        hl.el("dt", { text: "Cutoff" }), hl.el("dd", { text: hl.level(i) === null ? "none" : hl.level(i).toFixed(3) }),
        ...(hl.hasSets ? [hl.el("dt", { text: "For this sample" }), hl.el("dd", { text: SET[entry.set] })] : [])),
      hl.button("About this label", () => hl.showLabel(i)),
    ];
  }

  /* The called and true labels, then on demand all others; the file has all of them. */
  function table(view, counts) {
    const all = Array.from(view.entries.values()), first = all.filter(counts);
    const head = ["label", "chance", "block score", "called", ...(hl.hasSets ? ["set"] : []), ...(hl.hasTruth ? ["true"] : []), "why"];
    const row = (entry) => hl.el("tr", {},
      hl.el("th", { scope: "row" }, hl.el("bdi", { text: labels.name[entry.label] })),
      hl.el("td", { class: "n", "data-head": "chance", text: entry.lpr.toFixed(3) }), hl.el("td", { class: "n", "data-head": "block score", text: entry.score.toFixed(3) }),
      hl.el("td", { "data-head": "called", text: entry.called ? "yes" : "no" }), hl.hasSets ? hl.el("td", { "data-head": "set", text: entry.set }) : null,
      hl.hasTruth ? hl.el("td", { "data-head": "true", text: entry.unknown ? "unknown" : entry.truth ? "yes" : "no" }) : null,
      hl.el("td", { class: "wide", text: why(view, entry) }));
    const body = hl.el("tbody", {}, ...first.slice(0, LISTED).map(row));
    const more = hl.button(`Show all ${hl.plural(all.length, "label")}`, () => { body.replaceChildren(...all.slice(0, LISTED).map(row)); more.remove(); });
    return [
      hl.el("table", {},
        hl.el("thead", {}, hl.el("tr", {}, ...head.map((text, k) => hl.el("th", { scope: "col", class: k === 1 || k === 2 ? "n" : null, text })))), body),
      hl.el("p", { class: "save" }, first.length < all.length ? more : null, " ", hl.csvButton("sample", () => sampleRows(view)))];
  }

  function sampleRows(view) {
    const only = (wanted, ...cells) => wanted ? cells : [];
    const rows = Array.from(view.entries.values(), (e) => [view.sample.name, hl.code[e.label],
      ...only(hl.hasTitles, hl.title(e.label)), e.lpr, e.score, Number(e.called), ...only(hl.hasSets, e.set),
      ...only(hl.hasTruth, e.unknown ? "" : Number(e.truth)), why(view, e)]);
    return [["sample", "label", ...only(hl.hasTitles, "name"), "lpr", "block_score", "called", ...only(hl.hasSets, "set"),
      ...only(hl.hasTruth, "true"), "why"], ...rows];
  }

  function summary(view) {
    const { sample } = view;
    const wrong = sample.calls - sample.hits, missed = sample.true - sample.hits;
    let text = `Sample ${sample.name}: `;
    text += !hl.hasTruth ? `${hl.plural(sample.calls, "call")}.`
      : `${hl.plural(sample.calls, "call")}: ${hl.count(sample.hits)} correct, ${hl.count(wrong)} incorrect; ${hl.count(missed)} of ${hl.plural(sample.true, "true label")} missed.`;
    const [hidden, hiddenTrue, hiddenCalled] = sample.hidden;
    if (hidden) {
      text += ` ${hl.plural(hidden, "label")} with lower scores not shown`;
      const parts = [...(hl.hasTruth ? [`${hl.count(hiddenTrue)} of them true`] : []), `${hl.count(hiddenCalled)} called`];
      text += hiddenTrue || hiddenCalled ? `, ${parts.join(" and ")}.` : ".";
    }
    return text;
  }

  hl.goToSample = () => false;

  hl.startSamples = () => {
    const { samples } = hl.data;
    if (!hl.id("samples")) return;
    if (!samples.length) {
      hl.id("samples-tree").replaceChildren(hl.el("p", { class: "small", text: "This report shows no single samples." }));
      return;
    }
    const wrong = (k) => hl.hasTruth ? samples[k].calls - samples[k].hits : 0;
    const missed = (k) => samples[k].true - samples[k].hits;
    const orders = {
      "as given": () => 0,
      ...(hl.hasTruth ? {
        "most incorrect calls first": (a, b) => wrong(b) - wrong(a),
        "most missed labels first": (a, b) => missed(b) - missed(a),
      } : {}),
      "most calls first": (a, b) => samples[b].calls - samples[a].calls,
    };
    const pick = hl.el("select", { id: "sample-pick", });
    const order = hl.el("select", { id: "sample-order" },
      ...Object.keys(orders).map((text) => hl.el("option", { value: text, text })));
    const arrange = () => {
      const kept = pick.value;
      const places = samples.map((_, k) => k).sort((a, b) => orders[order.value](a, b) || a - b);
      pick.replaceChildren(...places.map((k) => hl.el("option", { value: k,
        text: `${samples[k].name} · ${hl.hasTruth ? `${samples[k].hits} correct, ${wrong(k)} incorrect, ${missed(k)} missed` : hl.plural(samples[k].calls, "call")}` })));
      if (kept !== "") pick.value = kept;
    };
    let tree = null;
    const tools = hl.el("span", { class: "pair" });
    const show = (k) => {
      pick.value = k;
      const view = unpack(samples[k]);
      const inside = (i) => view.entries.has(i);
      const below = new Map();
      const children = (i) => {
        if (!below.has(i)) below.set(i, hl.children[i].filter(inside).sort(byWeight));
        return below.get(i);
      };
      const before = tree;
      const entry = (i) => view.entries.get(i);
      const counts = (e) => e.called || e.truth;
      /* The more labels in and below it are called or true, the earlier a label is drawn. */
      const weight = new Map();
      for (const e of view.entries.values()) {
        if (counts(e)) for (const i of [...hl.path(e.label), e.label]) weight.set(i, (weight.get(i) || 0) + 1);
      }
      const byWeight = (a, b) => (weight.get(b) || 0) - (weight.get(a) || 0) || entry(b).score - entry(a).score || a - b;
      const roots = hl.roots.filter(inside).sort(byWeight);
      tree = new hl.Tree(hl.id("samples-tree"), {
        roots, children, parent: (i) => labels.parent[i], name: "Labels of the sample",
        draw: (group, i, width) => draw(view, group, i, width), describe: (i) => describe(view, i),
        under: (i) => SIGN[verdict(entry(i))] + blockText(view, entry(i)),
        choose: (i) => hl.id("samples-panel").replaceChildren(...panel(view, i)),
        block: (i) => view.entries.get(i).block,
        isCalled: (i) => view.entries.get(i).called,
        blockSize: (i) => view.members.get(view.entries.get(i).block).length,
      });
      for (const e of view.entries.values()) {
        if (!counts(e)) continue;
        for (const above of hl.path(e.label)) tree.open.add(above);
        if (children(e.label).length && children(e.label).length <= 8) tree.open.add(e.label);
      }
      const entries = Array.from(view.entries.values());
      const first = entries.find((e) => e.called && !e.reaches) || entries.find((e) => verdict(e) === "missed") || entries.find(counts) || entries[0];
      if (first) {
        tree.chosen = tree.current = first.label;
        tree.reveal(first.label);
        hl.id("samples-panel").replaceChildren(...panel(view, first.label));
      }
      tree.chooseShape();
      if (before) [tree.zoom, tree.isOutline] = [before.zoom, before.isOutline];
      if (before) tree.render(); else tree.start();
      if (first && before) tree.scrollTo(first.label);
      tools.replaceChildren(...tree.tools());
      hl.id("samples-summary").textContent = summary(view);
      hl.id("samples-calls").replaceChildren(...table(view, counts));
    };
    const choose = (k) => {
      show(k);
      hl.setAddress("sample", samples[k].name);
    };
    hl.goToSample = (name) => {
      const k = samples.findIndex((sample) => sample.name === name);
      if (k < 0) return false;
      show(k);
      hl.id("samples").scrollIntoView({ block: "start" });
      return true;
    };
    const step = (by) => {
      const at = Math.min(Math.max(pick.selectedIndex + by, 0), pick.options.length - 1);
      choose(Number(pick.options[at].value));
    };
    pick.addEventListener("change", () => choose(Number(pick.value)));
    order.addEventListener("change", () => { arrange(); choose(Number(pick.options[0].value)); });
    hl.id("samples-tools").append(
      hl.el("label", {}, "Sample ", pick), hl.button("Previous", () => step(-1)), hl.button("Next", () => step(1)),
      hl.el("label", {}, "Order ", order));
    hl.id("samples-drawing-tools").append(tools);
    arrange();
    /* Begin with a sample that shows as many outcomes as possible. */
    const interest = (k) => Math.min(hl.hasTruth ? samples[k].hits : samples[k].calls, 6) + 2 * Math.min(wrong(k), 1) + 2 * Math.min(missed(k), 1) + 3 * hasHelp(samples[k]);
    show(samples.map((_, k) => k).reduce((best, k) => (interest(k) > interest(best) ? k : best), 0));
  };

  /* Whether a label is called although its own LPR is below the cutoff. */
  function hasHelp(sample) {
    for (let at = 4; at < sample.entries.length; at += 5) if ((sample.entries[at] & 5) === 1) return 1;
    return 0;
  }
})();
