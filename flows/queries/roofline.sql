-- title: What share of the machine's roofline a call reaches
-- column share: attainable over measured time of a steady call; above 1 where the data stays in a cache
-- column operations_per_ns, nbytes_per_ns: what the kernel declares as least, over the measured time
-- column rank: by share, within kernel and size, the best first
-- column note: why there is no share
--
-- The roofline is the machine's own, measured in the run. Flagged rows are listed and never ranked, failed ones have
-- their reason.
select
    kernel, size, dtype, derivative, backend, name,
    roofline_share as share,
    if(share is null, null, rank() over (partition by cell order by share desc nulls last)) as rank,
    work_operations / steady_ns as operations_per_ns,
    work_nbytes / steady_ns as nbytes_per_ns,
    steady_ns,
    if(steady_note = '' and share is null, 'no roofline of this dtype and backend, or the work is not known', steady_note) as note,
    machine, workers, cold,
from cases
order by kernel, size, dtype, derivative, backend, machine, workers, cold, share desc nulls last, name;
