"use strict";
(() => {
  const root = document.documentElement;
  const plots = JSON.parse(document.getElementById("plots").textContent);
  const options = { displaylogo: false, displayModeBar: false };
  const moment = plots.map((plot) => (plot ? plot.frames.length - 1 : 0));
  const hidden = plots.map(() => new Set());
  const drawn = new Set();
  const element = (index) => document.getElementById(`plot${index}`);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // Lines no longer than the room there is, for axis titles and names.
  const wrapped = (text, letters) => {
    const lines = [""];
    for (const word of String(text).split(" ")) {
      const last = lines.length - 1;
      if (lines[last] && lines[last].length + word.length >= letters) lines.push(word);
      else lines[last] += (lines[last] ? " " : "") + word;
    }
    return lines.join("<br>");
  };
  const short = (text, letters) => (text.length > letters ? text.slice(0, letters - 1) + "…" : text);

  const layoutOf = (plot, width) => {
    const layout = structuredClone(plot.layout);
    const narrow = width < 520;
    layout.width = width;
    layout.font = { ...layout.font, size: narrow ? 11 : 13, color: getComputedStyle(document.body).color };
    if (narrow) layout.margin = { ...layout.margin, l: 40, r: 8, t: 12 };
    const room = { x: width / 7.5, y: (layout.height - 90) / 7 };
    for (const letter of ["x", "y"]) {
      const axis = layout[`${letter}axis`];
      if (axis.title?.text) axis.title = { text: wrapped(axis.title.text, room[letter]), standoff: 8 };
      const names = [...new Set(plot.data.flatMap((trace) => trace[letter] ?? []))];
      if (narrow && names.length && names.every((name) => typeof name === "string")) {
        axis.tickvals = names;
        axis.ticktext = names.map((name) => (letter === "y" ? wrapped(short(name, 40), 14) : short(name, 16)));
      }
    }
    return layout;
  };
  // Numbers in the cells while there is room for them, else a scale of the colours.
  const cells = (trace, narrow) => (narrow && trace.z[0].length > 7
    ? { texttemplate: "", showscale: true }
    : { textfont: { size: narrow ? 9 : 12 } });
  const dataOf = (plot, index, narrow) => plot.data.map((trace, i) => ({
    ...trace,
    ...(plot.frames.length ? plot.frames[moment[index]].data[i] : {}),
    visible: !hidden[index].has(i),
    ...(trace.type === "heatmap" ? cells(trace, narrow) : {}),
  }));
  const draw = (index) => {
    const plot = plots[index];
    const place = element(index);
    if (!plot?.data || !place) return;
    const width = place.clientWidth;
    if (!width) return;
    const layout = layoutOf(plot, width);
    if (place.closest("figure").querySelector(".patches")) layout.hovermode = "x";
    Plotly.react(place, dataOf(plot, index, width < 520), layout, options);
    if (!drawn.has(index)) watchPoints(index, place);
    drawn.add(index);
  };
  const redraw = () => drawn.forEach(draw);

  // Figures are drawn when they come near the screen: a page of a hundred opens at once.
  const near = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (!entry.isIntersecting) return;
    const index = Number(entry.target.id.slice(4));
    if (!drawn.has(index)) draw(index);
  }), { rootMargin: "600px" });

  // The picture of the component under the pointer, or of the one that has the focus.
  const look = (index, point) => {
    const figure = document.getElementById(`f${index + 1}`);
    const chosen = figure.querySelector(`.patches [data-point="${point}"]`);
    const box = figure.querySelector(".look");
    all(".patches .on", figure).forEach((patch) => patch.classList.remove("on"));
    box.hidden = !chosen;
    if (!chosen) return;
    chosen.classList.add("on");
    box.querySelector(".patch").style.backgroundPosition = chosen.style.backgroundPosition;
    box.querySelector(".name").textContent = chosen.getAttribute("aria-label");
  };
  const watchPoints = (index, place) => {
    const figure = place.closest("figure");
    if (!figure.querySelector(".patches")) return;
    place.on("plotly_hover", (event) => look(index, Math.round(event.points[0].x) - 1));
    place.on("plotly_unhover", () => look(index, -1));
    all(".patches .patch", figure).forEach((patch) => {
      const point = Number(patch.dataset.point);
      const shown = plots[index].data.findIndex((trace) => trace.name);
      const choose = () => {
        Plotly.Fx.hover(place, [{ curveNumber: shown, pointNumber: point }]);
        look(index, point);
      };
      patch.addEventListener("focus", choose);
      patch.addEventListener("mouseenter", choose);
      patch.addEventListener("mouseleave", () => { Plotly.Fx.unhover(place); look(index, -1); });
    });
  };

  // The slider runs through training time, in a plot or in pictures.
  all(".time").forEach((control) => {
    const index = Number(control.dataset.plot);
    const slider = control.querySelector("input");
    const play = control.querySelector(".play");
    let timer = null;
    const show = () => {
      const frame = plots[index].frames[slider.valueAsNumber];
      moment[index] = slider.valueAsNumber;
      control.querySelector("output").textContent = frame.label;
      slider.setAttribute("aria-valuetext", frame.label);
      const picture = document.querySelector(`#picture${index} image`);
      if (!picture) return draw(index);
      const last = plots[index].frames.at(-1).first ?? (plots[index].frames.at(-1).first = picture.getAttribute("href"));
      picture.setAttribute("href", frame.data[0].source ?? last);
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
    const index = Number(button.dataset.plot);
    const isShown = button.getAttribute("aria-pressed") === "true";
    button.setAttribute("aria-pressed", String(!isShown));
    button.dataset.traces.split(" ").map(Number).forEach((trace) =>
      isShown ? hidden[index].add(trace) : hidden[index].delete(trace));
    draw(index);
  }));

  // The theme follows the system until it is chosen; the choice outlives a reload where the browser allows it.
  const remembered = (() => { try { return sessionStorage.getItem("theme"); } catch { return null; } })();
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const setTheme = (name) => { root.dataset.theme = name; redraw(); };
  if (remembered) root.dataset.theme = remembered;
  dark.addEventListener("change", () => { delete root.dataset.theme; redraw(); });
  document.getElementById("theme").addEventListener("click", () => {
    const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
    setTheme(now === "dark" ? "light" : "dark");
    try { sessionStorage.setItem("theme", root.dataset.theme); } catch { /* private window */ }
  });

  let waiting = null;
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(redraw, 150); });
  let before = null;
  window.addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    plots.forEach((_, index) => draw(index));
  });
  window.addEventListener("afterprint", () => {
    if (before) setTheme(before); else { delete root.dataset.theme; redraw(); }
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

  all(".plot").forEach((place) => near.observe(place));
})();
