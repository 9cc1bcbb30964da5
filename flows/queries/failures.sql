-- title: What was not measured, by reason, in all runs
-- column cases, runs: how many of each met it
-- column still: cases whose newest complete run still ends so
-- column first_at, last_at: begin of the first and the last run that met it
-- column example: one of the cases
--
-- Every status but ok, skipped cells among them, incomplete runs included.
with ended as (
    select distinct run_id, case_id, machine, measured_at, status, coalesce(reason, '') as reason from timings
    where status is distinct from 'ok'
),
newest as (
    -- Not latest, which keeps what a case has once been measured at when it cannot be tried any more. What no machine
    -- took is over when any machine has had the case since.
    select distinct case_id, machine, status, coalesce(reason, '') as reason
    from (
        from timings where run_id in (select run_id from runs where complete)
        qualify run_id = first_value(run_id) over (
            partition by case_id, machine, coalesce(cold, false) order by measured_at desc, run_id desc
        ) and (machine is not null or measured_at = max(measured_at) over (partition by case_id, coalesce(cold, false)))
    )
)
select
    ended.status, ended.reason,
    count(distinct ended.case_id) as cases,
    count(distinct run_id) as runs,
    count(distinct ended.case_id) filter (newest.case_id is not null) as still,
    min(measured_at) as first_at,
    max(measured_at) as last_at,
    min(ended.case_id) as example,
from ended left join newest on
    (ended.case_id, ended.status, ended.reason) = (newest.case_id, newest.status, newest.reason)
    and ended.machine is not distinct from newest.machine
group by ended.status, ended.reason
order by ended.status = 'skipped', cases desc, ended.status, ended.reason;
