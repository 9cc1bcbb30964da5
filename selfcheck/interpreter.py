"""The peer of the fork server: a plain interpreter for every assignment, which imports and then does the same."""

from __future__ import annotations

import json
import subprocess
import sys
import time

from kernels import machine
from kernels.assignment import Assignment
from kernels.measurement import Outcome, Reading, Status
from kernels.variables import environment

_CHILD = """
import json, sys
from kernels.assignment import Assignment
from kernels.procedure import perform
perform(Assignment.from_json(json.load(sys.stdin)), lambda record: print(json.dumps(record)))
"""


class FreshInterpreter:
    """Runs assignments as a subprocess each; it stands where an Isolation does."""

    def run(self, assignment: Assignment) -> Outcome:
        """Run an assignment.

        Args:
            assignment: what to do.

        Returns:
            What the process left behind: readings, facts, and the time from its start to its end.
        """
        start = time.monotonic_ns()
        done = subprocess.run(
            [sys.executable, "-c", _CHILD],
            input=json.dumps(assignment.to_json()),
            env=environment(len(machine.affinity())),
            capture_output=True,
            text=True,
            timeout=assignment.sampling.timeout_s,
            check=False,
        )
        outcome = Outcome(assignment.role, wall_ns=time.monotonic_ns() - start)
        for line in done.stdout.splitlines():
            record = json.loads(line)
            if record["kind"] == "reading":
                outcome.readings.append(Reading.from_record(record))
            elif record["kind"] == "facts":
                outcome.facts.update(record["facts"])
        if done.returncode == 0:
            outcome.status = Status.OK
        else:
            outcome.reason = done.stderr.strip()[-300:]
        return outcome
