"use strict";
(() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // The ledger shows the claims that somebody asks for.
  const filter = document.getElementById("filter");
  const choose = () => {
    const { theme, verdict, words } = Object.fromEntries(new FormData(filter));
    const wanted = words.toLowerCase();
    let count = 0;
    all(".claim").forEach((claim) => {
      claim.hidden = (theme && claim.dataset.themeName !== theme) || (verdict && claim.dataset.verdict !== verdict)
        || !claim.textContent.toLowerCase().includes(wanted);
      count += claim.hidden ? 0 : 1;
    });
    all(".study, .theme").forEach((block) => { block.hidden = !block.querySelector(".claim:not([hidden])"); });
    filter.querySelector("output").textContent = count === 1 ? "1 claim" : `${count} claims`;
  };
  filter?.addEventListener("input", choose);
  filter?.addEventListener("submit", (event) => event.preventDefault());
})();
