"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // Values under the pointer. Without a script the browser shows the titles of the marks, slowly and one pixel at a
  // time; here they become a tip for the nearest mark.
  const REACH = 24;
  const tip = document.body.appendChild(document.createElement("div"));
  tip.className = "tip";
  tip.hidden = true;
  const marks = (svg) => {
    all("title", svg).forEach((title) => { title.parentNode.dataset.tip = title.textContent; title.remove(); });
    return all(".trace:not(.off) [data-tip]", svg);
  };
  const nearest = (svg, x, y, across) => {
    let best = null, least = across ? Infinity : REACH;
    for (const mark of marks(svg)) {
      const box = mark.getBoundingClientRect();
      const aside = Math.max(box.left - x, 0, x - box.right), above = Math.max(box.top - y, 0, y - box.bottom);
      // where pictures belong to the points, the column decides and the height only between equals
      const distance = across ? aside + above / 1e4 : Math.hypot(aside, above);
      if (distance < least) [best, least] = [mark, distance];
    }
    return best;
  };
  const point = (svg, mark) => {
    all(".near", svg).forEach((one) => one.classList.remove("near"));
    tip.hidden = !mark;
    if (!mark) return;
    mark.classList.add("near");
    tip.textContent = mark.dataset.tip;
    const box = mark.getBoundingClientRect();
    const left = box.left + box.width / 2 - tip.offsetWidth / 2;
    tip.style.left = `${Math.max(4, Math.min(left, root.clientWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${box.top > tip.offsetHeight + 8 ? box.top - tip.offsetHeight - 6 : box.bottom + 6}px`;
  };

  // The picture of the component under the pointer, or of the one that has the focus.
  const look = (figure, number) => {
    const chosen = figure.querySelector(`.patches [data-point="${number}"]`);
    const box = figure.querySelector(".look");
    all(".patches .on", figure).forEach((patch) => patch.classList.remove("on"));
    if (!box) return;
    box.hidden = !chosen;
    if (!chosen) return;
    chosen.classList.add("on");
    box.querySelector(".patch").style.backgroundPosition = chosen.style.backgroundPosition;
    box.querySelector(".name").textContent = chosen.getAttribute("aria-label");
  };

  all(".plot svg.figure").forEach((svg) => {
    const figure = svg.closest("figure");
    const pictured = Boolean(figure.querySelector(".patches"));
    const follow = (event) => {
      const mark = nearest(svg, event.clientX, event.clientY, pictured);
      point(svg, mark);
      if (pictured) look(figure, mark?.dataset.point);
    };
    const leave = () => { point(svg, null); if (pictured) look(figure, -1); };
    svg.addEventListener("pointermove", follow);
    svg.addEventListener("pointerdown", follow);
    svg.addEventListener("pointerleave", leave);
    all(".patches .patch", figure).forEach((patch) => {
      const choose = () => {
        point(svg, marks(svg).find((mark) => mark.dataset.point === patch.dataset.point));
        look(figure, patch.dataset.point);
      };
      patch.addEventListener("focus", choose);
      patch.addEventListener("mouseenter", choose);
      patch.addEventListener("blur", leave);
      patch.addEventListener("mouseleave", leave);
    });
  });
  window.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  // The slider runs through training time: the groups that change are put in the place of those that stand there.
  all(".time").forEach((control) => {
    const figure = control.closest("figure");
    const svg = figure.querySelector("svg.figure");
    const moments = all("template.moment", figure);
    const group = (trace) => svg.querySelector(`.trace[data-trace="${trace}"]`);
    const parts = moments.map((moment) => all(".trace", moment.content));
    parts[parts.length - 1] = parts[0].map((part) => group(part.dataset.trace).cloneNode(true)); // as drawn
    const slider = control.querySelector("input");
    const play = control.querySelector(".play");
    let timer = null;
    const show = () => {
      const { label } = moments[slider.valueAsNumber].dataset;
      control.querySelector("output").textContent = label;
      slider.setAttribute("aria-valuetext", label);
      parts[slider.valueAsNumber].forEach((part) => {
        const old = group(part.dataset.trace), fresh = part.cloneNode(true);
        fresh.classList.toggle("off", old.classList.contains("off"));
        old.replaceWith(fresh);
      });
    };
    const stop = () => { clearInterval(timer); timer = null; play.textContent = "▶"; play.setAttribute("aria-label", "Play"); };
    slider.addEventListener("input", () => { stop(); show(); });
    play.addEventListener("click", () => {
      if (timer) return stop();
      if (slider.value === slider.max) slider.value = 0;
      play.textContent = "❚❚";
      play.setAttribute("aria-label", "Pause");
      show();
      timer = setInterval(() => {
        slider.value = slider.valueAsNumber + 1;
        show();
        if (slider.value === slider.max) stop();
      }, 350);
    });
  });

  all(".key button").forEach((button) => button.addEventListener("click", () => {
    const isShown = button.getAttribute("aria-pressed") === "true";
    button.setAttribute("aria-pressed", String(!isShown));
    button.dataset.traces.split(" ").forEach((trace) =>
      all(`.trace[data-trace="${trace}"]`, button.closest("figure")).forEach((g) => g.classList.toggle("off", isShown)));
  }));

  // A click on a heading sorts the rows by its column, a second one the other way round; what is unknown comes last.
  all(".sortable th button").forEach((button) => button.addEventListener("click", () => {
    const head = button.closest("th"), body = button.closest("table").tBodies[0];
    const sign = head.getAttribute("aria-sort") === "descending" ? 1 : -1;
    all("th", head.parentNode).forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
    const value = (row) => row.cells[head.cellIndex].dataset.value;
    const number = (text) => (text.trim() && Number.isFinite(Number(text)) ? Number(text) : null);
    [...body.rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)], [m, n] = [number(x), number(y)];
      if (!x || !y) return (x ? 0 : 1) - (y ? 0 : 1);
      return sign * (m !== null && n !== null ? m - n : x.localeCompare(y, undefined, { numeric: true }));
    }).forEach((row) => body.append(row));
  }));

  // A link to a section that is folded away opens it.
  const unfold = () => {
    const folded = document.getElementById(location.hash.slice(1))?.querySelector("details.section");
    if (folded) folded.open = true;
  };
  window.addEventListener("hashchange", unfold);
  unfold();

  // The theme follows the system until it is chosen; the choice outlives a reload where the browser allows it.
  const remembered = (() => { try { return sessionStorage.getItem("theme"); } catch { return null; } })();
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  if (remembered) root.dataset.theme = remembered;
  dark.addEventListener("change", () => { delete root.dataset.theme; });
  document.getElementById("theme").addEventListener("click", () => {
    const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    try { sessionStorage.setItem("theme", root.dataset.theme); } catch { /* private window */ }
  });

  // An unfinished page loads itself again, unless somebody is just using it.
  const pending = document.getElementById("pending");
  if (pending?.dataset.reload) {
    const pause = 1000 * Number(pending.dataset.reload);
    let touched = 0;
    ["pointerdown", "keydown", "input", "wheel"].forEach((kind) =>
      window.addEventListener(kind, () => { touched = Date.now(); }, { passive: true }));
    setInterval(() => { if (Date.now() - touched > pause) location.reload(); }, pause);
  }
})();
