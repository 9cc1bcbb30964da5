-- title: Every phase of a case, in the newest complete run that has it
-- parameter case = %: pattern of case ids, % stands for anything: dense-jax-jit-%
-- column median_ns, low_ns, high_ns: median of the processes' medians with its 95 % interval, per call
-- column rounds: processes that timed it; their samples are in the view samples
-- column traces, lowerings, compiles: events that the framework reported, over all rounds
-- column note: flags, or why there is no time
--
-- Nothing is ranked here.
select
    case_id, phase, median_ns, low_ns, high_ns, min_ns, rounds,
    traces, lowerings, compiles,
    concat_ws('; ',
        if(status = 'ok', null, status || coalesce(': ' || reason, '')),
        nullif(array_to_string(flags, ', '), ''),
        if(status = 'ok' and median_ns is null, 'it was not timed', null)
    ) as note,
    machine, workers, coalesce(cold, false) as cold, run_id,
from latest
where case_id like $case
order by case_id, machine, workers, coalesce(cold, false), list_position([
    'startup', 'transfer', 'trace', 'lower', 'compile', 'first_call', 'reload', 'retrace', 'steady', 'pipelined',
    'enqueue', 'device'
], phase);
