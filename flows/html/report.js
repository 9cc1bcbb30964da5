// The page of a report: one list of cases, narrowed by the filters, behind the table and every figure.

const carried = JSON.parse(document.getElementById("data").textContent);
const PHASE = "steady";
const ROWS = 100;
const SVG_CASES = 600;
const FILTERS = ["kernel", "framework", "size", "dtype", "backend", "machine"];
const COLUMNS = [
  { key: "case_id", title: "case" },
  { key: "median", title: "", number: true },
  { key: "first_call_ns", title: "first call", number: true },
  { key: "compile_ns", title: "compile", number: true },
  { key: "times", title: `× ${carried.baseline}`, number: true },
  { key: "calls", title: "break-even", number: true },
  { key: "roofline_share", title: "of roofline", number: true },
  { key: "spread", title: "spread", number: true },
  { key: "notes", title: "notes" },
];
const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

const cases = readCases();
const history = carried.history.points.map(([at, run, median_ns]) => ({
  id: at, kernel: cases[at].kernel, name: cases[at].name, panel: cases[at].panel, median_ns, at: carried.history.runs[run][1],
}));
const form = document.getElementById("filters");
const table = document.getElementById("table");
const tip = document.getElementById("tip");
const dialog = document.getElementById("card");
const state = { sort: "case_id", descending: false, all: false };
const views = new Map();
let shown = cases;

function readCases() {
  const names = Object.keys(carried.columns);
  const columns = names.map((name) => {
    const { words, codes, values } = carried.columns[name];
    return codes ? codes.map((code) => words[code]) : values;
  });
  return columns[0].map((_, id) => {
    const found = { id };
    names.forEach((name, at) => { found[name] = columns[at][id]; });
    found.phases = new Map(carried.timings[id].map((values) => {
      const row = Object.fromEntries(carried.timing.map((name, at) => [name, values[at]]));
      return [row.phase, row];
    }));
    return found;
  });
}

// --- numbers, as the terminal writes them

function digits(value) {
  return value >= 99.95 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}

function durations(ns, ...others) {
  const [scale, unit] = UNITS.find(([each]) => ns >= 0.9995 * each) ?? UNITS.at(-1);
  return [`${digits(ns / scale)} ${unit}`, ...others.map((other) => digits(other / scale))];
}

function bounded(ns, low, high) {
  const [value, least, most] = durations(ns, low ?? ns, high ?? ns);
  return { value, interval: low == null || high == null ? "" : `[${least}, ${most}]` };
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value != null) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// --- what a case says in the phase that is looked at

function timing(one) {
  return one.phases.get(form.elements.phase.value);
}

function ranked(one) {
  const row = timing(one);
  return one.status === "ok" && row != null && row.median_ns != null && row.note === "";
}

function notes(one) {
  if (one.status !== "ok") return one.note;
  const phase = form.elements.phase.value;
  const row = timing(one);
  const own = row == null ? `no ${phase.replace("_", " ")}` : row.note;
  return [own, ...(one.note && own !== one.note ? [one.note] : [])].filter(Boolean).join("; ");
}

function sortValue(one, key) {
  if (key === "median") return timing(one)?.median_ns ?? null;
  if (key === "notes") return notes(one) || null;
  return one[key];
}

// --- filters

function fillFilters() {
  for (const name of FILTERS) {
    const values = [...new Set(cases.map((one) => one[name]))].filter((value) => value != null);
    if (name !== "size") values.sort();
    const options = values.map((value) => new Option(value, value));
    if (name === "framework") {
      options.splice(0, options.length, ...values.flatMap((framework) => {
        const modes = [...new Set(cases.filter((one) => one.framework === framework).map((one) => one.name))].sort();
        return [new Option(framework, framework), ...(modes.length > 1 ? modes.map((mode) => new Option(`  ${mode}`, mode)) : [])];
      }));
    }
    const select = form.elements[name];
    select.append(new Option("all", ""), ...options);
    select.closest("label").hidden = options.length < 2;
  }
  const phases = [...new Set(cases.flatMap((one) => [...one.phases.keys()]))];
  const wanted = phases.includes(PHASE) ? PHASE : phases[0];
  form.elements.phase.append(...phases.map((phase) => new Option(phase.replace("_", " "), phase, phase === wanted, phase === wanted)));
}

function matches(one, words) {
  for (const name of FILTERS) {
    const value = form.elements[name].value;
    if (value === "") continue;
    if (name === "framework" ? one.framework !== value && one.name !== value : String(one[name]) !== value) return false;
  }
  if (form.elements.trusted.checked && !ranked(one)) return false;
  if (words.length === 0) return true;
  const text = `${one.case_id} ${one.note}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

function update() {
  const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
  shown = cases.filter((one) => matches(one, words));
  document.getElementById("count").textContent = `${shown.length} of ${cases.length} cases`;
  remember();
  drawTable();
  markLargest();
  for (const view of views.values()) view.stale = true;
  drawFigures();
}

function remember() {
  const kept = new URLSearchParams();
  for (const field of form.elements) {
    const value = field.type === "checkbox" ? (field.checked ? "yes" : "") : field.value;
    if (field.name && value && !(field.name === "phase" && value === PHASE)) kept.set(field.name, value);
  }
  if (state.sort !== "case_id" || state.descending) kept.set("sort", `${state.descending ? "-" : ""}${state.sort}`);
  const hash = kept.toString();
  if (hash || location.hash.includes("=")) window.history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
}

function recall() {
  if (!location.hash.includes("=")) return;
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    const field = form.elements[name];
    if (name === "sort" && COLUMNS.some(({ key }) => key === value.replace(/^-/, ""))) {
      state.sort = value.replace(/^-/, "");
      state.descending = value.startsWith("-");
    } else if (field?.type === "checkbox") field.checked = true;
    else if (field?.tagName === "INPUT" || [...(field?.options ?? [])].some((option) => option.value === value)) field.value = value;
  }
}

// --- the table

function headTable() {
  const row = table.tHead.rows[0];
  for (const column of COLUMNS) {
    const button = element("button", { type: "button" }, column.title);
    const cell = element("th", { scope: "col", class: column.number ? "number" : null, "data-key": column.key }, button);
    button.addEventListener("click", () => {
      state.descending = state.sort === column.key && !state.descending;
      state.sort = column.key;
      remember();
      drawTable();
    });
    row.append(cell);
  }
}

function sorted() {
  const { sort, descending } = state;
  const place = (one) => (ranked(one) ? 0 : 1);
  const keyed = shown.map((one) => ({ one, place: place(one), value: sortValue(one, sort) }));
  keyed.sort((a, b) => {
    // By name everything keeps its place; by a number, what has no rank or no number stands last in either direction.
    if (sort !== "case_id" && sort !== "notes" && a.place !== b.place) return a.place - b.place;
    if (a.value == null || b.value == null) return (a.value == null) - (b.value == null) || a.one.id - b.one.id;
    const order = typeof a.value === "string" ? (sort === "case_id" ? a.one.id - b.one.id : a.value.localeCompare(b.value)) : a.value - b.value;
    return (descending ? -order : order) || a.one.id - b.one.id;
  });
  return keyed.map(({ one }) => one);
}

function drawTable() {
  for (const cell of table.tHead.rows[0].cells) {
    const direction = state.descending ? "descending" : "ascending";
    cell.setAttribute("aria-sort", cell.dataset.key === state.sort ? direction : "none");
    if (cell.dataset.key === "median") cell.firstChild.textContent = `${form.elements.phase.value.replace("_", " ")} [95 %]`;
  }
  const rows = sorted();
  const visible = state.all ? rows : rows.slice(0, ROWS);
  table.tBodies[0].replaceChildren(...visible.map(tableRow));
  const more = document.getElementById("more");
  more.hidden = rows.length <= ROWS;
  more.textContent = state.all ? `Show the first ${ROWS}` : `Show all ${rows.length} cases`;
}

function tableRow(one) {
  const row = element("tr", { class: ranked(one) ? null : "unranked", "data-id": one.id });
  const number = (text, extra) => element("td", { class: "number" }, text, ...(extra ? [" ", element("span", { class: "interval" }, extra)] : []));
  row.append(element("td", {}, element("button", { type: "button", class: "link" }, one.case_id)));
  const found = timing(one);
  if (found?.median_ns == null) row.append(number(""));
  else {
    const { value, interval } = bounded(found.median_ns, found.low_ns, found.high_ns);
    row.append(number(value, interval));
  }
  row.append(number(one.first_call_ns == null ? "" : durations(one.first_call_ns)[0]));
  row.append(number(one.compile_ns == null ? "" : durations(one.compile_ns)[0]));
  row.append(number(one.times == null ? "" : `${digits(one.times)}×`));
  row.append(breakEven(one, number));
  row.append(number(one.roofline_share == null ? "" : `${digits(100 * one.roofline_share)} %`));
  row.append(number(one.spread == null ? "" : digits(one.spread)));
  row.append(element("td", { class: "notes" }, notes(one)));
  return row;
}

function breakEven(one, number) {
  if (one.calls != null) return number(one.calls.toFixed(0), `[${one.calls_least.toFixed(0)}, ${one.calls_most.toFixed(0)}]`);
  return number((one.calls_note ?? "").startsWith("never") ? "never" : "");
}

// --- all of one case: beside the pointer, and in a dialog

function card(one) {
  const box = element("div", { class: "card" });
  box.append(element("h3", { id: "card-title" }, one.case_id));
  if (one.note) box.append(element("p", { class: "left-out" }, one.note));
  const rows = [...one.phases.values()].filter((row) => row.median_ns != null);
  if (rows.length) {
    const body = element("tbody");
    for (const row of rows) {
      const { value, interval } = bounded(row.median_ns, row.low_ns, row.high_ns);
      const cells = [value, interval, durations(row.min_ns)[0], `${row.count} in ${row.rounds}`];
      body.append(element("tr", {}, element("th", { scope: "row" }, row.phase.replace("_", " ")), ...cells.map((text) => element("td", { class: "number" }, text))));
    }
    const head = ["phase", "median", "95 %", "least", "samples in processes"];
    const titles = head.map((text, at) => element("th", { scope: "col", class: at ? "number" : null }, text));
    box.append(element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...titles)), body)));
  }
  const words = [];
  if (one.times != null) words.push(`${digits(one.times)}× ${carried.baseline} (${digits(one.times_least)} to ${digits(one.times_most)})`);
  if (one.calls != null) words.push(`pays after ${one.calls.toFixed(0)} calls against ${one.against}`);
  else if (one.calls_note) words.push(`break-even: ${one.calls_note}`);
  if (one.compile_in_calls != null) words.push(`compiling takes as long as ${digits(one.compile_in_calls)} calls`);
  if (one.exponent != null) words.push(`over the sizes its time grows as work to the power ${digits(one.exponent)}`);
  if (words.length) box.append(element("p", {}, `${words.join("; ")}.`));
  const chosen = [timing(one), one.phases.get(PHASE)].find((row) => row?.samples);
  if (chosen) box.append(strip(chosen));
  box.append(element("p", { class: "note" }, `run ${one.run_id}, sizes ${one.dims ?? "not known"}`));
  return box;
}

// Samples of a phase, a line for each process, over the 95 % interval.
function strip(row) {
  const all = row.samples.flat();
  const [low, high] = [Math.min(...all, row.low_ns ?? Infinity), Math.max(...all, row.high_ns ?? 0)];
  const [width, step, left] = [400, 11, 4];
  const x = (ns) => left + (high > low ? (ns - low) / (high - low) : 0.5) * (width - 2 * left);
  const height = step * row.samples.length + 16;
  const make = (tag, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text) made.textContent = text;
    return made;
  };
  const shown = all.length < row.count ? `${all.length} of ${row.count} samples` : `${row.count} samples`;
  const picture = make("svg", { class: "samples", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${row.phase}: ${shown}, ${durations(low)[0]} to ${durations(high)[0]}` });
  const bottom = step * row.samples.length;
  if (row.low_ns != null) picture.append(make("rect", { x: x(row.low_ns), y: 0, width: Math.max(1, x(row.high_ns) - x(row.low_ns)), height: bottom }));
  picture.append(make("line", { x1: x(row.median_ns), x2: x(row.median_ns), y1: 0, y2: bottom }));
  row.samples.forEach((samples, round) => {
    for (const ns of samples) picture.append(make("circle", { cx: x(ns).toFixed(1), cy: step * (round + 0.5), r: 2.2 }));
  });
  picture.append(make("text", { x: left, y: height - 3 }, durations(low)[0]));
  picture.append(make("text", { x: width / 2, y: height - 3, "text-anchor": "middle" }, `${row.phase.replace("_", " ")}: ${shown}, a line a process`));
  picture.append(make("text", { x: width - left, y: height - 3, "text-anchor": "end" }, durations(high)[0]));
  return picture;
}

function open(one) {
  hideTip();
  dialog.lastElementChild.replaceChildren(card(one));
  dialog.showModal();
}

function showTip(one, event) {
  if (tip.dataset.id !== String(one.id) || tip.hidden) {
    tip.dataset.id = one.id;
    tip.replaceChildren(card(one));
    tip.querySelector("h3").removeAttribute("id");
  }
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const right = event.clientX + 16 + width > innerWidth ? event.clientX - 16 - width : event.clientX + 16;
  const below = event.clientY + 16 + height > innerHeight ? innerHeight - height - 8 : event.clientY + 16;
  tip.style.left = `${Math.max(4, right)}px`;
  tip.style.top = `${Math.max(4, below)}px`;
}

function hideTip() {
  tip.hidden = true;
}

// --- figures

const dark = matchMedia("(prefers-color-scheme: dark)");
const visible = new Set();
let queue = Promise.resolve();

function specification(figure, width) {
  let text = JSON.stringify(figure.spec);
  if (dark.matches) for (const [light, other] of Object.entries(carried.dark)) text = text.replaceAll(light, other);
  // The page has one legend for all, beside which only the colours of speed-ups need one.
  const spec = JSON.parse(text.replaceAll('"legend":{"title":null}', '"legend":null'));
  if (figure.column) {
    spec.columns = Math.max(1, Math.floor(width / figure.column));
    if (typeof spec.spec.width === "number") spec.spec.width = Math.max(120, Math.floor(width / spec.columns) - 62);
  }
  return spec;
}

function panelOf(figure) {
  const select = document.querySelector(`#${figure.key} .panels select`);
  const count = new Map();
  for (const one of shown) if (figure.needs.every((name) => one[name] > 0)) count.set(one.panel, (count.get(one.panel) ?? 0) + 1);
  const panels = [...count.keys()].sort();
  const most = panels.reduce((best, panel) => (best == null || count.get(panel) > count.get(best) ? panel : best), null);
  const chosen = panels.includes(select.value) ? select.value : most;
  select.replaceChildren(...panels.map((panel) => new Option(panel, panel, false, panel === chosen)));
  return chosen ?? "";
}

function markLargest() {
  const largest = new Map();
  for (const one of shown) {
    const key = `${one.kernel}\n${one.panel}`;
    if (one.steady_ns != null) largest.set(key, Math.max(largest.get(key) ?? 0, one.extent));
  }
  for (const one of cases) one.largest = one.extent === largest.get(`${one.kernel}\n${one.panel}`);
}

function rowsOf(figure) {
  if (figure.spec.data?.name !== "history") return shown.map(({ phases, ...one }) => one);
  const ids = new Set(shown.map((one) => one.id));
  return history.filter((point) => ids.has(point.id)).map((point) => ({ ...point, largest: cases[point.id].largest }));
}

async function draw(figure) {
  const known = views.get(figure.key);
  const section = document.getElementById(figure.key);
  const place = section.querySelector(".view");
  const width = place.clientWidth;
  if (known && !known.stale && known.width === width && known.dark === dark.matches) return;
  const there = shown.filter((one) => figure.needs.every((name) => one[name] > 0)).length;
  section.querySelector(".left-out").textContent = there < shown.length ? `${shown.length - there} of ${shown.length} cases have no such number.` : "";
  const name = figure.spec.data?.name ?? "cases";
  const panel = figure.panels ? panelOf(figure) : null;
  if (known && !figure.column && known.width === width && known.dark === dark.matches) {
    await known.view.data(name, rowsOf(figure)).runAsync();
    known.stale = false;
    return;
  }
  const config = structuredClone(carried.themes[dark.matches ? "dark" : "light"]);
  config.background = "transparent";
  Object.assign(config.legend, { orient: "top", direction: "horizontal" });
  const spec = specification(figure, width);
  spec.datasets = { [name]: rowsOf(figure) };
  if (figure.panels) spec.params = [{ name: "panel", value: panel }];
  known?.finalize();
  const made = await window.vegaEmbed(place, spec, {
    config, actions: false, renderer: shown.length <= SVG_CASES ? "svg" : "canvas", tooltip: (_, event, item, value) => {
      if (value == null || item?.datum?.id == null) hideTip();
      else showTip(cases[item.datum.id], event);
    },
  });
  made.view.addEventListener("click", (_, item) => { if (item?.datum?.id != null) open(cases[item.datum.id]); });
  views.set(figure.key, { view: made.view, finalize: () => made.finalize(), stale: false, width, dark: dark.matches });
}

function drawFigures(every = false) {
  for (const figure of carried.figures) {
    if (every || visible.has(figure.key)) queue = queue.then(() => draw(figure)).catch((error) => console.error(figure.key, error));
  }
  return queue;
}

function drawLegend() {
  const shapes = { circle: "M0-5A5 5 0 1 1 0 5A5 5 0 1 1 0-5", square: "M-4.5-4.5H4.5V4.5H-4.5Z", diamond: "M0-6L4.5 0L0 6L-4.5 0Z", "triangle-up": "M0-5.5L5.5 4.5H-5.5Z", cross: "M-2-6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z" };
  for (const svg of document.querySelectorAll("#legend svg")) {
    const { colour, shape } = svg.dataset;
    svg.innerHTML = `<path d="${shapes[shape]}" fill="${dark.matches ? (carried.dark[colour] ?? colour) : colour}"/>`;
  }
}

// --- and all of it together

fillFilters();
recall();
headTable();
drawLegend();
const watch = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) isIntersecting ? visible.add(target.id) : visible.delete(target.id);
  drawFigures();
}, { rootMargin: "300px" });
for (const figure of carried.figures) watch.observe(document.getElementById(figure.key));
update();

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", update);
form.addEventListener("reset", () => setTimeout(update));
document.getElementById("more").addEventListener("click", () => { state.all = !state.all; drawTable(); });
table.addEventListener("click", (event) => {
  const row = event.target.closest("tbody button") && event.target.closest("tr");
  if (row) open(cases[row.dataset.id]);
});
table.addEventListener("mousemove", (event) => {
  const row = event.target.closest("td:first-child button") && event.target.closest("tr");
  if (row) showTip(cases[row.dataset.id], event);
  else hideTip();
});
table.addEventListener("mouseleave", hideTip);
document.getElementById("trouble").addEventListener("click", (event) => {
  const { case: id } = event.target.dataset;
  const found = id && cases.find((one) => one.case_id === id);
  if (found) open(found);
});
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
document.addEventListener("scroll", hideTip, { passive: true });
for (const select of document.querySelectorAll(".panels select")) {
  select.addEventListener("change", () => {
    const key = select.closest("section").id;
    if (views.has(key)) views.get(key).stale = true;
    drawFigures();
  });
}
dark.addEventListener("change", () => { drawLegend(); drawFigures(); });
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(drawFigures, 150); });
// A printer gets what nobody has scrolled to yet.
addEventListener("beforeprint", () => drawFigures(true));
window.report = { drawn: () => drawFigures(true) };
