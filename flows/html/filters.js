// Filters: which cases are shown, and the address that remembers them.

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
