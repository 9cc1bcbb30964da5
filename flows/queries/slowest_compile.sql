-- title: Which cases take longest to compile
-- column rank: by compile_ns, the slowest first
-- column compile_ns: the compiler alone, cold
-- column reload_ns: the same from a warm persistent cache
-- column note: why there is no time
--
-- Flagged rows are listed and never ranked, failed ones have their reason. A framework that cannot separate compiling
-- is in first_call_ns alone.
select
    if(compile_ns is null, null, rank() over (order by compile_ns desc nulls last)) as rank,
    case_id, compile_ns, trace_ns, lower_ns, reload_ns, first_call_ns,
    if(note = '' and not separates_compile, 'the framework does not separate compiling', note) as note,
    machine, workers, cold,
from cases
where mode not in ('eager', 'plain')
order by compile_ns desc nulls last, first_call_ns desc nulls last, case_id, machine, workers, cold;
