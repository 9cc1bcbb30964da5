"""The flow `compare`: what takes longer than before, as a state that automations see."""

from __future__ import annotations

from typing import Annotated, Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from pydantic import Field

from flows import events, states
from flows.artifacts import Publisher
from flows.compare import GATE, SMALLEST
from flows.compare import compare as compared
from flows.comparison_formats import markdown
from flows.comparison_text import summary
from flows.deployment import settle
from flows.storage import root
from kernels.errors import UsageError
from kernels.phase import Phase


@flow(name="compare", persist_result=False, validate_parameters=True)
def compare(  # noqa: PLR0917 - Prefect calls it by name
    baseline: str = "latest~1",
    candidate: str = "latest",
    results: str | None = None,
    smallest: Annotated[float, Field(gt=0, lt=1)] = SMALLEST,
    phase: Annotated[list[Phase], Field(description="Phases to decide on.")] = list(GATE),  # noqa: B006
    backend: str | None = None,
    across_machines: bool = False,
) -> State[Any]:
    """Compare two runs, case by case.

    Args:
        baseline: what to compare with: a run's id or the beginning of it, latest, latest~1, a day as YYYY-MM-DD,
            image:NAME, or a .parquet file; several with commas between are one side.
        candidate: what is compared, in the same ways.
        results: root of the results; empty takes JITMATRIX_RESULTS, the Prefect variable jitmatrix_results, or results.
        smallest: the least relative difference that matters.
        phase: phases to decide on; the others are shown.
        backend: compare the cases of this backend alone.
        across_machines: compare runs of different machines too, and say so.

    Returns:
        Completed; Regression where a case takes longer or fails that was ok; Refused where there is nothing to compare.
    """
    logger = get_run_logger()
    try:
        target = root(settle(results), to_read=True)
        found = compared(
            target,
            baseline,
            candidate,
            smallest=smallest,
            phases=phase,
            across_machines=across_machines,
            backend=backend,
        )
    except UsageError as error:
        return states.refused(str(error))
    for text in found.lines():
        logger.info("%s", text)
    publisher = Publisher(logger.warning)
    publisher.markdown("comparison", markdown(found), f"Results in {target.address}")
    if found.passed:
        return states.completed(summary(found))
    run = found.candidate[0]
    events.regression(
        run.id,
        run.row.get("matrix") or "",
        target.address,
        found.baseline[0].id,
        cases=len(found.regressions) + len(found.broken),
        lines=found.lines(),
    )
    return states.regression(summary(found))
