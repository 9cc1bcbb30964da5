// All of one case: beside the pointer, and in a dialog.

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
  for (const { at, ratio, low, high, changed } of one.changes ?? []) {
    box.append(element("p", {}, `since ${at.slice(0, 10)}: ${digits(ratio)} times as long (${digits(low)} to ${digits(high)}); changed: ${changed}`));
  }
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
