-- title: How far the processes of a case differ
-- parameter phase = steady: the phase to look at
-- column spread: the largest over the smallest median of a process
-- column low_ns, high_ns: 95 % interval of the median of the medians
-- column rank: the widest first
-- column note: flags, or why there is no time
--
-- Flagged rows are listed and never ranked: their spread is shown, and the flag says what it comes from.
select
    if(status = 'ok' and coalesce(len(flags), 0) = 0 and spread is not null,
        rank() over (
            partition by status = 'ok' and coalesce(len(flags), 0) = 0 and spread is not null order by spread desc
        ), null) as rank,
    case_id, spread, rounds, median_ns, low_ns, high_ns, min_ns,
    concat_ws('; ',
        if(status = 'ok', null, status || coalesce(': ' || reason, '')),
        nullif(array_to_string(flags, ', '), ''),
        if(status = 'ok' and spread is null, 'it was not timed', null)
    ) as note,
    machine, workers, coalesce(cold, false) as cold,
from latest
where phase = $phase
order by rank nulls last, spread desc nulls last, case_id, machine, workers, cold;
