"""The flow `bench`: measure a matrix on this machine, a task per case, and store every sample."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from pydantic import Field

from flows import events, stale, states
from flows.artifacts import shown
from flows.deployment import settle
from flows.exact import exact
from flows.execution import Summary, begin, execute
from flows.order import InlineMatrix, Order
from flows.plan import agree
from flows.progress import CURRENT, LineReporter
from flows.results import Run, counts, uuid7
from flows.resume import Fate, chosen, reopen
from kernels import image
from kernels.errors import UsageError

Names = Annotated[list[str], Field(description="Names to keep; empty keeps all.")]
Orders = Annotated[list[Annotated[int, Field(ge=0, le=2)]], Field(description="0, 1, 2; empty keeps the matrix's own.")]


@flow(name="bench", persist_result=False, validate_parameters=True)
def bench(  # noqa: PLR0917 - Prefect calls it by name
    matrix: str | InlineMatrix | None = None,
    kernel: Names = [],  # noqa: B006 - Prefect shows the defaults in its form
    framework: Names = [],  # noqa: B006
    size: Names = [],  # noqa: B006
    dtype: Names = [],  # noqa: B006
    backend: Names = [],  # noqa: B006
    derivative: Orders = [],  # noqa: B006
    results: str | None = None,
    rounds: Annotated[int, Field(ge=1)] | None = None,
    budget_s: Annotated[float, Field(gt=0)] | None = None,
    seed: Annotated[int, Field(ge=0)] | None = None,
    timeout_s: Annotated[float, Field(gt=0)] | None = None,
    min_sample_ms: Annotated[float, Field(gt=0)] | None = None,
    cold: bool | None = None,
    workers: Annotated[int, Field(ge=1)] | None = None,
    programs: bool = False,
    run: str | None = None,
    plan: str | None = None,
    resume: str | None = None,
) -> State[Any]:
    """Measure a matrix on this machine and store every sample as Parquet.

    Args:
        matrix: name of a matrix (seeds, smoke, all), or a matrix written out; empty takes seeds, or all for kernels of
            your own.
        kernel: kernels to keep, such as dense, or yours, as /path/to/mine.py or package.module:name; empty keeps all.
        framework: frameworks or modes to keep, such as jax or jax/jit; empty keeps all.
        size: size labels to keep, such as M; empty keeps all.
        dtype: dtypes to keep, such as float32; empty keeps all.
        backend: cpu, gpu or tpu, instead of the matrix's own; empty takes JITMATRIX_BACKEND, which an image sets, or
            keeps those.
        derivative: 0 the value, 1 the gradient, 2 a Hessian-vector product, instead of the matrix's own.
        results: root of the results; empty takes JITMATRIX_RESULTS, the Prefect variable jitmatrix_results, or results.
        rounds: fresh processes per case, spread over the run; empty takes the matrix's.
        budget_s: seconds of steady sampling per case, over all rounds; empty takes the matrix's.
        seed: seed of the inputs, the order of cases and the bootstrap.
        timeout_s: deadline of one process, in seconds.
        min_sample_ms: a sample lasts at least this long, by doubling its calls; empty takes 10.
        cold: rotate the inputs of steady calls through a working set beyond the last-level cache.
        workers: cases side by side, one thread each, pinned to a core of its own; empty takes one at a time.
        programs: keep the text of every compiled program, under hlo/ by its hash.
        run: id of the run, a UUIDv7 that whoever submits it has made: one that is unfinished here is gone on with, of
            one that is complete nothing is left to do.
        plan: hash of the plan that the submitter has; where it is another here, nothing is measured.
        resume: id of a run that was killed or interrupted, to be gone on with as it was begun; of the other
            parameters, results alone counts then.

    Returns:
        The state, as ``flows.states`` names it; what was measured is stored in every one of them.
    """
    parameters = {name: value for name, value in locals().items() if name not in ("run", "plan", "resume")}
    try:
        exact(parameters)
        parameters["results"] = settle(results)
        found = chosen(run, parameters["results"]) if run and not resume else None
        if found is Fate.ENDED:
            return states.nothing_to_do(f"run {run} came to its end; its results are stored")
        if resume or found is Fate.UNFINISHED:
            measured, journal, notes = reopen(str(resume or run), parameters["results"])
            notes.append(f"{len(journal.story.turns)} turns were taken before")
        else:
            order = Order.from_parameters({**parameters, "backend": image.chosen(backend)})
            agree(order, plan)
            measured = Run(order, command(order), run or str(uuid7()))
            journal, notes = begin(measured)
    except UsageError as error:
        return states.refused(str(error))
    summary = Summary(measured)
    with journal:
        report = shown(CURRENT.get() or LineReporter(get_run_logger()), measured.order)
        for note in [*notes, *stale.tell(measured)]:
            report.note(note)
        execute(summary, report, journal)
    totals = counts(summary.measurements, measured.order.filters)
    state = states.ended(totals, summary.unsent)
    events.finished(measured.id, measured.order.matrix.name, measured.order.root.address, totals, state)
    return state


def command(order: Order) -> str | None:
    """Give the command that repeats an order.

    Args:
        order: the order.

    Returns:
        A line for the shell; None for a matrix that was written out.
    """
    if not isinstance(order.named, str):
        return None
    sampling = order.sampling
    words = ["jitmatrix", "bench", "--matrix", order.named, *shlex.split(str(order.filters))]
    words += ["--rounds", str(sampling.rounds), "--budget", f"{sampling.budget_s:g}", "--seed", str(sampling.seed)]
    words += ["--timeout", f"{sampling.timeout_s:g}", "--min-sample", f"{sampling.min_sample_ms:g}"]
    words += ["--cold"] if sampling.cold else []
    words += ["--workers", str(order.workers)] if order.workers else []
    words += ["--programs"] if order.programs else []
    return shlex.join([*words, "--results", order.root.address])
