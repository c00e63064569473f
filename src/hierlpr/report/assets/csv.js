/* Every table as a CSV file with plain numbers, created in the page: nothing is sent anywhere. */
(() => {
  /* Text that a spreadsheet would take for a formula stays text. */
  const safe = (text) => /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
  const cell = (value) => {
    const text = safe(String(value ?? ""));
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  hl.csv = (rows) => rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";

  /* rows: a function that returns the rows. */
  hl.csvButton = (name, rows) => hl.button("CSV", () => {
    const url = URL.createObjectURL(new Blob(["\ufeff", hl.csv(rows())], { type: "text/csv" }));
    const link = hl.el("a", { href: url, download: `${name}.csv` });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }, { class: "quiet csv", "aria-label": `CSV: ${name}` });

  const texts = (table) => Array.from(table.rows).map((row) =>
    Array.from(row.cells).flatMap((c) => [c.dataset.value ?? c.textContent.trim(), ...Array(c.colSpan - 1).fill("")]));

  /* The tables that are part of the HTML. */
  hl.startCsv = () => {
    for (const host of document.querySelectorAll("[data-csv]")) {
      host.after(hl.el("p", { class: "save" }, hl.csvButton(host.dataset.csv, () => texts(host.querySelector("table")))));
    }
  };
})();
