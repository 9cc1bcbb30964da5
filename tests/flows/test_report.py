"""The report of stored runs: what it says, what it is not led astray by, and what a browser makes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from flows.query import ask
from flows.report_data import gather
from flows.report_figure import has
from flows.report_figures import figures
from flows.report_page import page
from flows.storage import LocalRoot
from kernels.errors import UsageError
from kernels.progress import duration
from selfcheck.browser import CHROMIUM, chromium
from selfcheck.browser import opened as open_report
from tests.flows.conftest import Command
from tests.flows.reported import write_report_runs
from tests.flows.stored import write_run

CASES = 60


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("reported")
    write_report_runs(root, CASES, runs=2)
    return root


@pytest.fixture(scope="module")
def opened(stored: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, list[str]]]:
    """Open the report from disk, without a network."""
    if CHROMIUM is None:
        pytest.skip(
            "NO CHROMIUM ON PATH: the report's page was not opened; install chromium (Debian: apt-get install chromium)"
        )
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(page(gather(LocalRoot(stored)), "results"), encoding="utf-8")
    said: list[str] = []
    with chromium(CHROMIUM) as tab:
        tab.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on(
            "request",
            lambda request: said.append(request.url) if not request.url.startswith(("file:", "data:")) else None,
        )
        open_report(tab, file)
        tab.evaluate("window.report.drawn()")
        yield tab, said


def test_it_has_every_case_and_refers_to_nothing_outside(stored: Path) -> None:
    text = page(gather(LocalRoot(stored)), "results")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    assert len(json.loads(found[1])["timings"]) == CASES
    assert not re.search(r"""<[^>]+(src|href)=["']?https?:""", text)


def test_its_head_counts_the_compiled_cases_that_were_measured_and_no_others(stored: Path) -> None:
    modes = "'jit', 'njit', 'compile', 'script', 'function', 'xla'"
    asked = ask(LocalRoot(stored), f"select 1 from cases where status = 'ok' and mode in ({modes})", {})
    text = " ".join(page(gather(LocalRoot(stored)), "results").split())
    assert f"of {asked.table.num_rows} compiled cases." in text


def test_words_of_a_kernel_cannot_become_markup(stored: Path) -> None:
    text = page(gather(LocalRoot(stored)), "<script>alert(1)</script>")
    assert "<script>alert(1)" not in text
    assert "twofold <b>" not in text


def test_a_browser_opens_it_without_an_error_and_asks_no_network(opened: tuple[Any, list[str]]) -> None:
    tab, said = opened
    assert said == []
    assert tab.locator(".view svg, .view canvas").count() == tab.locator(".figure").count()


def test_numbers_on_the_page_are_those_of_the_results(opened: tuple[Any, list[str]], stored: Path) -> None:
    tab, _ = opened
    steady = ask(LocalRoot(stored), "from cases where steady_ns is not null", {}).table.to_pylist()
    rows = {
        row.split("\t")[0]: row for row in tab.locator("#table tbody tr").evaluate_all("r => r.map(x => x.innerText)")
    }
    assert len(rows) == CASES
    for case in steady:
        assert duration(case["steady_ns"]) in rows[case["case_id"]]


def test_filters_narrow_the_table_and_headings_sort_it(opened: tuple[Any, list[str]], stored: Path) -> None:
    tab, said = opened
    tab.select_option("select[name=framework]", "numpy")
    query = "from cases where framework = 'numpy' and steady_ns is not null order by steady_ns desc"
    wanted = [row["case_id"] for row in ask(LocalRoot(stored), query, {}).table.to_pylist()]
    heading = tab.locator("th[data-key=median]")
    heading.locator("button").click()
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    ids = tab.locator("#table tbody tr td:first-child").all_inner_texts()
    assert ids[: len(wanted)] == wanted
    tab.locator("button[type=reset]").click()
    tab.wait_for_function(f"document.querySelectorAll('#table tbody tr').length === {CASES}")
    assert said == []


def test_a_case_opens_by_keyboard_with_its_interval_and_samples(opened: tuple[Any, list[str]], stored: Path) -> None:
    tab, _ = opened
    steady = "from cases where steady_ns is not null and framework = 'jax' order by case_id limit 1"
    (case,) = ask(LocalRoot(stored), steady, {}).table.to_pylist()
    query = f"from latest where phase = 'steady' and case_id = '{case['case_id']}'"
    (row,) = ask(LocalRoot(stored), query, {}).table.to_pylist()
    name = tab.get_by_role("button", name=case["case_id"], exact=True).first
    name.focus()
    tab.keyboard.press("Enter")
    card = tab.locator("#card")
    text = card.inner_text()
    assert card.locator("h3").inner_text() == case["case_id"]
    assert duration(row["median_ns"]) in text
    low, high = (duration(row[end]).split()[0] for end in ("low_ns", "high_ns"))
    assert f"[{low}, {high}]" in text
    assert card.locator(".samples circle").count() == sum(map(len, row["samples"]))
    tab.keyboard.press("Escape")
    assert not card.is_visible()
    assert name.evaluate("button => button === document.activeElement")


def test_the_pointer_over_a_case_shows_its_card_and_leaves_with_it(opened: tuple[Any, list[str]]) -> None:
    tab, _ = opened
    name = tab.locator("#table tbody td:first-child button").first
    name.scroll_into_view_if_needed()
    name.hover()
    tip = tab.locator("#tip")
    assert tip.locator("h3").inner_text() == name.inner_text()
    tab.locator("h1").hover()
    assert not tip.is_visible()


def test_a_mark_of_a_figure_opens_its_case(opened: tuple[Any, list[str]]) -> None:
    tab, said = opened
    marks = tab.locator("#first-call .mark-symbol.role-mark path")
    tab.locator("#first-call").scroll_into_view_if_needed()
    tab.evaluate("window.report.drawn()")
    marks.last.click(force=True)
    assert tab.locator("#card").is_visible()
    assert tab.locator("#card .samples").count() == 1
    tab.get_by_role("button", name="Close").click()
    assert said == []


@pytest.mark.parametrize("direction", ["ascending", "descending"])
def test_flagged_and_failed_cases_stand_last_whichever_way_it_is_sorted(
    opened: tuple[Any, list[str]], stored: Path, direction: str
) -> None:
    tab, _ = opened
    query = "select case_id from latest where phase = 'steady' and status = 'ok' and len(flags) = 0"
    ranked = {row["case_id"] for row in ask(LocalRoot(stored), query, {}).table.to_pylist()}
    assert len(ranked) < CASES, "the runs have cases that are flagged or failed"
    heading = tab.locator("th[data-key=median]")
    tab.locator("th[data-key=case_id] button").click()
    for _ in range(1 + (direction == "descending")):
        heading.locator("button").focus()
        tab.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == direction
    assert tab.locator("th[aria-sort=none]").count() == tab.locator("#table th").count() - 1
    ids = tab.locator("#table tbody tr td:first-child").all_inner_texts()
    assert set(ids[: len(ranked)]) == ranked


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_page(opened: tuple[Any, list[str]], width: int, scheme: Any) -> None:
    tab, said = opened
    tab.emulate_media(color_scheme=scheme)
    tab.set_viewport_size({"width": width, "height": 900})
    tab.evaluate("window.report.drawn()")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert said == []
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper))) < 3 * 128) is (scheme == "dark")


def test_no_panel_is_cut_off_where_several_kernels_stand_side_by_side(
    opened: tuple[Any, list[str]], tmp_path: Path
) -> None:
    write_report_runs(tmp_path, runs=2, mode="numpy/eager")
    file = tmp_path / "report.html"
    file.write_text(page(gather(LocalRoot(tmp_path)), "results"), encoding="utf-8")
    tab = opened[0].context.new_page()
    tab.set_viewport_size({"width": 1280, "height": 900})
    open_report(tab, file)
    tab.evaluate("window.report.drawn()")
    for figure in ("scaling", "history"):
        assert tab.locator(f"#{figure} .view").evaluate("(view) => view.scrollWidth - view.clientWidth") <= 0
    tab.close()


def test_it_prints_with_every_figure_and_without_its_controls(opened: tuple[Any, list[str]]) -> None:
    tab, _ = opened
    tab.emulate_media(media="print", color_scheme="light")
    tab.set_viewport_size({"width": 780, "height": 1100})
    tab.evaluate("window.report.drawn()")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 780
    assert not tab.locator("nav").is_visible()
    assert not tab.locator("select[name=kernel]").is_visible()
    assert tab.locator(".view svg, .view canvas").count() == tab.locator(".figure").count()
    tab.emulate_media(media="screen")


def test_each_figure_is_drawn_as_svg_and_png_with_a_mark_for_each_case(
    stored: Path, tmp_path: Path, jitmatrix: Command
) -> None:
    ended = jitmatrix(
        "report", "--results", str(stored), "--to", str(tmp_path / "report.html"), "--figures", str(tmp_path / "drawn")
    )
    assert ended.returncode == 0, ended.stderr
    files = {path.name for path in (tmp_path / "drawn").iterdir()}
    data = gather(LocalRoot(stored)).cases
    names = {name.rpartition(".")[0] for name in files}
    assert files == {f"{name}.{ending}" for name in names for ending in ("svg", "png")}
    for figure in figures(data, [], "numpy/eager"):
        panels = {case["panel"] for case in data if has(case, figure.needs)} if figure.panels else {""}
        assert {f"{figure.key}-{panel}".strip("-") for panel in panels} <= names
    drawn = ElementTree.parse(tmp_path / "drawn" / "first-call.svg").getroot()
    marks = [each for each in drawn.iter() if "mark-symbol role-mark" in (each.get("class") or "")]
    assert sum(len(group) for group in marks) == sum(has(case, ("first_call_ns", "steady_ns")) for case in data)
    assert (tmp_path / "drawn" / "first-call.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_of_figures_that_cannot_be_written_is_one_line(
    stored: Path, tmp_path: Path, jitmatrix: Command
) -> None:
    (tmp_path / "taken").write_text("a file")
    ended = jitmatrix(
        "report", "--results", str(stored), "--to", str(tmp_path / "r.html"), "--figures", str(tmp_path / "taken")
    )
    assert ended.returncode == 2
    assert "--figures" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--run", "01"), "give more of the id"),
        (("--run", "nothing"), "no such run"),
        (("--since", "2999-01-01"), "no complete run began then or later"),
        (("--since", "soon"), "YYYY-MM-DD"),
        (("--since", "0d"), "7d"),
        (("--since", "7d"), "no complete run began then or later"),
        (("--run", "latest", "--since", "2025-01-01"), "give one of them"),
        (("--baseline", "jax"), "unknown baseline"),
        (("--to", "."), "--to .: it is no file"),
        (("--to", "/dev/null"), "--to /dev/null: it is no file"),
    ],
)
def test_what_cannot_be_reported_is_one_line(
    stored: Path, jitmatrix: Command, arguments: tuple[str, ...], words: str
) -> None:
    ended = jitmatrix("report", "--results", str(stored), *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert words in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_an_incomplete_run_and_an_empty_root_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no results yet"):
        gather(LocalRoot(tmp_path))
    cut = write_run(tmp_path, suspended=True)
    with pytest.raises(UsageError, match="incomplete"):
        gather(LocalRoot(tmp_path), [cut.id])
