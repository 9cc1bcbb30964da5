-- title: What compiling costs, against the time of a call
-- column trace_ns, lower_ns, compile_ns: stages that the framework separates; null where it does not
-- column compile_in_calls: compile over a steady call: so many calls take as long
-- column first_call_in_calls: the first call over a steady one
-- column rank: by compile_in_calls, the costliest first
-- column note: why a time is missing
--
-- Flagged rows are listed and never ranked, failed ones have their reason.
select
    kernel, size, dtype, derivative, backend, name,
    trace_ns, lower_ns, compile_ns, first_call_ns, steady_ns,
    compile_ns / steady_ns as compile_in_calls,
    if(compile_in_calls is null, null, rank() over (order by compile_in_calls desc nulls last)) as rank,
    first_call_ns / steady_ns as first_call_in_calls,
    note, machine, workers, cold,
from cases
where mode not in ('eager', 'plain')
order by compile_in_calls desc nulls last, first_call_in_calls desc nulls last, case_id, machine, workers, cold;
