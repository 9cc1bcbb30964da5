-- title: How many times faster than a baseline each case is
-- parameter baseline = numpy/eager: framework/mode that the others are compared with
-- column times_faster: baseline over case, above 1 is faster than the baseline
-- column rank: within the cell, 1 is fastest; null where there is no comparison
-- column least, most: what the two 95 % intervals allow
-- column same_run: whether both were measured in one run
-- column note: why there is no comparison
--
-- Compared are steady calls of one cell: same kernel, size, dtype, derivative, backend, inputs and machine. Flagged rows
-- are listed and never ranked, failed ones have their reason.
with known as materialized (from cases),
baseline as (from known where name = $baseline)
select
    c.kernel, c.size, c.dtype, c.derivative, c.backend, c.name,
    b.steady_ns / c.steady_ns as times_faster,
    if(times_faster is null, null, rank() over (partition by c.cell order by times_faster desc nulls last)) as rank,
    b.steady_low_ns / c.steady_high_ns as least,
    b.steady_high_ns / c.steady_low_ns as most,
    c.steady_ns, b.steady_ns as baseline_ns,
    c.run_id = b.run_id as same_run,
    concat_ws('; ',
        nullif(c.steady_note, ''),
        case
            when b.case_id is null then 'no ' || $baseline || ' of this cell'
            when b.steady_ns is null then $baseline || ' is not ranked: ' || b.steady_note
        end
    ) as note,
    c.machine, c.workers, c.cold,
from known c left join baseline b on c.cell = b.cell
where c.name <> $baseline
order by c.kernel, c.size, c.dtype, c.derivative, c.backend, c.machine, c.workers, c.cold, times_faster desc nulls last, c.name;
