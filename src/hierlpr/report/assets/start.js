/* Light or dark: as the system prefers, until the reader chooses. */
(() => {
  const button = hl.id("theme"), root = document.documentElement;
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const name = () => { button.textContent = isDark() ? "Light mode" : "Dark mode"; };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; name(); });
  button.hidden = false;
  name();
  for (const start of [hl.startLabels, hl.startSamples, hl.startTable, hl.startCsv]) start();
})();
