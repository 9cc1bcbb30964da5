-- title: How the time of a call grows with the size: the exponent of a power law
-- parameter over = work_operations: what a size is measured by: work_operations, work_nbytes, or a dimension such as n
-- column exponent: slope of log time over log size; over work_operations, 1 is time in proportion to the work
-- column r2: share of the variance that the line explains; 1 for two sizes
-- column sizes: how many sizes the line goes through
-- column note: sizes that are left out, and why
--
-- Least squares through the logarithms of the steady medians. Flagged rows are in no fit, failed ones have their reason.
with sized as (
    select
        *,
        case $over
            when 'work_operations' then work_operations
            when 'work_nbytes' then work_nbytes
            else try_cast(dims ->> $over as double)
        end as measure,
    from cases
)
select
    kernel, dtype, derivative, backend, name, cold,
    count(distinct measure) filter (measure > 0 and steady_ns is not null) as sizes,
    if(sizes < 2, null, regr_slope(ln(steady_ns), ln(measure)) filter (measure > 0)) as exponent,
    if(sizes < 2, null, regr_r2(ln(steady_ns), ln(measure)) filter (measure > 0)) as r2,
    string_agg(size, ' ' order by measure) filter (measure > 0 and steady_ns is not null) as through,
    concat_ws('; ',
        string_agg(size || ': ' || steady_note, '; ' order by size) filter (steady_ns is null),
        string_agg(size || ': ' || $over || ' is not known', '; ' order by size)
            filter (steady_ns is not null and coalesce(measure, 0) <= 0)
    ) as note,
    machine, workers,
from sized
group by kernel, dtype, derivative, backend, name, cold, machine, workers, cell.source
order by kernel, dtype, derivative, backend, exponent nulls last, name, machine, workers;
