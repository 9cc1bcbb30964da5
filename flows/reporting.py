"""The flow `report`: a page about stored runs, kept beside them."""

from __future__ import annotations

from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State

from flows import pages, reports, states
from flows.artifacts import Publisher
from flows.deployment import settle
from flows.report_data import BASELINE, gather
from flows.report_page import page
from flows.report_scope import NoRunError
from flows.storage import root
from kernels.errors import UsageError


@flow(name="report", persist_result=False, validate_parameters=True)
def report(
    run: list[str] | None = None,
    since: str | None = None,
    results: str | None = None,
    baseline: str = BASELINE,
) -> State[Any]:
    """Write a report of stored runs, one HTML file, and store it below the root, under `reports/`.

    Args:
        run: runs by id or the beginning of it, latest, latest~1, a day as YYYY-MM-DD, image:NAME; without it, the
            newest complete run of each case.
        since: instead, all complete runs begun on this day (YYYY-MM-DD, UTC) or later; 7d takes the last seven days.
        results: root of the results; empty takes JITMATRIX_RESULTS, the Prefect variable jitmatrix_results, or results.
        baseline: framework/mode that the others are compared with.

    Returns:
        Completed; NothingToDo where there is no such run yet; Refused where what was asked for is wrong, or the root
        cannot be read or written.
    """
    logger = get_run_logger()
    try:
        target = root(settle(results))
        data = gather(target, run or (), since, baseline)
        for key, reason in sorted(data.aside.items()):
            logger.warning("set aside %s: %s", key, reason)
        address = reports.store(target, page(data, target.address))
    except NoRunError as error:
        return states.nothing_to_do(str(error))
    except UsageError as error:
        return states.refused(str(error))
    message = f"{address}: {data.counted}"
    logger.info("%s", message)
    ids = [each["run_id"] for each in data.runs]
    publisher = Publisher(logger.warning)
    publisher.markdown("report", pages.report(address, len(data.cases), ids), f"Results in {target.address}")
    return states.completed(message)
