/* The table of labels: sortable, searchable, a page at a time. */
(() => {
  const { labels } = hl;
  const PAGE = 50;

  function cell(column, i) {
    if (column.head) return hl.el("th", { scope: "row" }, column.cell(i));
    if (column.cell) return hl.el("td", {}, column.cell(i));
    const value = column.value(i);
    if (column.words) return hl.el("td", { class: "wide small", text: value });
    const text = value === null ? "–" : column.text ? column.text(value) : hl.count(value);
    const mark = column.mark ? hl.el("span", { class: `dot ${column.mark(i)}`, "aria-hidden": "true" }) : null;
    return hl.el("td", { class: "n" }, mark, text);
  }

  function compare(column, isUp) {
    return (a, b) => {
      const x = column.value(a), y = column.value(b);
      if (x === null || y === null) return (x === null) - (y === null);
      const way = typeof x === "string" ? x.localeCompare(y) : x - y;
      return (isUp ? way : -way) || a - b;
    };
  }

  /* columns: title and value(i), with text(v), mark(i), cell(i), head, words. */
  hl.labelTable = (all, sorted, isUp) => {
    /* What is the same in every row is said once, above the table. */
    const isSame = (column) => column.value && !column.head && labels.name.length > 3 && labels.name.every((_, i) => column.value(i) === column.value(0));
    const written = (column) => column.value(0) === null ? "–" : column.text ? column.text(column.value(0)) : String(column.value(0));
    const columns = all.filter((column) => !isSame(column));
    const same = all.filter((column) => isSame(column)).map((column) => `${column.title} ${written(column)}`);
    if (same.length) hl.id("labels-tools").before(hl.el("p", { class: "small", id: "labels-same", text: `The same for all labels: ${same.join("; ")}.` }));
    if (!columns.includes(sorted)) sorted = columns[0];
    let shown = PAGE;
    const status = hl.el("span", { class: "small", role: "status" });
    const search = hl.el("input", { type: "search", id: "labels-search", placeholder: "Find labels", "aria-label": "Find labels in the table", autocomplete: "off" });
    const body = hl.el("tbody");
    const heads = columns.map((column) => {
      const sortable = Boolean(column.value);
      const head = hl.el("th", { scope: "col", class: column.value && !column.head && !column.words ? "n" : null });
      head.append(sortable ? hl.button(column.title.replace("-", "\u2011"), () => sort(column), { class: "sort" }) : column.title);
      return head;
    });
    const paper = hl.el("p", { class: "paper small" });
    const more = hl.button("Show more", () => { shown += 4 * PAGE; draw(); });

    function sort(column) {
      isUp = sorted === column ? !isUp : Boolean(column.head || column.words);
      sorted = column;
      shown = PAGE;
      draw();
    }

    function draw() {
      const words = hl.words(search.value);
      const found = labels.name.map((_, i) => i).filter((i) => hl.matches(labels.name[i], words)).sort(compare(sorted, isUp));
      body.replaceChildren(...found.slice(0, shown).map((i) => hl.el("tr", {}, ...columns.map((column) => cell(column, i)))));
      heads.forEach((head, k) => {
        if (columns[k] === sorted) head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
        else head.removeAttribute("aria-sort");
      });
      const n = Math.min(shown, found.length);
      status.textContent = n < found.length ? `${hl.count(n)} of ${hl.plural(found.length, "label")} shown` : `${hl.plural(found.length, "label")}`;
      more.hidden = n === found.length;
      paper.textContent = n < found.length ? `The first ${hl.count(n)} of ${hl.plural(found.length, "label")}; all are in the file that this was printed from.` : "";
    }

    search.addEventListener("input", () => { shown = PAGE; draw(); });
    const exported = all.filter((column) => column.value && !column.head);
    const named = hl.hasTitles ? ["label", "name"] : ["label"];
    const whose = (i) => hl.hasTitles ? [hl.code[i], hl.title(i)] : [hl.code[i]];
    const save = hl.csvButton("labels", () => [[...named, ...exported.map((column) => column.title)], ...labels.name.map((_, i) => [...whose(i), ...exported.map((column) => column.value(i))])]);
    hl.id("labels-tools").append(search, save, status);
    hl.id("labels-table").append(hl.el("table", { class: "labels" }, hl.el("thead", {}, hl.el("tr", {}, ...heads)), body));
    hl.id("labels-more").append(more);
    hl.id("labels-table").after(paper);
    draw();
  };
})();
