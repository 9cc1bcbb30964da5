-- What every query reads. Registered before it: timings_files and runs_files, the files that count; rowless_runs, of
-- runs that left timings alone; unmarked, the ids of runs without a marker; plans_files, the plans of sweeps.

create view timings as from timings_files;

-- One row per run. A run is complete when its marker is there and it ended by itself.
create view runs as
select
    * replace (coalesce(complete, false) and run_id not in (from unmarked) as complete),
    if(coalesce(complete, false) and run_id not in (from unmarked), 'complete', 'incomplete') as status,
from (from runs_files union all by name from rowless_runs);

-- One row per planned cell of a sweep; plan_hash is that of the runs that were to measure it. A plan is stored once.
create view plans as select distinct * from plans_files;

-- One row per sample. Rounds and samples count from 1; elapsed_ns is per call, total_ns over inner_calls calls.
create view samples as
select
    date, run_id, case_id, phase, round,
    generate_subscripts(totals, 1) as sample,
    unnest(totals) / inner_calls as elapsed_ns,
    unnest(totals) as total_ns,
    inner_calls,
from (
    select
        date, run_id, case_id, phase,
        generate_subscripts(samples, 1) as round,
        unnest(samples) as totals,
        unnest(inner_calls) as inner_calls,
    from timings
);

-- Per case, machine and workers, the rows of the newest complete run that has tried the case; of the newest that has it
-- where none has. A run of one thread a case is no newer state of one that had all processors: workers is null there.
-- What no machine took, such as a share of a sweep that no worker came for, stands for a case that none ever had.
create view latest as
select timings.*, workers,
from timings join (select run_id, try_cast(plan ->> '$.workers' as bigint) as workers from runs where complete) using (run_id)
qualify dense_rank() over (
    partition by case_id, machine, workers, coalesce(cold, false)
    order by coalesce(status in ('unavailable', 'skipped'), false), measured_at desc, run_id desc
) = 1 and (machine is not null or not bool_or(machine is not null) over (partition by case_id, workers, coalesce(cold, false)));

-- One row per case of latest. A time is null where its row is not ok, has a flag, or was not timed: it is in no
-- comparison and no ranking then, and `note` says why; `steady_note` and `first_call_note` say it of these phases alone.
-- `cell` is what two cases must share to be compared.
create view cases as
select
    case_id, kernel, framework, mode, framework || '/' || mode as name, size, dtype,
    coalesce(derivative, 0) as derivative, backend, coalesce(cold, false) as cold, machine, workers, run_id,
    {
        'kernel': kernel, 'source': source_sha256, 'size': size, 'dims': dims, 'dtype': dtype,
        'derivative': coalesce(derivative, 0), 'backend': backend, 'cold': coalesce(cold, false), 'machine': machine,
        'workers': workers
    } as cell,
    any_value(status) as status,
    max(median_ns) filter (phase = 'trace' and trusted) as trace_ns,
    max(median_ns) filter (phase = 'lower' and trusted) as lower_ns,
    max(median_ns) filter (phase = 'compile' and trusted) as compile_ns,
    max(median_ns) filter (phase = 'first_call' and trusted) as first_call_ns,
    max(low_ns) filter (phase = 'first_call' and trusted) as first_call_low_ns,
    max(high_ns) filter (phase = 'first_call' and trusted) as first_call_high_ns,
    max(median_ns) filter (phase = 'retrace' and trusted) as retrace_ns,
    max(median_ns) filter (phase = 'reload' and trusted) as reload_ns,
    max(median_ns) filter (phase = 'steady' and trusted) as steady_ns,
    max(low_ns) filter (phase = 'steady' and trusted) as steady_low_ns,
    max(high_ns) filter (phase = 'steady' and trusted) as steady_high_ns,
    max(roofline_share) filter (phase = 'steady' and trusted) as roofline_share,
    max(compiles) filter (phase = 'retrace') as retrace_compiles,
    max(rounds) filter (phase = 'retrace') as retrace_rounds,
    any_value(work_operations) as work_operations,
    any_value(work_nbytes) as work_nbytes,
    any_value(dims) as dims,
    bool_or(phase = 'compile') as separates_compile,
    concat_ws('; ',
        any_value(status || coalesce(': ' || reason, '')) filter (status <> 'ok'),
        string_agg(phase || ': ' || array_to_string(flags, ', '), '; ' order by phase) filter (len(flags) > 0)
    ) as note,
    coalesce(
        any_value(status || coalesce(': ' || reason, '')) filter (status <> 'ok'),
        any_value('steady: ' || array_to_string(flags, ', ')) filter (phase = 'steady' and len(flags) > 0),
        if(steady_ns is null, 'steady was not timed', '')
    ) as steady_note,
    coalesce(
        any_value(status || coalesce(': ' || reason, '')) filter (status <> 'ok'),
        any_value('first_call: ' || array_to_string(flags, ', ')) filter (phase = 'first_call' and len(flags) > 0),
        if(first_call_ns is null, 'first call was not timed', '')
    ) as first_call_note,
from (
    select *, status = 'ok' and coalesce(len(flags), 0) = 0 as trusted from latest
)
group by all;
