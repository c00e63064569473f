/* The hierarchy of the labels: quality, support, search. */
(() => {
  const { labels, row } = hl;
  const called = hl.data.isNames ? "Named" : "Called";

  function describe(i) {
    const auc = hl.auc(i), share = hl.share(i);
    const parts = [labels.name[i], hl.plural(labels.support[i], "positive"),
      auc === null ? "AUC not known" : `AUC ${auc.toFixed(2)}`];
    if (share !== null && labels.parent[i] >= 0) parts.push(`${hl.percent(share)} of its parent's positives`);
    const others = labels.others[i];
    if (others) parts.push(`has ${hl.plural(others.length, "other parent")}`);
    return parts.join(", ");
  }

  function under(i) {
    const auc = hl.auc(i), others = labels.others[i];
    return `AUC ${auc === null ? "–" : auc.toFixed(2)}${others ? ` · +${hl.plural(others.length, "parent")}` : ""}`;
  }

  function draw(group, i, width) {
    const auc = hl.auc(i), share = hl.share(i);
    group.append(
      hl.svg("circle", { class: `disc ${hl.quality(auc)}`, cx: 23, cy: 16, r: 13.5 }),
      hl.svg("text", { class: `inside ${hl.quality(auc)}`, x: 23, y: 20, text: hl.short(labels.support[i]) }),
      hl.svg("text", { class: "under", x: 23, y: 40, text: labels.parent[i] < 0 ? "" : hl.percent(share) }),
      hl.svg("text", { class: "name", x: 46, y: 19, text: hl.fit(labels.name[i], width, "600 13px") }),
      hl.svg("text", { class: "tiny", x: 46, y: 35, text: under(i) }));
  }

  function panel(i) {
    const parents = hl.parents(i), calls = labels.calls[i], auc = hl.auc(i);
    const listed = (list) => list.flatMap((k, at) => at ? [", ", hl.labelButton(k, hl.showLabel)] : [hl.labelButton(k, hl.showLabel)]);
    const children = hl.children[i];
    return [
      hl.el("h3", { dir: "auto", text: labels.name[i] }),
      hl.el("dl", {},
        ...row(parents.length > 1 ? "Parents" : "Parent", ...(parents.length ? listed(parents) : ["none: a root"])),
        ...(children.length ? row("Children", hl.count(children.length)) : []),
        ...row("Positives in the fit", `${hl.count(labels.support[i])} of ${hl.count(hl.data.nFit)}`),
        ...(parents.length ? row("Share of the parent's", hl.percent(hl.share(i))) : []),
        ...row("AUC of its classifier", auc === null ? "not known" : auc.toFixed(3)),
        ...(hl.hasTruth ? row("True here", hl.count(labels.positives[i])) : []),
        ...row(`${called} here`, calls ? `${hl.count(calls)}${hl.hasTruth ? `, ${hl.count(labels.hits[i])} correct` : ""}` : "never")),
      hl.el("p", { class: "small", text: `Chance by score (${source(i)})` }),
      hl.curve(i, 240, 120),
    ];
  }

  /* Where the curve of a label comes from. */
  function source(i) {
    const note = hl.data.notes[labels.note[i]], share = labels.shared[i] / 1000;
    const parts = share ? [`${hl.percent(share)} from the curve that labels of its depth share`] : note ? [] : ["from its own samples"];
    return [...parts, ...(note ? [note] : [])].join("; ");
  }

  hl.startLabels = () => hl.browse({ draw, under, describe, panel });

  const ratio = (a, b) => b ? a / b : null;
  const columns = [
    { title: "label", value: (i) => labels.name[i], cell: (i) => hl.labelButton(i, hl.showLabel), head: true },
    { title: "positives in the fit", value: (i) => labels.support[i] },
    { title: "AUC", value: hl.auc, text: (v) => v.toFixed(2), mark: (i) => hl.quality(hl.auc(i)) },
    { title: "chance by score", cell: (i) => hl.curve(i, 132, 50) },
    ...(hl.hasTruth ? [{ title: "true here", value: (i) => labels.positives[i] }] : []),
    { title: hl.data.isNames ? "named" : "calls", value: (i) => labels.calls[i] },
    ...(hl.hasTruth ? [
      { title: "precision", value: (i) => ratio(labels.hits[i], labels.calls[i]), text: hl.percent },
      { title: "recall", value: (i) => ratio(labels.hits[i], labels.positives[i]), text: hl.percent },
    ] : []),
    { title: "shared part of the curve", value: (i) => labels.shared[i] / 1000, text: hl.percent },
    ...(hl.data.notes.some(Boolean) ? [{ title: "note on the curve", value: (i) => hl.data.notes[labels.note[i]], words: true }] : []),
  ];
  hl.startTable = () => hl.labelTable(columns, columns[1], false);
})();
