"""A user's own kernels are measured like the suite's, and what is wrong with them is one line before anything runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import fields
from pathlib import Path

import pytest

from kernels import rules, starting, template, validation
from kernels.discovery import find, suite
from kernels.errors import UsageError
from kernels.frameworks import frameworks
from kernels.own import own
from kernels.reference import Reference
from kernels.selection import Filters, everything, select
from kernels.spec import Kernel

ROOT = Path(__file__).resolve().parents[2]

KERNEL = textwrap.dedent(
    """\
    import numpy as np
    from kernels.spec import Kernel, Tolerance, Work

    def inputs(rng, dtype, n):
        return (rng.random(n).astype(dtype),)

    def work(itemsize, n):
        return Work(n, 2 * n * itemsize)

    HALVES = Kernel(
        name="halves",
        summary="x / 2",
        sizes={"S": {"n": 64}, "M": {"n": 4096}},
        dtypes=("float32", "float64"),
        inputs=inputs,
        work=work,
        tolerance={"float32": Tolerance(0, 0), "float64": Tolerance(0, 0)},
        array=lambda xp, x: x / 2,
        differentiable=(0,),
    )
    """
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name, text=KERNEL):
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return name


def refusal(*kernels, **filters):
    with pytest.raises(UsageError) as error:
        select(everything(), Filters(kernels, **filters))
    message = str(error.value)
    assert "\n" not in message
    return message


def measured(*arguments):
    """Measure in NumPy at size S, in the folder of the test; gives the rows, the status and standard error."""
    command = [sys.executable, "-m", "kernels", "--framework", "numpy", "--rounds", "1", "--budget", "0.02", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode, done.stderr


@pytest.mark.parametrize("kernel", [*suite().values(), template.KERNEL], ids=lambda kernel: kernel.name)
def test_the_suite_is_held_against_the_same_rules(kernel):
    rules.check(kernel)


@pytest.mark.parametrize("kernel", suite().values(), ids=lambda kernel: kernel.name)
def test_a_description_says_all_that_a_kernel_is(kernel):
    described = own_description(kernel)
    functions = {"inputs", "work", "array", "reference", "implementations"}
    for field in fields(Kernel):
        here, there = getattr(kernel, field.name), getattr(described, field.name)
        if field.name not in functions:
            assert there == here, field.name
    assert list(described.implementations) == list(kernel.implementations)
    assert (described.array is None, described.reference is None) == (kernel.array is None, kernel.reference is None)
    for dims in kernel.sizes.values():
        assert described.work(8, **dims) == kernel.work(8, **dims)


def own_description(kernel):
    from kernels.own import _description

    # As it comes out of the other process.
    return _description(json.loads(json.dumps(validation.describe(kernel))))


def test_files_modules_and_kernels_of_the_suite_are_measured_in_one_run(here):
    write("a b/mine.py")
    write("pack/__init__.py", "")
    write("pack/thirds.py", "from .factor import NAME\n" + KERNEL.replace('"halves"', "NAME"))
    write("pack/factor.py", "NAME = 'thirds'\n")

    rows, status, said = measured(
        "--kernel", "double", "--kernel", "a b/mine.py", "--kernel", "pack.thirds:thirds", "--size", "S",
        "--dtype", "float32",
    )  # fmt: skip

    assert status == 0, said
    assert {row["case"]["kernel"]: row["case"]["source"] for row in rows} == {
        "double": None,
        "halves": str(here / "a b" / "mine.py"),
        "thirds": "pack.thirds",
    }
    assert {row["status"] for row in rows} == {"ok"}
    assert all((row["case"]["source_sha256"] is None) == (row["case"]["source"] is None) for row in rows)
    assert all("roofline_share" in row["facts"] for row in rows)


def test_a_kernel_of_a_file_is_chosen_by_its_name_or_its_attribute():
    write("mine.py", KERNEL + "\nfrom dataclasses import replace\nOTHER = replace(HALVES, name='other')\n")
    for name, kernel in (("halves", "halves"), ("HALVES", "halves"), ("OTHER", "other")):
        assert list(own(Reference.of(f"mine.py:{name}")).kernels) == [kernel]
    assert set(own(Reference.of("mine.py")).kernels) == {"halves", "other"}
    assert "unknown kernel 'hal' (mine.py): choose from halves, other, HALVES, OTHER" in refusal("mine.py:hal")


def test_own_kernels_alone_leave_those_of_the_matrix_out():
    write("mine.py")
    plan = select(everything(), Filters(("mine.py",), ("numpy",)))
    assert {case.kernel for case in plan.cases} == {"halves"}
    assert {(case.size, case.dtype) for case in plan.cases} >= {("S", "float32"), ("M", "float64")}


def test_who_plans_never_loads_the_file_and_learns_what_it_is_from_another_process(here):
    write("mine.py", f"open({str(here / 'loads')!r}, 'a').write('x')\nimport secrets\nMARK = secrets\n" + KERNEL)
    plan = select(everything(), Filters(("mine.py",), ("numpy",)))
    select(everything(), Filters(("mine.py",), ("numpy",)))

    assert Path("loads").read_text() == "x"
    assert not any(name.startswith("jitmatrix_own_") and hasattr(sys.modules[name], "MARK") for name in sys.modules)
    kernel = find("halves", plan.cases[0].source)
    assert kernel.work(4, n=64).nbytes == 512
    with pytest.raises(NotImplementedError):
        kernel.inputs(None, None, n=64)


def test_an_edited_file_is_read_again_and_another_hash_is_another_case():
    write("mine.py")
    (before, *_) = select(everything(), Filters(("mine.py",), ("numpy",))).cases
    write("mine.py", KERNEL.replace('"n": 64', '"n": 32'))
    (after, *_) = select(everything(), Filters(("mine.py",), ("numpy",))).cases
    assert before.id == after.id
    assert before.source_sha256 != after.source_sha256
    assert find("halves", after.source).sizes["S"] == {"n": 32}


def test_what_a_file_raises_in_a_case_is_told_with_its_line():
    write("mine.py", broken("return (rng", "assert n < 100, 'too many'\n    return (rng"))
    rows, status, _ = measured("--kernel", "mine.py", "--size", "M", "--dtype", "float32")
    assert status == 1
    assert [row["reason"] for row in rows] == ["mine.py:5: AssertionError: too many"]


def test_a_file_that_changes_during_a_run_fails_its_case_and_is_not_measured():
    # Its second loading, in the case's process, is the first after the plan; the edit is its own.
    edit = "import pathlib, sys\nif 'kernels.forkserver' in ' '.join(sys.orig_argv):\n    pathlib.Path(__file__)"
    write("mine.py", f"{edit}.open('a').write('# edited')\n" + KERNEL)
    rows, status, _ = measured("--kernel", "mine.py", "--size", "S", "--dtype", "float32")
    assert status == 1
    assert [row["status"] for row in rows] == ["failed"]
    assert "mine.py: was changed after the run had begun" in rows[0]["reason"]


def broken(old, new, text=KERNEL):
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("KERNEL = (\n", "mine.py:1: SyntaxError: '(' was never closed; mend that line"),
        (" x = 1\n", "mine.py:1: IndentationError"),
        ("import nowhere_to_be\n", "mine.py:1: ModuleNotFoundError: No module named 'nowhere_to_be'; install"),
        ("x = 1\nx / 0\n", "mine.py:2: ZeroDivisionError"),
        ("x = 1\n", "mine.py:1: no Kernel in it; define one"),
        ("raise SystemExit(3)\n", "mine.py:1: SystemExit: 3"),
        (broken('"halves"', '"Halves"'), "mine.py:10: kernel name 'Halves': use a lower-case identifier"),
        (KERNEL + KERNEL.replace("HALVES", "OTHER"), "mine.py:30: two kernels are named halves, HALVES and OTHER"),
        (broken("rng.random(n)", "rng.randon(n)"), "mine.py:5: kernel halves: inputs in float32 raised at size S, A"),
        (broken("(rng.random(n).astype(dtype),)", "rng.random(n).astype(dtype)"),
         "mine.py:4: kernel halves: inputs in float32 gives ndarray: give a tuple of NumPy arrays"),
        (broken("(rng.random(n).astype(dtype),)", "(1.0,)"), "mine.py:4: kernel halves: inputs in float32 gives float"),
        (broken("(rng.random(n).astype(dtype),)", "()"), "gives no array of float32"),
        (broken(".astype(dtype)", ""), "mine.py:4: kernel halves: inputs in float32 gives float64 at position 0: end"),
        (broken(".astype(dtype)", ".astype('int32')"), "gives no array of float32 but (int32): end with .astype"),
        (broken("rng.random(n)", "np.random.random(n)"), "gives other numbers for the same seed: draw from rng alone"),
        (broken("Work(n,", "Work(n - 64,"), "mine.py:8: kernel halves: at size S: work must be at least 1 operation"),
        (broken("Work(n,", "Work(-n,"), "mine.py:8: kernel halves: at size S: work must be at least 1 operation"),
        (broken("Work(n,", "Work(n / 2,"), "mine.py:7: kernel halves: work gives Work(operations=32.0, "),
        (broken("Work(n,", "Work(n // (n - 64),"), "mine.py:8: kernel halves: work raised at size S, ZeroDivis"),
        (broken("Work(n, 2 * n * itemsize)", "None"), "mine.py:7: kernel halves: work gives NoneType: give Work("),
        (broken("    array=", '    implementations={\n        "jx": None},\n    array='),
         "mine.py:19: kernel halves: unknown framework 'jx': choose from jax, "),
        (broken("    array=", '    implementations={"jax/jitt": None},\n    array='), "did you mean jax/jit?"),
        (broken("    array=", '    implementations={"jax": 3},\n    array='), "jax: 3 is no function that builds one"),
        (broken('    tolerance={"float32": Tolerance(0, 0), "float64": Tolerance(0, 0)},\n', ""),
         "mine.py:10: TypeError: Kernel.__init__() missing 1 required positional argument: 'tolerance'; jitmatrix"),
        (broken(', "float64": Tolerance(0, 0)', ""), "mine.py:10: kernel halves: sizes, dtypes and a tolerance"),
        (broken('"float64": Tolerance(0, 0)', '"float64": 0.1'), "mine.py:17: kernel halves: tolerance of float64 is"),
        (broken('{"n": 64}', '{"m": 64}'), "mine.py:4: kernel halves: inputs does not take the dimensions of size S"),
        (broken("work(itemsize, n)", "work(itemsize, n, m)"), "mine.py:7: kernel halves: work does not take the dim"),
        (broken('{"n": 64}', '{"n": 0}'), "mine.py:13: kernel halves: size S: give dimensions that are at least 1"),
        (broken('"S"', '"a/b"'), "mine.py:13: kernel halves: size 'a/b': use letters and digits"),
        (broken("x / 2,", "x.half,"), "mine.py:18: kernel halves: array raised in NumPy, on float64, AttributeError"),
        (broken("x / 2,", "None,"), "mine.py:18: kernel halves: array gives nothing, which cannot be compared"),
        (broken("differentiable=(0,)", "differentiable=(1,)"), "mine.py:19: kernel halves: differentiable names p"),
        (broken("differentiable=(0,)", "donates=(-1,)"), "mine.py:19: kernel halves: donates names position -1 of 1"),
        (broken("differentiable=(0,)", "differentiable=0"),
         "mine.py:10: kernel halves: differentiable is 0; give a tuple of positions"),
        (broken("differentiable=(0,)", 'donates=("x",)'), "mine.py:10: kernel halves: donates is ('x',); give a tuple"),
        (broken('"M": {"n": 4096}}', '"M": {"n": 4096}}.values()'), "mine.py:10: kernel halves: sizes is dict_values"),
        (broken('("float32", "float64")', '"float32"'), "mine.py:10: kernel halves: dtypes is 'float32'; give a tuple"),
        (broken("    array=", "    implementations=[3],\n    array="), "mine.py:10: kernel halves: implementations is"),
        (broken('name="halves"', "name=3"), "mine.py:10: kernel name 3: use a lower-case identifier"),
        (broken('summary="x / 2"', "summary=3"), "mine.py:10: kernel halves: summary is 3; give one line of text"),
        (broken('"float64")', '"float65")').replace('"float64": T', '"float65": T'), "mine.py:14: kernel halves: un"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_one_line_with_its_place_and_what_mends_it(text, says):
    path = Path(write("mine.py", text)).resolve()
    with pytest.raises(UsageError) as error:
        validation.examine(str(path), None)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\nx / 0\n", "mine.py:2: ZeroDivisionError: division by zero"),
        ("import os\nos._exit(3)\n", "mine.py: the process exited with status 3 while it was loaded"),
        ("import os\nos.abort()\n", "mine.py:2: the process died by SIGABRT while it was loaded"),
        (
            broken("(rng.random(n).astype(dtype),)", "type('T', (tuple,), {'__iter__': lambda _: 1 / 0})((1,))"),
            "mine.py:5: ZeroDivisionError: division by zero; it came up while the file was checked",
        ),
        (broken('"halves"', '"dense"'), "mine.py:10: a kernel of the suite is named dense too; rename yours"),
        (
            broken("    return (rng", "    exit(5)\n    return (rng"),
            "mine.py:5: kernel halves: inputs in float32 raised",
        ),
    ],
)
def test_a_file_that_ends_its_process_is_a_line_as_well(text, says):
    write("mine.py", text)
    assert says in refusal("mine.py", framework=("numpy",))


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        ("none.py", "--kernel none.py: no such file; jitmatrix new-kernel NAME writes one"),
        ("./folder", "--kernel ./folder: is a folder"),
        ("nowhere.mine:halves", "--kernel nowhere.mine: no module named nowhere here; stand in the folder"),
        ("kernels.nowhere:halves", "--kernel kernels.nowhere: no module named kernels.nowhere here"),
        ("json:halves", "no Kernel in it"),
        ("sys:halves", "--kernel sys: has no source file in Python"),
        ("broken.mine:halves", "--kernel broken.mine: its package does not load: ZeroDivisionError"),
        ("mine:", "give package.module:name"),
    ],
)
def test_what_cannot_be_found_says_where_it_was_looked_for(kernel, says):
    Path("folder").mkdir()
    write("broken/__init__.py", "1 / 0\n")
    assert says in refusal(kernel)


def test_a_size_that_a_file_does_not_have_is_refused_with_those_that_it_has():
    write("mine.py")
    assert "unknown size 'XL'" in (message := refusal("mine.py", size=("XL",)))
    assert message.endswith("choose from M, S")


def test_two_files_with_a_kernel_of_one_name_are_refused_with_both_places():
    assert refusal(write("a.py"), write("b.py", "\n" + KERNEL)) == (
        "a.py:10 and b.py:11: two kernels are named halves; rename one, or measure one at a time"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import time\ntime.sleep(600)\n", "mine.py:2: no end after 3 s while it was loaded"),
        (broken("    return (rng", "    while True: pass\n    return (rng"), "while its inputs were drawn in float32"),
    ],
)
def test_a_file_that_does_not_end_is_ended_and_its_line_is_told(text, says):
    write("mine.py", text)
    with pytest.raises(UsageError) as error:
        own(Reference.of("mine.py"), deadline_s=3)
    assert says in str(error.value)


def test_what_a_file_prints_and_leaves_running_does_no_harm():
    # The child of the file holds its standard output open.
    top = "import subprocess, threading, time\nprint('{}')\nsubprocess.Popen(['sleep', '60'])\n"
    write("mine.py", top + "threading.Thread(target=time.sleep, args=(60,)).start()\n" + KERNEL)
    assert list(own(Reference.of("mine.py"), deadline_s=50).kernels) == ["halves"]


def test_bad_input_is_one_line_and_status_2_and_nothing_is_measured():
    write("mine.py", broken("Work(n,", "Work(-n,"))
    rows, status, said = measured("--kernel", "mine.py")
    assert (rows, status, said.count("\n")) == ([], 2, 1)
    assert said.startswith("jitmatrix: mine.py:8: kernel halves: ")


def test_a_new_kernel_passes_at_once(here):
    file = starting.write("mine", Path())
    assert starting.reference(file) == "./mine.py"
    text = file.read_text()
    assert "template" not in text
    compile(text, "mine.py", "exec")
    kernel = own(Reference.of("./mine.py")).kernels["mine"]
    assert kernel.differentiable == (0, 1)

    named = [
        argument for name, adapter in frameworks().items() if adapter.installed() for argument in ("--framework", name)
    ]
    rows, status, said = measured(*named, "--kernel", "./mine.py", "--size", "S", "--dtype", "float64")
    assert status == 0, said
    by_framework = {row["case"]["framework"] for row in rows if row["status"] == "ok"}
    assert by_framework == set(named[1::2]) - {"python"}
    told = {flag for row in rows for flag in row["flags"]}
    assert told <= {"noisy", "contended", "throttled"}


@pytest.mark.parametrize("name", ["", "Mine", "my-kernel", "2d", "class", "dense", "json", "numpy", "a/b", "größe"])
def test_a_name_that_no_kernel_can_have_is_refused_and_nothing_is_written(here, name):
    with pytest.raises(UsageError, match="kernel name"):
        starting.write(name, Path())
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("name", ["work", "inputs", "np", "annotations", "range"])
def test_a_name_that_the_starting_file_uses_itself_is_refused(here, name):
    with pytest.raises(UsageError, match=f"kernel name '{name}': the starting file uses that name"):
        starting.write(name, Path())
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("name", ["kernels", "flows", "prefect", "jax", "jaxlib", "random", "pytest", "hypothesis"])
def test_a_name_that_would_hide_a_module_is_refused(here, name):
    with pytest.raises(UsageError, match=f"kernel name '{name}': a module that programs import"):
        starting.write(name, Path())
    assert list(here.iterdir()) == []


def test_what_stands_in_the_working_directory_is_hidden_by_nobody(here, monkeypatch):
    monkeypatch.syspath_prepend(str(here))
    write("elsewhere/x.py", "")
    starting.write("elsewhere", Path())
    with pytest.raises(UsageError, match="is there already"):
        starting.write("elsewhere", Path())


def test_nothing_is_overwritten_and_a_folder_must_be_there(here):
    write("mine.py", "precious\n")
    with pytest.raises(UsageError, match=r"mine.py: is there already"):
        starting.write("mine", here)
    assert Path("mine.py").read_text() == "precious\n"
    with pytest.raises(UsageError, match=r"cannot be written \(No such file or directory\)"):
        starting.write("other", here / "nowhere")
    assert starting.write("other", here / "named.py").read_text().startswith('"""other: ')
