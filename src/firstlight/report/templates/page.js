"use strict";
(() => {
  const root = document.documentElement;
  const plots = JSON.parse(document.getElementById("plots").textContent);
  const options = { responsive: true, displaylogo: false, displayModeBar: false };

  const themed = (layout) => {
    const ink = getComputedStyle(root).getPropertyValue("--ink").trim();
    return { ...layout, font: { ...layout.font, color: ink } };
  };
  const draw = () => plots.forEach((plot, index) =>
    Plotly.react(`plot${index}`, plot.data, themed(plot.layout), options));

  const setTheme = (name) => { root.dataset.theme = name; draw(); };
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () =>
    setTheme(root.dataset.theme === "dark" ? "light" : "dark"));

  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  document.querySelectorAll(".csv").forEach((button) => button.addEventListener("click", () => {
    const rows = [...button.parentElement.querySelectorAll("tr")].map((row) =>
      [...row.children].map((cell) => quoted(cell.textContent)).join(","));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([rows.join("\n") + "\n"], { type: "text/csv" }));
    link.download = button.dataset.name;
    link.click();
    URL.revokeObjectURL(link.href);
  }));
})();
