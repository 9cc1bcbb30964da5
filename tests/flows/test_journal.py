"""The journal of a run: what was measured is on disk when its turn is over, whatever ends the process."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.journal import Journal, place, unfinished
from kernels.assignment import Role
from kernels.case import Backend, Case
from kernels.errors import UsageError
from kernels.guards import Finding, Flag
from kernels.measurement import Outcome, Reading, Status
from kernels.phase import Phase
from kernels.schedule import Turn

ROOT = Path(__file__).resolve().parents[2]
CASE = Case("dense", "jax", "jit", "S", "float32")
HEAD = {"run_id": "a", "plan_hash": "b"}

readings = st.builds(
    Reading,
    st.sampled_from(Phase),
    st.lists(st.integers(0, 2**62), max_size=4).map(tuple),
    st.integers(1, 2**20),
    st.dictionaries(st.sampled_from(["traces", "compiles"]), st.integers(0, 9)),
    st.none() | st.integers(0, 2**62),
    st.dictionaries(st.sampled_from(["import", "device"]), st.integers(0, 2**62)),
)
findings = st.builds(Finding, st.sampled_from(Flag), st.text(), st.lists(st.sampled_from(Phase), max_size=2).map(tuple))
outcomes = st.builds(
    Outcome,
    st.sampled_from(Role),
    st.sampled_from(Status),
    st.none() | st.text(),
    st.lists(readings, max_size=3),
    st.lists(findings, max_size=2),
    st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text() | st.floats(0, 1)),
    st.none() | st.text(),
    st.text(),
    st.none() | st.integers(0, 2**62),
    st.integers(0, 2**62),
)


@settings(max_examples=60, deadline=None)
@given(outcome=outcomes)
def test_an_outcome_comes_back_from_the_journal_as_it_was(outcome, tmp_path_factory):
    path = place(tmp_path_factory.mktemp("root"), "run")
    with Journal(path, HEAD) as journal:
        journal.turn(Turn(CASE, 3), [outcome, outcome])
    with Journal(path) as journal:
        assert journal.story.turns == {Turn(CASE, 3): outcome.status is not Status.OK}
        assert journal.story.head == HEAD
        assert journal.take(CASE) == {3: [outcome, outcome]}
        assert journal.take(CASE) == {}


def test_what_a_run_has_written_itself_is_read_back_round_by_round(tmp_path):
    with Journal(place(tmp_path, "run"), HEAD) as journal:
        for number in (0, 1, 2):
            journal.turn(Turn(CASE, number), [Outcome(Role.STEADY, Status.OK, wall_ns=number)])
        found = journal.take(CASE)
    assert {number: outcome.wall_ns for number, (outcome,) in found.items()} == {0: 0, 1: 1, 2: 2}


def test_a_value_that_is_not_finite_comes_back_as_it_was(tmp_path):
    with Journal(place(tmp_path, "run"), HEAD) as journal:
        journal.turn(Turn(CASE, 0), [Outcome(Role.STEADY, facts={"cpu_share": float("inf")})])
        (outcome,) = journal.take(CASE)[0]
    assert outcome.facts == {"cpu_share": float("inf")}


def test_it_tells_the_machine_and_the_files(tmp_path):
    path = place(tmp_path, "run")
    reading = Reading(Phase.STARTUP, (5,), 1, {"compiles": 1}, parts={"import": 3})
    with Journal(path, HEAD) as journal:
        journal.machine(Backend.CPU, {"backend": "cpu", "copy_bytes_per_s": 1e9}, {"jax": reading})
        journal.file("timings/a.parquet", ["x", "y"])
        journal.file("timings/b.parquet", ["z"])
        journal.retracted(["timings/a.parquet"])
    with Journal(path) as journal:
        story = journal.story
    assert story.rooflines == {Backend.CPU: {"backend": "cpu", "copy_bytes_per_s": 1e9}}
    assert story.startups == {Backend.CPU: {"jax": reading}}
    assert story.files == {"timings/b.parquet": ["z"]}


def filled(path: Path) -> tuple[bytes, list[int]]:
    """A journal of three turns: its bytes, and where each line ends."""
    with Journal(path, HEAD) as journal:
        for number in range(3):
            journal.turn(Turn(CASE, number), [Outcome(Role.STEADY, Status.OK)])
    content = path.read_bytes()
    return content, [at + 1 for at, byte in enumerate(content) if byte == 10]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_line_that_was_cut_off_never_was_and_the_next_one_is_written_after_the_last_whole_one(data, tmp_path_factory):
    path = place(tmp_path_factory.mktemp("root"), "run")
    content, ends = filled(path)
    length = data.draw(st.integers(ends[0], len(content)))
    path.write_bytes(content[:length])
    whole = sum(end <= length for end in ends) - 1
    with Journal(path) as journal:
        assert len(journal.story.turns) == whole
        journal.turn(Turn(CASE, 9), [Outcome(Role.STEADY)])
    with Journal(path) as journal:
        assert [turn.round for turn in journal.story.turns] == [*range(whole), 9]


def test_a_full_disk_loses_no_line_that_was_there(tmp_path):
    path = place(tmp_path, "run")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with Journal(path, HEAD) as journal:
        journal.turn(Turn(CASE, 0), [Outcome(Role.STEADY)])
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 50, before[1]))
            with pytest.raises(OSError):
                journal.turn(Turn(CASE, 1), [Outcome(Role.STEADY)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)
        journal.turn(Turn(CASE, 2), [Outcome(Role.STEADY)])
    with Journal(path) as journal:
        assert [turn.round for turn in journal.story.turns] == [0, 2]


def test_a_run_that_is_still_going_is_not_gone_on_with(tmp_path):
    path = place(tmp_path, "run")
    code = (
        "import sys; from pathlib import Path; from flows.journal import Journal\n"
        "with Journal(Path(sys.argv[1]), {'run_id': 'a'}): print('open', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(UsageError, match="still going"):
            Journal(path)
        other.kill()
    Journal(path).__exit__(None, None, None)


def test_a_run_that_is_not_there_is_named_with_those_that_are(tmp_path):
    with Journal(place(tmp_path, "there"), HEAD):
        pass
    assert unfinished(tmp_path) == ["there"]
    with pytest.raises(UsageError, match=r"--resume gone: no unfinished run .* unfinished there: there"):
        Journal(place(tmp_path, "gone"))


@pytest.mark.parametrize("line", [b"{}\n", b"no json\n", b'{"kind": "other"}\n', b'{"kind": "turn", "round": 1}\n'])
def test_a_foreign_line_is_named_by_its_number(line, tmp_path):
    path = place(tmp_path, "run")
    content, _ = filled(path)
    path.write_bytes(content + line)
    with pytest.raises(UsageError, match="line 5: no line of a journal"):
        Journal(path)


def test_an_empty_journal_is_told_from_a_run(tmp_path):
    path = place(tmp_path, "run")
    path.parent.mkdir()
    path.write_bytes(b"")
    with pytest.raises(UsageError, match="start the run anew"):
        Journal(path)


def test_it_is_gone_once_all_is_stored(tmp_path):
    with Journal(place(tmp_path, "run"), HEAD) as journal:
        journal.remove()
    assert unfinished(tmp_path) == []
