-- title: The runs, the newest first
-- column status: complete, or incomplete: interrupted, killed, or still going
-- column planned, ok, failed, skipped: cells; null where the run has left no row of its own
--
-- Nothing is ranked here.
select
    run_id, started_at, finished_at, status, matrix, planned, ok, failed, skipped, machine, image, commit, version,
from runs
order by started_at desc nulls last, run_id desc;
