-- title: Speed-up of each framework and mode over a baseline, over all kernels and sizes
-- parameter baseline = numpy/eager: framework/mode that the others are compared with
-- column geometric_mean: of the cells' ratios baseline over case, above 1 is faster than the baseline
-- column least, most: of the cells' ratios
-- column compared: cells in the mean
-- column not_compared: cells left out: failed, skipped, flagged, or without a baseline; `speed_up` says why
--
-- Every cell counts once and as it is, none is clipped. Flagged rows are in no mean.
with known as materialized (from cases),
baseline as (from known where name = $baseline)
select
    c.name, c.backend, c.dtype, c.derivative,
    exp(avg(ln(b.steady_ns / c.steady_ns))) as geometric_mean,
    min(b.steady_ns / c.steady_ns) as least,
    max(b.steady_ns / c.steady_ns) as most,
    count(b.steady_ns / c.steady_ns) as compared,
    count(*) - compared as not_compared,
    c.machine, c.workers, c.cold,
from known c left join baseline b on c.cell = b.cell
where c.name <> $baseline
group by all
order by c.backend, c.dtype, c.derivative, c.machine, c.workers, c.cold, geometric_mean desc nulls last, c.name;
