// Draws the charts, and hides an agent everywhere at once. Strings from runs reach the page as
// text nodes and attributes only, never as markup.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const hidden = new Set();
  const said = document.getElementById("said");
  const all = (query, root = document) => [...root.querySelectorAll(query)];

  // Elements

  const SVG = "http://www.w3.org/2000/svg";
  function filled(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }
  const el = (name, attributes = {}, ...children) => filled(document.createElement(name), attributes, children);
  const svg = (name, attributes = {}, ...children) => filled(document.createElementNS(SVG, name), attributes, children);
  const colour = (agent) => `c${data.looks[agent][0]}`;

  // Numbers

  function number(v) {
    if (v === null || v === undefined) return "–";
    const size = Math.abs(v);
    if (size !== 0 && size < 1e-3) return v.toExponential(2);
    if (size >= 1000) return v.toLocaleString("en-US", { maximumFractionDigits: 0 });
    return String(Number(v.toPrecision(4)));
  }
  function short(v) {
    const size = Math.abs(v);
    for (const [unit, sign] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
      if (size >= unit) return `${Number((v / unit).toPrecision(3))}${sign}`;
    return size !== 0 && size < 1e-3 ? v.toExponential(0) : String(Number(v.toPrecision(3)));
  }
  const whole = (v) => (Number.isInteger(v) ? v.toLocaleString("en-US") : number(v));

  // Scales: `to` from a value to a place between 0 and 1.

  function linear(low, high, count) {
    if (!(high > low)) [low, high] = [low - (Math.abs(low) || 1) / 2, low + (Math.abs(low) || 1) / 2];
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= 0.8 * rough);
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(i * step);
    return { to: (v) => (v - low) / (high - low), ticks };
  }
  function logarithmic(low, high) {
    const [a, b] = [Math.floor(Math.log10(low)), Math.max(Math.ceil(Math.log10(high)), Math.floor(Math.log10(low)) + 1)];
    const ticks = [];
    const every = Math.ceil((b - a) / 5);
    for (let i = a; i <= b; i += every) ticks.push(10 ** i);
    return { to: (v) => (v > 0 ? (Math.log10(v) - a) / (b - a) : 0), ticks };
  }
  // Linear around zero, logarithmic beyond `knee`, so that one game does not flatten all others.
  function signedLog(low, high, knee) {
    const bend = (v) => Math.sign(v) * Math.log10(1 + Math.abs(v) / knee);
    const [a, b] = [bend(low), bend(high)];
    const ticks = [0];
    for (let t = knee; bend(t) <= Math.max(b, -a); t *= 10) ticks.push(t, -t);
    return { to: (v) => (bend(v) - a) / (b - a || 1), ticks: ticks.filter((t) => t >= low && t <= high) };
  }

  // Line charts

  function extent(values) {
    let [low, high] = [Infinity, -Infinity];
    for (const v of values) {
      if (v === null) continue;
      if (v < low) low = v;
      if (v > high) high = v;
    }
    return low <= high ? [low, high] : [0, 1];
  }
  const shown = (chart) => chart.series.filter((s) => !hidden.has(s.agent));
  const label = (s) => data.agents[s.agent] + (s.name ? `, ${s.name}` : "");

  function frame(chart, width, height) {
    const series = shown(chart).length ? shown(chart) : chart.series;
    const [left, right] = extent(series.flatMap((s) => chart.grids[s.grid]));
    let [low, high] = extent(series.flatMap((s) => [...s.y, ...(s.low || []), ...(s.high || [])]));
    const padding = (high - low) * 0.04;
    const y = chart.scale === "log" ? logarithmic(low, high) : linear(low - padding, high + padding, height > 220 ? 5 : 3);
    const x = linear(left, right, Math.max(3, Math.floor(width / 110)));
    const words = y.ticks.map(short);
    const margin = { left: 12 + 6.4 * Math.max(...words.map((w) => w.length)), right: 12, top: 12, bottom: 34 };
    return {
      x, y, words, margin, width, height,
      px: (v) => margin.left + x.to(v) * (width - margin.left - margin.right),
      py: (v) => height - margin.bottom - y.to(v) * (height - margin.top - margin.bottom),
    };
  }
  function axes(f, chart) {
    const parts = [];
    const right = f.width - f.margin.right;
    const floor = f.height - f.margin.bottom;
    f.y.ticks.forEach((v, i) => {
      parts.push(svg("line", { class: "grid", x1: f.margin.left, x2: right, y1: f.py(v), y2: f.py(v) }));
      parts.push(svg("text", { x: f.margin.left - 6, y: f.py(v) + 4, "text-anchor": "end" }, f.words[i]));
    });
    for (const v of f.x.ticks) {
      parts.push(svg("line", { class: "axis", x1: f.px(v), x2: f.px(v), y1: floor, y2: floor + 4 }));
      parts.push(svg("text", { x: f.px(v), y: floor + 16, "text-anchor": "middle" }, short(v)));
    }
    parts.push(svg("line", { class: "axis", x1: f.margin.left, x2: right, y1: floor, y2: floor }));
    parts.push(svg("text", { x: right, y: f.height - 4, "text-anchor": "end" }, chart.x));
    return parts;
  }
  function points(f, xs, ys) {
    const found = [];
    xs.forEach((x, i) => {
      if (ys[i] !== null && ys[i] !== undefined) found.push(`${f.px(x).toFixed(1)},${f.py(ys[i]).toFixed(1)}`);
    });
    return found;
  }
  function lines(f, chart) {
    const bands = [], strokes = [];
    for (const s of shown(chart)) {
      const xs = chart.grids[s.grid];
      const line = points(f, xs, s.y);
      const c = colour(s.agent);
      if (s.low && line.length > 1)
        bands.push(svg("polygon", { class: `band ${c}`, points: [...points(f, xs, s.high), ...points(f, xs, s.low).reverse()].join(" ") }));
      if (line.length > 1)
        strokes.push(svg("polyline", { class: `line ${c} d${(s.dash + data.looks[s.agent][1]) % 4}`, points: line.join(" "), "data-agent": s.agent }));
      else if (line.length)
        strokes.push(svg("circle", { class: `dot ${c}`, cx: line[0].split(",")[0], cy: line[0].split(",")[1], r: 4 }));
    }
    return [...bands, ...strokes];
  }
  function inWords(chart) {
    const last = shown(chart).map((s) => `${label(s)} ${number(s.y.filter((v) => v !== null).at(-1))}`);
    const few = last.length > 12 ? [...last.slice(0, 12), `and ${last.length - 12} more`] : last;
    return `${chart.title}: ${chart.y} over ${chart.x}. At the end: ${few.join("; ") || "nothing shown"}. Arrow keys read values.`;
  }
  function drawLines(figure, chart) {
    const plot = figure.querySelector(".plot");
    const width = Math.max(plot.clientWidth, 200);
    const height = Math.max(plot.clientHeight, 170);
    const f = frame(chart, width, height);
    const over = svg("g");
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: 0, "aria-label": inWords(chart) },
      ...axes(f, chart), svg("g", { class: shown(chart).length > 6 ? "many" : "few" }, ...lines(f, chart)), over);
    plot.replaceChildren(picture);
    followed(picture, plot, chart, f, over);
  }

  // What a pointer or the arrow keys read off a chart

  function nearest(xs, x) {
    let [low, high] = [0, xs.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= x) low = middle; else high = middle;
    }
    return Math.abs(xs[high] - x) < Math.abs(xs[low] - x) ? high : low;
  }
  // The values at x: those of a line that has no point there are its nearest within one step.
  function valuesAt(chart, x) {
    return shown(chart).map((s) => {
      const xs = chart.grids[s.grid];
      const i = nearest(xs, x);
      const reach = xs.length > 1 ? Math.abs(xs[1] - xs[0]) : 0;
      const here = Math.abs(xs[i] - x) <= reach ? s.y[i] : null;
      return { s, i, x: xs[i], y: here ?? null, low: s.low?.[i], high: s.high?.[i] };
    });
  }
  function tip(chart, x, found) {
    const rows = found.flatMap(({ s, y, low, high }) => [
      el("dt", { class: colour(s.agent) }, el("span", { class: `swatch ${["", "dashed", "dotted", "dotted"][(s.dash + data.looks[s.agent][1]) % 4]}` }), ` ${label(s)}`),
      el("dd", {}, number(y)),
      el("dd", { class: "range" }, y !== null && low !== undefined && low !== null ? `${number(low)} to ${number(high)}` : ""),
    ]);
    return el("div", { class: "tip" }, el("b", {}, `${whole(x)} ${chart.x}`), el("dl", {}, ...rows));
  }
  function followed(picture, plot, chart, f, over) {
    const grid = [...new Set(shown(chart).flatMap((s) => chart.grids[s.grid]))].sort((a, b) => a - b);
    let at = -1;
    function leave() {
      at = -1;
      over.replaceChildren();
      plot.querySelector(".tip")?.remove();
    }
    function show(i) {
      leave();
      if (!grid.length) return [];
      at = i;
      const x = grid[i];
      const found = valuesAt(chart, x);
      over.append(svg("line", { class: "at", x1: f.px(x), x2: f.px(x), y1: f.margin.top, y2: f.height - f.margin.bottom }));
      for (const { s, x: own, y } of found)
        if (y !== null) over.append(svg("circle", { class: `dot ${colour(s.agent)}`, cx: f.px(own), cy: f.py(y), r: 4 }));
      const box = tip(chart, x, found);
      plot.append(box);
      placed(box, plot, f.px(x));
      return found;
    }
    function point(event) {
      const box = picture.getBoundingClientRect();
      const share = (event.clientX - box.left - f.margin.left) / (f.width - f.margin.left - f.margin.right);
      const [left, right] = extent(grid);
      if (grid.length) show(nearest(grid, left + share * (right - left)));
    }
    picture.addEventListener("pointermove", point);
    picture.addEventListener("pointerdown", point);
    picture.addEventListener("pointerleave", leave);
    picture.addEventListener("blur", leave);
    picture.addEventListener("keydown", (event) => {
      const moves = { ArrowRight: at + 1, ArrowLeft: at < 0 ? grid.length - 1 : at - 1, Home: 0, End: grid.length - 1 };
      if (event.key === "Escape") return leave();
      if (!(event.key in moves) || !grid.length) return;
      event.preventDefault();
      const i = Math.min(Math.max(moves[event.key], 0), grid.length - 1);
      said.textContent = `${whole(grid[i])} ${chart.x}: ` + show(i).map(({ s, y }) => `${label(s)} ${number(y)}`).join("; ");
    });
  }
  // Beside the place pointed at, inside the window.
  function placed(box, plot, x) {
    const around = plot.getBoundingClientRect();
    const edge = document.documentElement.clientWidth - 6;
    let left = x + 14;
    if (around.left + left + box.offsetWidth > edge) left = x - 14 - box.offsetWidth;
    box.style.left = `${Math.min(Math.max(left, 6 - around.left), edge - around.left - box.offsetWidth)}px`;
    box.style.top = "6px";
  }

  // Bars

  function drawBars(figure, chart) {
    const plot = figure.querySelector(".plot");
    const width = Math.max(plot.clientWidth, 240);
    const longest = Math.max(...chart.bars.map((b) => b.label.length));
    const names = Math.min(12 + 6.6 * longest, width * 0.38);
    const room = { left: names, right: 62, row: 19, top: 24 };
    const height = room.top + chart.bars.length * room.row + 6;
    const x = barScale(chart, width);
    const px = (v) => room.left + 8 + x.to(v) * (width - room.left - room.right - 8);
    const parts = [];
    for (const v of spaced(x.ticks, px)) {
      parts.push(svg("line", { class: v === 0 ? "axis" : "grid", x1: px(v), x2: px(v), y1: room.top - 4, y2: height - 4 }));
      parts.push(svg("text", { x: px(v), y: 12, "text-anchor": "middle" }, (v > 0 ? "+" : "") + short(v)));
    }
    chart.bars.forEach((b, i) => parts.push(...bar(b, room.top + i * room.row, px, names, colour(chart.agent), width)));
    plot.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": barsInWords(chart) }, ...parts));
  }
  // Zero and as many others as have room for their words.
  function spaced(ticks, px) {
    const kept = [];
    for (const v of [...ticks].sort((a, b) => Math.abs(a) - Math.abs(b)))
      if (kept.every((other) => Math.abs(px(other) - px(v)) > 38)) kept.push(v);
    return kept;
  }
  function barScale(chart, width) {
    const sizes = chart.bars.map((b) => Math.abs(b.value)).sort((a, b) => a - b);
    const [middle, largest] = [sizes[sizes.length >> 1] || 1, sizes.at(-1) || 1];
    // With few seeds intervals are far longer than bars: what leaves twice the bars' room is cut.
    const within = (v) => Math.min(Math.max(v, -2 * largest), 2 * largest);
    const [low, high] = extent([0, ...chart.bars.flatMap((b) => [b.value, b.low, b.high].filter((v) => v !== null).map(within))]);
    const scale = largest < 30 * middle ? linear(low, high, Math.max(3, width / 150)) : signedLog(low, high, 10 ** Math.round(Math.log10(middle)));
    return { ...scale, to: (v) => scale.to(Math.min(Math.max(v, low), high)) };
  }
  function bar(b, y, px, names, c, width) {
    const [from, to] = [px(Math.min(0, b.value)), px(Math.max(0, b.value))];
    const letters = Math.floor((names - 8) / 6.4);
    const name = b.label.length > letters ? `${b.label.slice(0, letters - 1)}…` : b.label;
    const parts = [
      svg("text", { class: "label", x: names, y: y + 13, "text-anchor": "end" }, name),
      svg("rect", { class: `${b.value >= 0 ? "up" : "down"} ${c}`, x: from, y: y + 3, width: Math.max(to - from, 1), height: 13 }),
      svg("text", { x: width - 2, y: y + 13, "text-anchor": "end" }, (b.value > 0 ? "+" : "") + number(b.value)),
    ];
    if (b.low !== null) parts.push(svg("line", { class: "whisker", x1: px(b.low), x2: px(b.high), y1: y + 9.5, y2: y + 9.5 }));
    const interval = b.low === null ? "" : ` (${number(b.low)} to ${number(b.high)})`;
    return [svg("g", {}, svg("title", {}, `${b.label}: ${number(b.value)}${interval}`), ...parts)];
  }
  function barsInWords(chart) {
    const better = chart.bars.filter((b) => b.value > 0).length;
    return `${chart.title}: better in ${better} of ${chart.bars.length}. The values are in the table below.`;
  }

  // The numbers behind a chart, made when they are asked for

  function table(head, rows, owners = []) {
    const of = (i) => (i && owners.length ? { "data-of": owners[i - 1] } : {});
    const cells = (row) => row.map((text, i) => el(i ? "td" : "th", i ? of(i) : { scope: "row" }, text));
    const made = el("table", {},
      el("thead", {}, el("tr", {}, ...head.map((text, i) => el("th", { scope: "col", ...of(i) }, text)))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...cells(row)))));
    hide(made);
    return el("div", { class: "box", tabindex: 0, role: "group", "aria-label": "values" }, made);
  }
  function ranged(y, low, high) {
    return y === null || low === undefined || low === null ? number(y) : `${number(y)} [${number(low)}, ${number(high)}]`;
  }
  function valuesOf(chart) {
    if (chart.bars) return table(["", chart.unit], chart.bars.map((b) => [b.label, ranged(b.value, b.low ?? undefined, b.high)]));
    const xs = [...new Set(chart.grids.flat())].sort((a, b) => a - b);
    const places = chart.series.map((s) => new Map(chart.grids[s.grid].map((x, i) => [x, i])));
    const rows = xs.map((x) => [whole(x), ...chart.series.map((s, k) => {
      const i = places[k].get(x);
      return i === undefined ? "–" : ranged(s.y[i], s.low?.[i], s.high?.[i]);
    })]);
    return table([chart.x, ...chart.series.map(label)], rows, chart.series.map((s) => s.agent));
  }

  // The page

  const drawn = new Map();
  function draw(figure) {
    const chart = data.charts[figure.dataset.chart];
    (chart.bars ? drawBars : drawLines)(figure, chart);
    drawn.set(figure, figure.clientWidth);
  }
  // Charts are drawn when they come near the window: there may be hundreds.
  const near = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) { draw(target); near.unobserve(target); }
    }
  }, { rootMargin: "600px" });
  const resized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (drawn.has(target) && target.clientWidth && Math.abs(target.clientWidth - drawn.get(target)) > 1) draw(target);
    }
  });
  function redraw(figure) {
    drawn.delete(figure);
    near.unobserve(figure);
    near.observe(figure);
  }
  for (const figure of all("figure[data-chart]")) {
    near.observe(figure);
    resized.observe(figure);
    const values = figure.querySelector("details.values");
    values?.addEventListener("toggle", () => {
      if (values.open && !values.querySelector("table")) values.append(valuesOf(data.charts[figure.dataset.chart]));
    });
  }
  window.addEventListener("beforeprint", () => all("figure[data-chart]").forEach(draw));

  function hide(root) {
    for (const node of all("[data-of]", root)) node.classList.toggle("off", node.dataset.of.split(" ").some((a) => hidden.has(Number(a))));
  }
  // Of pairs of agents, those with a hidden one cannot be chosen.
  function stillShown(select) {
    const gone = (choice) => all("figure[data-each]", document.getElementById(select.dataset.switches))
      .some((figure) => data.charts[`${figure.dataset.each}-${choice}`]?.of?.some((a) => hidden.has(a)));
    for (const option of select.options) option.disabled = gone(option.value);
    const other = [...select.options].find((option) => !option.disabled);
    if (!select.selectedOptions[0]?.disabled || !other) return;
    select.value = other.value;
    select.dispatchEvent(new Event("change"));
  }
  function toggle(agent) {
    if (!hidden.delete(agent)) hidden.add(agent);
    for (const button of all(".legend button[data-agent]")) button.setAttribute("aria-pressed", String(!hidden.has(Number(button.dataset.agent))));
    hide(document);
    for (const select of all("select[data-switches]")) stillShown(select);
    document.getElementById("everyone").classList.toggle("off", !hidden.size);
    all("figure[data-chart]").forEach(redraw);
  }
  for (const button of all(".legend button[data-agent]")) button.addEventListener("click", () => toggle(Number(button.dataset.agent)));
  document.getElementById("everyone")?.addEventListener("click", () => [...hidden].forEach(toggle));

  const find = document.getElementById("find");
  find?.addEventListener("input", () => {
    const words = find.value.trim().toLowerCase();
    for (const node of all("[data-group]")) node.classList.toggle("away", !node.dataset.group.toLowerCase().includes(words));
  });
  // One place for many charts: a select says which.
  function switched(figure, choice) {
    figure.dataset.chart = `${figure.dataset.each}-${choice}`;
    const chart = data.charts[figure.dataset.chart];
    figure.classList.toggle("away", !chart);
    if (!chart) return;
    if (chart.of) figure.dataset.of = chart.of.join(" ");
    hide(figure.parentNode);
    figure.querySelector("figcaption").firstChild.textContent = chart.title;
    figure.querySelector("details.values").open = false;
    figure.querySelector("details.values .box")?.remove();
    redraw(figure);
  }
  for (const select of all("select[data-switches]")) {
    select.addEventListener("change", () => all(`figure[data-each]`, document.getElementById(select.dataset.switches)).forEach((figure) => switched(figure, select.value)));
  }

  const theme = document.getElementById("theme");
  const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  function paint(chosen) {
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
    theme.textContent = dark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", `Switch to ${dark() ? "light" : "dark"} colours`);
  }
  try { paint(localStorage.getItem("emphatic-theme")); } catch { paint(); }
  theme.addEventListener("click", () => {
    paint(dark() ? "light" : "dark");
    try { localStorage.setItem("emphatic-theme", document.documentElement.dataset.theme); } catch { /* a page without storage */ }
  });
  document.documentElement.classList.add("ready");
})();
