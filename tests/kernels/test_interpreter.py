"""The run's own processes take their modules from this project, whatever the folder that the user stands in."""

from __future__ import annotations

import os

import pytest

from kernels import framework_check, interpreter, startup
from kernels.assignment import Assignment, Role
from kernels.case import Backend
from kernels.errors import UnavailableError
from kernels.isolation import Isolation
from kernels.measurement import Status
from kernels.variables import ROOT, environment


@pytest.fixture
def misleading(tmp_path, monkeypatch):
    """A folder of the user's whose modules carry the names of ours and of the standard library."""
    (tmp_path / "kernels").mkdir()
    for name in ("kernels/__init__.py", "random.py", "json.py"):
        (tmp_path / name).write_text("raise SystemExit('the module of the folder was taken')\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("misleading")
def test_a_case_is_measured_from_a_folder_with_modules_of_our_names(case_of, tiny):
    with Isolation() as isolation:
        outcome = isolation.run(Assignment(case_of("sincos", "numpy/eager"), Role.STEADY, tiny))
    assert (outcome.status, outcome.reason) == (Status.OK, None)


@pytest.mark.usefixtures("misleading")
def test_what_is_measured_of_the_machine_is_too():
    assert startup.measure("numpy", Backend.CPU, threads=1).parts["interpreter"] > 0
    assert framework_check.preloaded("numpy").ok
    script = "import json, kernels; print(json.dumps(kernels.__file__))"
    assert interpreter.told(["-c", script], environment(1), 60) == str(ROOT / "kernels/__init__.py")


def test_the_users_module_path_is_kept_behind_ours(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("/one", "/two")))
    assert environment(1)["PYTHONPATH"].split(os.pathsep) == [str(ROOT), "/one", "/two"]
    monkeypatch.delenv("PYTHONPATH")
    assert environment(1)["PYTHONPATH"] == str(ROOT)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("from kernels.errors import UnavailableError; raise UnavailableError('no device')", "no device"),
        ("raise SystemExit(3)", "the process exited with status 3 and said nothing"),
        ("import os; os.abort()", "the process died by SIGABRT and said nothing"),
        ("print('no number')", "it printed no JSON at its end"),
        ("pass", "it printed no JSON at its end"),
        ("import time; time.sleep(600)", "no end after 1 s"),
    ],
)
def test_what_an_interpreter_does_not_tell_has_a_reason_in_one_line(script, reason):
    with pytest.raises(UnavailableError) as raised:
        interpreter.told(["-c", script], environment(1), 1 if "sleep" in script else 60)
    assert str(raised.value) == reason
