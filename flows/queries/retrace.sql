-- title: What a call at another size costs, once a kernel is warm
-- column retrace_ns: the first call at the next size, after steady state
-- column retrace_in_calls: that over a steady call
-- column of_first_call: that over the first call of a fresh process
-- column compiles_per_round: compilations that the framework reported; 1 is a program for each size, 0 one for all
-- column rank: by retrace_in_calls, the costliest first
-- column note: why a time is missing
--
-- Flagged rows are listed and never ranked, failed ones have their reason.
select
    kernel, size, dtype, derivative, backend, name,
    retrace_ns, first_call_ns, steady_ns,
    retrace_ns / steady_ns as retrace_in_calls,
    if(retrace_in_calls is null, null, rank() over (order by retrace_in_calls desc nulls last)) as rank,
    retrace_ns / first_call_ns as of_first_call,
    retrace_compiles / retrace_rounds as compiles_per_round,
    note, machine, workers, cold,
from cases
where mode not in ('eager', 'plain')
order by retrace_in_calls desc nulls last, case_id, machine, workers, cold;
