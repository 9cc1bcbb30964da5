"""Kernels are found where they stand: in the suite, or in a file of a user's own."""

from __future__ import annotations

import textwrap

import pytest

from kernels.discovery import find, suite
from kernels.errors import UsageError
from kernels.loading import check_unchanged, load
from kernels.reference import Reference, is_own

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
    assert list(load(path).kernels) == ["halves"]
    assert find("halves", path) is load(path).kernels["halves"]
    assert find("dense", None) is suite()["dense"]


def test_a_kernel_may_go_by_two_names_in_its_file(tmp_path):
    assert list(load(write(tmp_path / "alias.py", KERNEL + "\n    ALIAS = KERNEL\n")).kernels) == ["halves"]


def test_files_of_one_name_in_two_folders_are_two_modules(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = write(tmp_path / "a" / "own.py", KERNEL)
    other = write(tmp_path / "b" / "own.py", KERNEL.replace("halves", "other"))
    assert (list(load(one).kernels), list(load(other).kernels)) == (["halves"], ["other"])


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("syntax.py", "KERNEL = (", r"syntax.py:1: SyntaxError"),
        ("raises.py", "import math\nmath.sqrt(-1)\n", r"raises.py:2: ValueError"),
        ("lacks.py", "import no_such_module\n", r"lacks.py:1: ModuleNotFoundError"),
        ("empty.py", "x = 1\n", r"empty.py:1: no Kernel in it"),
        ("bad.py", KERNEL.replace("halves", "Halves"), r"bad.py:4: .*lower-case identifier"),
        ("long.py", "raise ValueError('two\\nlines')\n", r"long.py:1: ValueError: two lines"),
        ("exits.py", "raise SystemExit(3)\n", r"exits.py:1: SystemExit"),
        (
            "twice.py",
            KERNEL + "\n    from dataclasses import replace\n    OTHER = replace(KERNEL, summary='x')\n",
            r"twice.py:16: two kernels are named halves, KERNEL and OTHER",
        ),
    ],
)
def test_a_file_that_cannot_serve_is_one_line_that_says_where(tmp_path, name, text, words):
    path = write(tmp_path / name, text)
    with pytest.raises(UsageError, match=words) as error:
        load(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none.py", "no such file"),
        ("./none", "no such file"),
        ("./notes.txt", "no Python file"),
        ("./folder", "is a folder"),
        ("pack.age.py/", "no such file"),
    ],
)
def test_a_path_that_is_no_python_file_is_said_so(tmp_path, monkeypatch, name, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text(textwrap.dedent(KERNEL))
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match=words) as error:
        Reference.of(name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", [":", "a:", ":b", "a b:c", "a.:c", "a:b:c", "a:b-c"])
def test_what_is_neither_a_path_nor_a_module_and_a_name_is_said_so(text):
    with pytest.raises(UsageError, match=r"give package\.module:name"):
        Reference.of(text)


def test_a_path_ends_in_py_or_holds_a_slash_and_a_module_has_a_colon(tmp_path):
    assert [is_own(text) for text in ("dense", "mine.py", "./mine", "mine:halves")] == [False, True, True, True]
    path = write(tmp_path / "own.py", KERNEL)
    assert Reference.of(path) == Reference(path, path, None)
    assert Reference.of(f"{path}:halves") == Reference(f"{path}:halves", path, "halves")
    assert Reference.of("a.b:halves") == Reference("a.b:halves", "a.b", "halves")


def test_a_file_imports_its_neighbours_as_a_script_and_as_a_package_does(tmp_path):
    package = tmp_path / "pack" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    (package / "near.py").write_text("NAME = 'halves'\n")
    (package.parent / "far.py").write_text("LABEL = 'S'\n")
    top = "from .near import NAME\nfrom ..far import LABEL\nimport near\nimport pack.far\nassert near.NAME == NAME\n"
    path = write(package / "own.py", top + textwrap.dedent(KERNEL).replace('"halves"', "NAME").replace('"S"', "LABEL"))
    assert list(load(path).kernels["halves"].sizes) == ["S"]


def test_a_file_outside_a_package_may_import_its_neighbours_relatively(tmp_path):
    (tmp_path / "beside.py").write_text("NAME = 'halves'\n")
    text = "from .beside import NAME\n" + textwrap.dedent(KERNEL).replace('"halves"', "NAME")
    assert list(load(write(tmp_path / "own.py", text)).kernels) == ["halves"]


def test_a_neighbour_hides_no_module_of_pythons_own(tmp_path):
    (tmp_path / "random.py").write_text("raise RuntimeError('taken for random')\n")
    path = write(tmp_path / "own.py", "import random\nrandom.random()\n" + textwrap.dedent(KERNEL))
    assert list(load(path).kernels) == ["halves"]


def test_a_neighbour_that_is_hidden_is_named(tmp_path):
    (tmp_path / "statistics.py").write_text("HALF = 2\n")
    path = write(tmp_path / "own.py", "from statistics import HALF\n" + textwrap.dedent(KERNEL))
    with pytest.raises(UsageError, match=r"own.py:1: ImportError: .*rename statistics.py beside it"):
        load(path)


def test_an_edit_within_the_same_second_is_seen(tmp_path):
    file = tmp_path / "own.py"
    path = write(file, KERNEL)
    sha256 = load(path).sha256
    check_unchanged(path, sha256)
    write(file, KERNEL.replace("x / 2", "x / 4"))
    load.cache_clear()
    assert load(path).kernels["halves"].array(None, 8.0) == 2.0
    with pytest.raises(UsageError, match=r"own.py: was changed after the run had begun"):
        check_unchanged(path, sha256)


def test_a_kernel_of_the_suite_that_a_file_imports_is_not_the_files_own(tmp_path):
    top = "from kernels.suite.dense import KERNEL as DENSE\n"
    assert list(load(write(tmp_path / "own.py", top + textwrap.dedent(KERNEL))).kernels) == ["halves"]
