"""Kernels are found where they stand: in the suite, or in a file of a user's own."""

from __future__ import annotations

import textwrap

import pytest

from kernels.discovery import find, from_file, suite
from kernels.errors import UsageError

KERNEL = """
    from kernels.spec import Kernel, Tolerance, Work

    KERNEL = Kernel(
        name="halves",
        summary="x / 2",
        sizes={"S": {"n": 8}},
        dtypes=("float32",),
        inputs=lambda rng, dtype, n: (rng.random(n).astype(dtype),),
        work=lambda itemsize, n: Work(n, 2 * n * itemsize),
        tolerance={"float32": Tolerance(0, 0)},
        array=lambda xp, x: x / 2,
    )
"""


def write(path, text):
    path.write_text(textwrap.dedent(text))
    return str(path)


def test_the_suite_is_in_alphabetical_order_and_each_kernel_stands_in_the_file_of_its_name():
    assert list(suite()) == sorted(suite())
    assert {"dense", "double", "sincos", "total"} <= suite().keys()


def test_a_users_file_gives_its_kernels(tmp_path):
    path = write(tmp_path / "own.py", KERNEL)
    assert list(from_file(path)) == ["halves"]
    assert find("halves", path) is from_file(path)["halves"]
    assert find("dense", None) is suite()["dense"]


def test_a_kernel_may_go_by_two_names_in_its_file(tmp_path):
    assert list(from_file(write(tmp_path / "alias.py", KERNEL + "\n    ALIAS = KERNEL\n"))) == ["halves"]


def test_files_of_one_name_in_two_folders_are_two_modules(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = write(tmp_path / "a" / "own.py", KERNEL)
    other = write(tmp_path / "b" / "own.py", KERNEL.replace("halves", "other"))
    assert (list(from_file(one)), list(from_file(other))) == (["halves"], ["other"])


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("syntax.py", "KERNEL = (", r"syntax.py:1: SyntaxError"),
        ("raises.py", "import math\nmath.sqrt(-1)\n", r"raises.py:2: ValueError"),
        ("lacks.py", "import no_such_module\n", r"lacks.py:1: ModuleNotFoundError"),
        ("empty.py", "x = 1\n", r"no Kernel in it"),
        ("bad.py", KERNEL.replace("halves", "Halves"), r"bad.py: .*lower-case identifier"),
        ("long.py", "raise ValueError('two\\nlines')\n", r"long.py:1: ValueError: two lines"),
        ("exits.py", "raise SystemExit(3)\n", r"exits.py:1: SystemExit"),
        (
            "twice.py",
            KERNEL + "\n    from dataclasses import replace\n    OTHER = replace(KERNEL, summary='x')\n",
            r"two kernels are named halves",
        ),
    ],
)
def test_a_file_that_cannot_serve_is_one_line_that_says_where(tmp_path, name, text, words):
    path = write(tmp_path / name, text)
    with pytest.raises(UsageError, match=words) as error:
        from_file(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["none.py", "notes.txt", "folder"])
def test_what_is_no_python_file_is_said_so(tmp_path, name):
    (tmp_path / "notes.txt").write_text(textwrap.dedent(KERNEL))
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="no such Python file"):
        from_file(str(tmp_path / name))
