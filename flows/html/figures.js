// The figures: drawn where they come into sight.

const dark = matchMedia("(prefers-color-scheme: dark)");
const visible = new Set();
let queue = Promise.resolve();

function specification(figure, width) {
  let text = JSON.stringify(figure.spec);
  if (dark.matches) for (const [light, other] of Object.entries(carried.dark)) text = text.replaceAll(light, other);
  // The page has one legend for all, beside which only the colours of speed-ups need one.
  const spec = JSON.parse(text.replaceAll('"legend":{"title":null}', '"legend":null'));
  if (figure.least > width) spec.width = figure.least;
  if (figure.column) {
    spec.columns = Math.max(1, Math.floor(width / figure.column));
    if (typeof spec.spec.width === "number") spec.spec.width = Math.max(120, Math.floor(width / spec.columns) - 78);
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
  if (figure.spec.data?.name !== "history") return shown.map(({ phases, changes, ...one }) => one);
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
