"use strict";
(() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // Doubtful labels, by the class they carry and the class that fits better.
  const form = document.getElementById("choose");
  form?.addEventListener("input", () => {
    const wanted = Object.fromEntries(new FormData(form));
    const words = wanted.words.toLowerCase();
    let count = 0;
    all(".suspect").forEach((card) => {
      card.hidden = (wanted.label && card.dataset.label !== wanted.label)
        || (wanted.likely && card.dataset.likely !== wanted.likely) || !card.textContent.toLowerCase().includes(words);
      count += card.hidden ? 0 : 1;
    });
    form.querySelector("output").textContent = count === 1 ? "1 image" : `${count} images`;
  });
  form?.addEventListener("submit", (event) => event.preventDefault());

  // What to do about each of them: kept in this browser until it is exported.
  const cards = all(".suspect").filter((card) => card.querySelector(".decide"));
  const store = document.querySelector(".suspects")?.dataset.store;
  let decisions = {};
  try { decisions = JSON.parse(localStorage.getItem(store)) || {}; } catch { /* private windows keep nothing */ }
  const tell = () => {
    const count = cards.filter((card) => decisions[card.dataset.file]).length;
    document.getElementById("decided").textContent = `${count} decided`;
    document.getElementById("export").disabled = count === 0;
    try { localStorage.setItem(store, JSON.stringify(decisions)); } catch { /* as above */ }
  };
  const mark = (card) => {
    const { decision, to } = decisions[card.dataset.file] || {};
    all("button", card).forEach((button) => button.setAttribute("aria-pressed", button.dataset.decision === decision));
    const input = card.querySelector("input");
    input.hidden = decision !== "relabel";
    if (to) input.value = to;
    card.classList.toggle("kept", decision === "keep");
    card.classList.toggle("removed", decision === "remove");
  };
  cards.forEach((card) => {
    const { file } = card.dataset, input = card.querySelector("input");
    all("button", card).forEach((button) => button.addEventListener("click", () => {
      const { decision } = button.dataset;
      if (decisions[file]?.decision === decision) delete decisions[file];
      else decisions[file] = { decision, to: decision === "relabel" ? input.value : "" };
      mark(card);
      tell();
      if (decision === "relabel" && !input.hidden && !input.value) input.focus();
    }));
    input.addEventListener("input", () => { decisions[file].to = input.value; tell(); });
    mark(card);
  });
  if (cards.length) tell();
  document.getElementById("export")?.addEventListener("click", () => {
    // a quote keeps a spreadsheet from taking a name for a formula
    const cell = (text) => `"${(/^[=+@\t\r-]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
    const rows = cards.filter((card) => decisions[card.dataset.file]).map(({ dataset }) => {
      const { decision, to } = decisions[dataset.file];
      return to || decision !== "relabel" ? [dataset.file, dataset.label, decision, to] : null;
    });
    const lines = [["file", "label", "decision", "new_label"], ...rows.filter(Boolean)];
    const text = lines.map((line) => line.map(cell).join(",")).join("\n") + "\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = "decisions.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
})();
