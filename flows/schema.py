"""The Arrow schemas of the results: every column with its meaning; columns are only ever added."""

from __future__ import annotations

import pyarrow as pa

VERSION = 1

_UTC = pa.timestamp("us", tz="UTC")


def _schema(*columns: tuple[str, pa.DataType, str]) -> pa.Schema:
    return pa.schema([pa.field(name, kind, metadata={"description": text}) for name, kind, text in columns])


TIMINGS = _schema(
    ("run_id", pa.string(), "the run's id, a UUIDv7"),
    ("measured_at", _UTC, "when the run began"),
    ("case_id", pa.string(), "kernel-framework-mode-size-dtype-backend, the derivative before the backend when not 0"),
    ("kernel", pa.string(), "name of the computation"),
    ("framework", pa.string(), "numpy, numba, jax, torch, tensorflow, python"),
    (
        "mode",
        pa.string(),
        "how the framework ran it: eager, jit, njit, compile, script, function, xla, plain, lru_cache",
    ),
    ("size", pa.string(), "size label"),
    ("dims", pa.string(), "dimensions of the size, as JSON"),
    ("dtype", pa.string(), "dtype of the case, by its name"),
    ("derivative", pa.int8(), "0 the value, 1 the gradient, 2 a Hessian-vector product"),
    ("backend", pa.string(), "where the arrays were to live: cpu, gpu, tpu"),
    ("source", pa.string(), "file or module of a kernel of the user's own; null for the suite's"),
    ("source_sha256", pa.string(), "sha256 of that file"),
    ("cold", pa.bool_(), "whether steady inputs rotated through a working set beyond the caches"),
    ("phase", pa.string(), "what was timed"),
    ("status", pa.string(), "ok, wrong, failed, timeout, killed, unavailable, skipped"),
    ("reason", pa.string(), "why, in words, where the status is not ok"),
    ("flags", pa.list_(pa.string()), "reasons not to trust an ok; a flagged row is never ranked"),
    ("flag_reasons", pa.list_(pa.string()), "the same in words, in the order of flags"),
    ("rounds", pa.int32(), "fresh processes that timed this phase"),
    ("samples", pa.list_(pa.list_(pa.int64())), "by round: total ns of each sample, in order, unfiltered"),
    ("inner_calls", pa.list_(pa.int64()), "by round: calls in each sample"),
    ("median_ns", pa.float64(), "median of the rounds' medians, ns per call"),
    ("low_ns", pa.float64(), "lower end of its 95 % two-level bootstrap interval"),
    ("high_ns", pa.float64(), "upper end of its 95 % two-level bootstrap interval"),
    ("min_ns", pa.float64(), "least sample of all rounds, ns per call"),
    ("spread", pa.float64(), "largest over smallest median of a round"),
    ("traces", pa.int64(), "trace events that the framework reported, over all rounds"),
    ("lowerings", pa.int64(), "lowering events, over all rounds"),
    ("compiles", pa.int64(), "compile events, over all rounds"),
    ("cache_hits", pa.int64(), "programs taken from a persistent cache, over all rounds"),
    ("cache_misses", pa.int64(), "programs not found in a persistent cache, over all rounds"),
    ("event_ns", pa.list_(pa.int64()), "by round: ns of this phase by the framework's own account"),
    ("work_operations", pa.int64(), "least operations, as the kernel declares them; null for a second derivative"),
    ("work_nbytes", pa.int64(), "least bytes moved, as the kernel declares them; null for derivatives"),
    ("roofline_share", pa.float64(), "attainable over measured time of a steady call, by the machine's roofline"),
    ("program_hash", pa.string(), "sha256 of the compiled program's text"),
    ("program_operations", pa.float64(), "the compiler's own estimate of its operations"),
    ("program_nbytes", pa.float64(), "the compiler's own estimate of the bytes that it moves"),
    ("program_peak_nbytes", pa.int64(), "the compiler's own estimate of the memory that a call needs"),
    ("output_dtype", pa.string(), "dtype of the first output, read from the output"),
    ("peak_nbytes", pa.int64(), "peak resident size of the case's processes"),
    ("warmup_calls", pa.int64(), "calls before sampling, in the last round"),
    ("cpu_share", pa.float64(), "processor over wall time in the steady loop of the last round"),
    ("facts", pa.string(), "what else the case's processes told, as JSON"),
    ("output_tail", pa.string(), "the last of what the kernel printed"),
    ("machine", pa.string(), "fingerprint of the hardware; null where no machine took the run"),
    ("image", pa.string(), "container image, where one ran"),
)
"""One row per case and phase."""

PLANS = _schema(
    ("plan_hash", pa.string(), "sha256 of the plan that the cell belongs to, as in runs"),
    ("case_id", pa.string(), "kernel-framework-mode-size-dtype-backend, the derivative before the backend when not 0"),
    ("kernel", pa.string(), "name of the computation"),
    ("framework", pa.string(), "numpy, numba, jax, torch, tensorflow, python"),
    ("mode", pa.string(), "how the framework runs it"),
    ("size", pa.string(), "size label"),
    ("dims", pa.string(), "dimensions of the size, as JSON"),
    ("dtype", pa.string(), "dtype of the case, by its name"),
    ("derivative", pa.int8(), "0 the value, 1 the gradient, 2 a Hessian-vector product"),
    ("backend", pa.string(), "where the arrays are to live: cpu, gpu, tpu"),
    ("source", pa.string(), "file or module of a kernel of the user's own; null for the suite's"),
    ("source_sha256", pa.string(), "sha256 of that file"),
    ("reason", pa.string(), "why the cell is skipped; null where it is to be measured"),
)
"""One row per planned cell of a sweep."""

RUNS = _schema(
    ("run_id", pa.string(), "the run's id, a UUIDv7"),
    ("started_at", _UTC, "begin of the run"),
    ("finished_at", _UTC, "end of the run"),
    ("complete", pa.bool_(), "whether it ended by itself; false after an interruption"),
    ("command", pa.string(), "the command that repeats it; null where none does"),
    ("matrix", pa.string(), "name of the matrix"),
    ("plan", pa.string(), "the matrix, the filters and the sampling, as JSON"),
    ("plan_hash", pa.string(), "sha256 of the plan"),
    ("seed", pa.int64(), "seed of inputs, order and bootstrap"),
    ("planned", pa.int64(), "cells of the matrix: ok + failed + skipped"),
    ("ok", pa.int64(), "cases measured and checked"),
    ("failed", pa.int64(), "cases wrong, failed, timeout, killed, or unavailable where asked for by name"),
    ("skipped", pa.int64(), "cells left out, each with a reason, unavailable ones among them"),
    ("machine", pa.string(), "fingerprint of the hardware; null where no machine took the run"),
    ("hardware", pa.string(), "the hardware, as JSON"),
    ("environment", pa.string(), "versions, variables of the user and of the cases, affinity, limits, as JSON"),
    ("roofline", pa.string(), "measured bandwidths and rates of each backend, as JSON"),
    ("warnings", pa.list_(pa.string()), "what may falsify timings on this machine, as found at the run's start"),
    ("commit", pa.string(), "git commit of jitmatrix"),
    ("dirty", pa.bool_(), "whether the checkout differed from it"),
    ("image", pa.string(), "container image, where one ran"),
    ("version", pa.string(), "version of jitmatrix"),
)
"""One row per run."""
