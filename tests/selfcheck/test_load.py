"""The load is a script: equal for equal seeds, within its limits, and gone when it is no longer wanted."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from selfcheck.load import BURST_S, PAUSE_S, load, script

ROOT = Path(__file__).resolve().parents[2]


def first(seed, stream, processors, count=20):
    return list(itertools.islice(script(seed, stream, processors), count))


@given(st.integers(), st.integers(0, 63), st.lists(st.integers(0, 63), min_size=1, max_size=8, unique=True))
def test_a_seed_and_a_stream_give_one_script_within_the_limits(seed, stream, processors):
    bursts = first(seed, stream, processors)
    assert bursts == first(seed, stream, processors)
    assert bursts != first(seed, stream + 1, processors)
    for burst in bursts:
        assert burst.processor in processors
        assert BURST_S[0] <= burst.burn_s <= BURST_S[1]
        assert PAUSE_S[0] <= burst.pause_s <= PAUSE_S[1]


def children(pid):
    return {int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids, within_s=20.0):
    end = time.monotonic() + within_s
    while any(alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(alive(pid) for pid in pids)


def test_the_load_ends_with_the_block():
    before = children(os.getpid())
    with load(0):
        (root,) = children(os.getpid()) - before
        streams = children(root)
        assert streams
    assert gone([root, *streams])


def test_the_load_ends_with_a_parent_that_was_killed():
    code = "import sys, time\nfrom selfcheck.load import load\nwith load(0):\n    print(flush=True)\n    time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT) as parent:
        parent.stdout.readline()
        (root,) = children(parent.pid)
        streams = children(root)
        os.kill(parent.pid, signal.SIGKILL)
    assert gone([root, *streams])
