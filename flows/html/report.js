// All of the page together: what is drawn first, and what answers to the reader.

// On a small screen the open filters would lie over what a link leads to.
if (matchMedia("(max-width: 40rem)").matches) form.querySelector("details").open = false;
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
document.querySelector("main").addEventListener("click", (event) => {
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
window.report = { drawn: () => drawFigures(true), settled: () => drawFigures() };
