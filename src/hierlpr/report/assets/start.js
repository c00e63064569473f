/* Light or dark: as the system says, until the reader chooses. */
(() => {
  const button = hl.id("theme"), root = document.documentElement;
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const name = () => { button.textContent = isDark() ? "Light" : "Dark"; button.setAttribute("aria-label", isDark() ? "Show in light colours" : "Show in dark colours"); };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; name(); });
  button.hidden = false;
  name();
  for (const start of [hl.startLabels, hl.startSamples, hl.startTable, hl.startDiscoveries, hl.startCsv]) if (start) start();
})();
