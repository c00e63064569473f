/* The hierarchy and the table of discoveries: p-values, posteriors, levels. */
(() => {
  const { labels, row } = hl;
  const small = (v) => v === null ? "–" : v === 0 ? "0" : v < 0.001 ? v.toExponential(1).replace("e-", "e−") : String(Number(v.toPrecision(2)));
  const level = (i) => labels.level[i] >= 1 ? "none below 1" : small(labels.level[i]);
  const state = (i) => labels.rejected[i] ? "called" : labels.p[i] === null ? "none" : "open";
  const word = (i) => labels.rejected[i] ? "rejected" : "not rejected";

  function describe(i) {
    const p = labels.p[i] === null ? "no p-value" : `p ${small(labels.p[i])}`;
    return `${labels.name[i]}, ${word(i)}, ${p}, LPR ${hl.percent(labels.lpr[i])}, smallest fdr ${level(i)}`;
  }

  function under(i) {
    const others = labels.others[i];
    return `p ${small(labels.p[i])}${others ? ` · +${hl.plural(others.length, "parent")}` : ""}`;
  }

  function draw(group, i, width) {
    const inside = Math.round(100 * labels.lpr[i]);
    group.append(
      hl.svg("circle", { class: `disc ${state(i)}`, cx: 23, cy: 16, r: 13.5 }),
      hl.svg("text", { class: `inside ${state(i)}`, x: 23, y: 20, text: String(inside) }),
      hl.svg("text", { class: "name", x: 46, y: 19, text: hl.fit(labels.name[i], width, "600 13px") }),
      hl.svg("text", { class: "tiny", x: 46, y: 35, text: under(i) }));
  }

  function panel(i) {
    const parents = hl.parents(i), children = hl.children[i];
    const listed = parents.flatMap((k, at) => at ? [", ", hl.labelButton(k, hl.showLabel)] : [hl.labelButton(k, hl.showLabel)]);
    return [
      hl.el("h3", { dir: "auto", text: labels.name[i] }),
      hl.el("dl", {},
        ...row(parents.length > 1 ? "Parents" : "Parent", ...(parents.length ? listed : ["none: a root"])),
        ...(children.length ? row("Children", hl.count(children.length)) : []),
        ...row("p-value", labels.p[i] === null ? "none" : small(labels.p[i])),
        ...row("LPR", hl.percent(labels.lpr[i])),
        ...row("Rejected", labels.rejected[i] ? `yes, at fdr ${hl.data.fdr}` : `not at fdr ${hl.data.fdr}`),
        ...row("Smallest fdr", level(i)),
        ...row("Rank", hl.count(labels.rank[i]))),
    ];
  }

  const columns = [
    { title: "label", value: (i) => labels.name[i], cell: (i) => hl.labelButton(i, hl.showLabel), head: true },
    { title: "rank", value: (i) => labels.rank[i] },
    { title: "p-value", value: (i) => labels.p[i], text: small },
    { title: "LPR", value: (i) => labels.lpr[i], text: hl.percent },
    { title: "smallest fdr", value: (i) => labels.level[i], text: (v) => v >= 1 ? "–" : small(v) },
    { title: "rejected", value: (i) => Number(labels.rejected[i]), text: (v) => v ? "yes" : "no", mark: state },
  ];

  hl.startDiscoveries = () => {
    hl.browse({ draw, under, describe, panel });
    hl.labelTable(columns, columns[1], true);
  };
})();
