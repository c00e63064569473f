/* Light or dark: as the system prefers, until the reader chooses. */
(() => {
  const button = hl.id("theme"), root = document.documentElement;
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const name = () => { button.textContent = isDark() ? "Light mode" : "Dark mode"; };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; name(); });
  button.hidden = false;
  name();
  for (const start of [hl.startLabels, hl.startSamples, hl.startTable, hl.startCurves, hl.startCsv]) start();
  /* Addresses such as #label=NAME and #sample=NAME. */
  const follow = () => {
    const [kind, name] = location.hash.slice(1).split(/=(.*)/s);
    const go = { label: hl.goToLabel, sample: hl.goToSample }[kind];
    if (!go || name === undefined) return;
    let text = name;
    try { text = decodeURIComponent(name); } catch { /* an address that was cut is taken as it is */ }
    if (go(text)) return;
    const missing = hl.id("missing");
    missing.textContent = `This page does not show the ${kind} “${text.slice(0, 80)}”.`;
    missing.hidden = false;
  };
  addEventListener("hashchange", follow);
  follow();
})();
