// The table of cases: what may not be ranked stands last.

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
  row.append(element("td", { class: "notes" }, element("div", {}, notes(one))));
  return row;
}

function breakEven(one, number) {
  if (one.calls != null) return number(one.calls.toFixed(0), `[${one.calls_least.toFixed(0)}, ${one.calls_most.toFixed(0)}]`);
  return number((one.calls_note ?? "").startsWith("never") ? "never" : "");
}
