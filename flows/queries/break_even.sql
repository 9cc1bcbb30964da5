-- title: After how many calls compiling has paid for itself
-- column calls: (first_call - steady) / (eager - steady); null where no number of calls pays, or none is known
-- column least, most: what the 95 % intervals allow
-- column against: the framework's own eager mode where it was measured, else numpy/eager
-- column note: why there is no number
--
-- A compiled kernel costs first_call + (n - 1) steady over n calls, an eager one n eager. Where the intervals of eager and
-- steady overlap, or eager is the faster one, no number of calls pays: never. Flagged rows are in no comparison.
with known as materialized (from cases),
compared as (
    select
        c.*, coalesce(own.name, numpy.name) as against,
        if(own.name is null, numpy.steady_ns, own.steady_ns) as eager_ns,
        if(own.name is null, numpy.steady_low_ns, own.steady_low_ns) as eager_low_ns,
        if(own.name is null, numpy.steady_high_ns, own.steady_high_ns) as eager_high_ns,
        -- greatest(1, null) is 1: where any of the times is not known, no number of calls is.
        eager_low_ns > c.steady_high_ns and eager_ns + eager_high_ns + c.steady_ns + c.steady_low_ns
            + c.first_call_ns + c.first_call_low_ns + c.first_call_high_ns is not null as pays,
        if(own.name is null, numpy.steady_note, own.steady_note) as against_note,
    from known c
    left join known own on own.cell = c.cell and own.name = c.framework || '/eager'
    left join known numpy on numpy.cell = c.cell and numpy.name = 'numpy/eager'
    where c.mode not in ('eager', 'plain')
)
select
    kernel, size, dtype, derivative, backend, name, against,
    if(pays, greatest(1, (first_call_ns - steady_ns) / (eager_ns - steady_ns)), null) as calls,
    if(pays, greatest(1, (first_call_low_ns - steady_high_ns) / (eager_high_ns - steady_low_ns)), null) as least,
    if(pays, greatest(1, (first_call_high_ns - steady_low_ns) / (eager_low_ns - steady_high_ns)), null) as most,
    first_call_ns, steady_ns, eager_ns,
    concat_ws('; ',
        nullif(steady_note, ''),
        if(first_call_note = steady_note, null, nullif(first_call_note, '')),
        case
            when against is null then 'no eager mode of this cell'
            when eager_ns is null then against || ' is not ranked: ' || against_note
            when eager_ns <= steady_ns then 'never: eager is as fast'
            when eager_low_ns <= steady_high_ns then 'never: the intervals of eager and steady overlap'
        end
    ) as note,
    machine, workers, cold,
from compared
order by kernel, size, dtype, derivative, backend, machine, workers, cold, calls nulls last, name;
