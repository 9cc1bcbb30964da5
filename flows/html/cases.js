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
const ratios = readChanges();
const history = carried.history.points.map(([at, run, median_ns]) => ({
  id: at, kernel: cases[at].kernel, name: cases[at].name, panel: cases[at].panel, median_ns, at: carried.history.runs[run][1],
  change: ratios.get(`${at} ${run}`) ?? null,
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

// Changes for good, with their cases; and their ratios by case and run.
function readChanges() {
  const found = new Map();
  for (const [at, run, , ratio, low, high, changed] of carried.history.changes) {
    found.set(`${at} ${run}`, ratio);
    (cases[at].changes ??= []).push({ at: carried.history.runs[run][1], ratio, low, high, changed });
  }
  return found;
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
  return own || one.note;
}

function sortValue(one, key) {
  if (key === "median") return timing(one)?.median_ns ?? null;
  if (key === "notes") return notes(one) || null;
  return one[key];
}
