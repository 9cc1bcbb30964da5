"""The page of the suite says what the kernels say, and is written anew when they change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kernels.catalogue import _quantity, page
from kernels.discovery import suite

PAGE = Path(__file__).resolve().parents[2] / "docs/suite.md"


def test_the_page_in_docs_is_that_of_the_suite():
    assert PAGE.read_text() == page(suite()), "docs/suite.md is stale: make docs"


def test_a_changed_size_changes_the_page():
    kernel = suite()["dense"]
    changed = replace(kernel, sizes={**kernel.sizes, "XL": {"n": 1, "d_in": 1, "d_out": 1}})
    assert page({"dense": changed}) != page({"dense": kernel})


def test_every_kernel_has_its_formula_sizes_and_frameworks():
    text = page(suite())
    for kernel in suite().values():
        section = text.partition(f"\n## {kernel.name}\n")[2].partition("\n## ")[0]
        assert kernel.summary in section
        assert all(f"| {label} |" in section for label in kernel.sizes)
        assert "frameworks: " in section


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1"), (999, "999"), (1000, "1 k"), (999_499, "999 k"), (999_500, "1 M"), (12_800_000, "12.8 M")],
)
def test_counts_are_written_with_three_digits(value, text):
    assert _quantity(value) == text
