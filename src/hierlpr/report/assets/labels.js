/* The hierarchy of the labels: quality, support, search. */
(() => {
  const { labels } = hl;
  const MOST_FOUND = 30;

  function describe(i) {
    const auc = hl.auc(i), share = hl.share(i);
    const parts = [labels.name[i], hl.plural(labels.support[i], "positive"),
      auc === null ? "AUC not known" : `AUC ${auc.toFixed(2)}`];
    if (share !== null && labels.parent[i] >= 0) parts.push(`${hl.percent(share)} of its parent`);
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

  function item(i, run) {
    return hl.el("button", { type: "button", class: "link", title: labels.name[i].length > 90 ? labels.name[i] : null, on: { click: () => run(i) } }, hl.el("bdi", { text: labels.name[i] }));
  }

  function row(name, ...values) {
    return [hl.el("dt", { text: name }), hl.el("dd", {}, ...values)];
  }

  function panel(i) {
    const parents = hl.parents(i), calls = labels.calls[i], auc = hl.auc(i);
    const listed = (list) => list.flatMap((k, at) => at ? [", ", item(k, hl.showLabel)] : [item(k, hl.showLabel)]);
    const note = hl.data.notes[labels.note[i]];
    const children = hl.children[i];
    return [
      hl.el("h3", { dir: "auto", text: labels.name[i] }),
      hl.el("dl", {},
        ...row(parents.length > 1 ? "Parents" : "Parent", ...(parents.length ? listed(parents) : ["none: a root"])),
        ...(children.length ? row("Children", hl.count(children.length)) : []),
        ...row("Positives in the fit", `${hl.count(labels.support[i])} of ${hl.count(hl.data.nFit)}`),
        ...(parents.length ? row("Share of the parent", hl.percent(hl.share(i))) : []),
        ...row("AUC of its classifier", auc === null ? "not known" : auc.toFixed(3)),
        ...row("True here", hl.count(labels.positives[i])),
        ...row("Called here", calls ? `${hl.count(calls)}, ${hl.count(labels.hits[i])} of them right` : "never")),
      hl.el("p", { class: "small", text: note ? `LPR by score (${note})` : "LPR by score" }),
      hl.curve(i, 220, 90),
    ];
  }

  hl.startLabels = () => {
    const host = hl.id("hierarchy-tree");
    const tree = new hl.Tree(host, {
      roots: hl.roots, children: (i) => hl.children[i], parent: (i) => labels.parent[i], name: "Label hierarchy",
      draw, under, describe, choose: (i) => hl.id("hierarchy-panel").replaceChildren(...panel(i)),
    });
    const many = labels.name.length > 300;
    tree.openUpTo(many ? 60 : 130);
    tree.chooseShape();

    hl.showLabel = (i) => {
      tree.reveal(i);
      tree.choose(i);
      hl.id("hierarchy").scrollIntoView({ block: "start" });
    };

    const status = hl.el("span", { class: "small", role: "status" });
    const found = hl.el("ul", { class: "found", id: "hierarchy-found" });
    const search = hl.el("input", { type: "search", id: "hierarchy-search", placeholder: "Find a label", "aria-label": "Find a label", "aria-controls": "hierarchy-found", autocomplete: "off" });
    let matching = [];
    const look = () => {
      const words = hl.words(search.value);
      matching = words.length ? labels.name.map((_, i) => i).filter((i) => hl.matches(labels.name[i], words)) : [];
      tree.marked = new Set(matching);
      matching.slice(0, MOST_FOUND).forEach((i) => tree.reveal(i));
      tree.render();
      if (matching.length) tree.scrollTo(matching[0]);
      status.textContent = words.length ? `${hl.plural(matching.length, "label")} found` : "";
      const shown = matching.slice(0, 8).map((i) => hl.el("li", {}, item(i, hl.showLabel)));
      if (matching.length > 8) shown.push(hl.el("li", { class: "small", text: `and ${hl.count(matching.length - 8)} more` }));
      found.replaceChildren(...shown);
    };
    let wait = 0;
    search.addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(look, 120); });
    search.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      clearTimeout(wait);
      look();
      if (matching.length) hl.showLabel(matching[0]);
    });
    host.addEventListener("too-many", () => { status.textContent = "Not all labels fit into one drawing; open single ones or search."; });
    hl.id("hierarchy-tools").append(search, ...tree.tools(), status);
    hl.id("hierarchy-tools").after(found);
    tree.render();
    if (hl.roots.length) {
      tree.chosen = hl.roots[0];
      hl.id("hierarchy-panel").replaceChildren(...panel(hl.roots[0]));
      tree.render();
    }
  };
  hl.labelButton = item;
})();
