"""The flow `compact`: few large files in place of a closed day's many small ones, a task a day."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from pydantic import Field

from flows import compaction, states
from flows.compaction import KEEP_RAW_DAYS
from flows.deployment import settle
from flows.replacement import Compacted
from flows.storage import root
from kernels.errors import UsageError


@task(name="compact day", task_run_name="{day}", cache_policy=NO_CACHE, persist_result=False)
def compact_day(day: str, work: Callable[[], Compacted]) -> Compacted:
    """Compact a day.

    Args:
        day: names the task run.
        work: does it.

    Returns:
        What became of it.
    """
    return work()


@flow(name="compact", persist_result=False, validate_parameters=True)
def compact(
    results: str | None = None,
    keep_raw_days: Annotated[float, Field(ge=0)] = KEEP_RAW_DAYS,
) -> State[Any]:
    """Rewrite the closed days of a root into few files, while others write and read it.

    Args:
        results: root of the results; empty takes JITMATRIX_RESULTS, the Prefect variable jitmatrix_results, or results.
        keep_raw_days: days for which the files stay that were replaced.

    Returns:
        Completed, or NothingToDo without a closed day; Damaged where files are not what their markers say, Refused
        where the root cannot be written.
    """
    logger = get_run_logger()
    problems = 0
    try:
        target = root(settle(results))
        seen = compaction.survey(target)
        for day in seen.days:
            result = compact_day(str(day), partial(compaction.compact_day, target, day, seen, keep_raw_days))
            problems += len(result.problems)
            logger.log(30 if result.problems else 20, "%s", result)
    except UsageError as error:
        return states.refused(str(error))
    message = f"{target.address}: {len(seen.days)} closed days"
    if problems:
        return states.damaged(f"{message}; {problems} problems, jitmatrix verify tells how to mend them")
    return states.completed(message) if seen.days else states.nothing_to_do(message)
