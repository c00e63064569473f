/* Browse a hierarchy: the drawing with its tools, search, and a panel for the selected label. */
(() => {
  const { labels } = hl;
  const MOST_FOUND = 30;

  function item(i, run) {
    return hl.el("button", { type: "button", class: "link", title: labels.name[i].length > 90 || hl.whole[i] !== labels.name[i] ? hl.whole[i] : null, on: { click: () => run(i) } }, hl.el("bdi", { text: labels.name[i] }));
  }

  hl.row = (name, ...values) => [hl.el("dt", { text: name }), hl.el("dd", {}, ...values)];

  /* given: draw(group, i, width), under(i), describe(i), and panel(i), which returns nodes. */
  hl.browse = (given) => {
    const panel = given.panel;
    const host = hl.id("hierarchy-tree");
    const tree = new hl.Tree(host, {
      roots: hl.roots, children: (i) => hl.children[i], parent: (i) => labels.parent[i], name: "Label hierarchy",
      draw: given.draw, under: given.under, describe: given.describe,
      choose: (i) => {
        hl.id("hierarchy-panel").replaceChildren(...panel(i));
        hl.setAddress("label", hl.code[i]);
      },
    });
    const many = labels.name.length > 300;
    tree.openUpTo(many ? 60 : 130);
    tree.chooseShape();

    hl.showLabel = (i) => {
      tree.reveal(i);
      tree.choose(i);
      hl.id("hierarchy").scrollIntoView({ block: "start" });
    };

    hl.goToLabel = (code) => {
      const i = hl.code.indexOf(code);
      if (i >= 0) hl.showLabel(i);
      return i >= 0;
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
    host.addEventListener("too-many", () => { status.textContent = "Too many labels for one drawing; open single ones or search."; });
    hl.id("hierarchy-tools").append(search, ...tree.tools(), status);
    hl.id("hierarchy-tools").after(found);
    tree.closeDeep();
    tree.start();
    if (hl.roots.length) {
      tree.chosen = hl.roots[0];
      hl.id("hierarchy-panel").replaceChildren(...panel(hl.roots[0]));
      tree.render();
    }
  };
  hl.labelButton = item;
})();
