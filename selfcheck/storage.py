"""Storage: what writing, sending, compacting and asking results costs, beside pyarrow and boto3 alone."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq

from flows import schema
from flows.compaction import compact_day, survey
from flows.parquet import packing
from flows.query import ask
from flows.questions import questions
from flows.replacement import MEMORY_NBYTES
from flows.s3 import S3Root
from flows.spool import Spool, spool
from flows.storage import LocalRoot
from flows.store import Store
from flows.upload import THREADS, upload
from kernels.case import Matrix
from kernels.discovery import suite
from kernels.frameworks import modes
from kernels.measurement import Measurement
from kernels.run import Run as Engine
from kernels.timing import Sampling
from selfcheck.dataset import Shape, batches, new_runs, write, write_wide
from selfcheck.figure import Figure, Report, at_least, at_most
from selfcheck.footprint import peak_nbytes
from selfcheck.interleaved import NotMeasuredError
from selfcheck.seaweed import SeaweedServer, configured

_BUCKET = "selfcheck"
_FILES_OF_A_RUN = 4
_FLAT = 1.25


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured.

    Attributes:
        shape: of the results that are written, compacted and asked.
        files: result files that are sent and, as many, compacted.
        pairs: times that each is measured beside its peer, by turns.
        wide_files: files of 8 MiB of samples each in the compaction whose memory is measured, and ten times as many.
        matrix: what is timed for the stored size of real timings,
        sampling: and how.
    """

    shape: Shape = field(default_factory=lambda: Shape(runs=10, kernels=25))
    files: int = 1000
    pairs: int = 3
    wide_files: int = 8
    matrix: Matrix = field(
        default_factory=lambda: Matrix(
            "selfcheck", ("dense", "sincos", "total"), ("numpy/eager", "numba/njit", "jax/jit"), (), ("float32",)
        )
    )
    sampling: Sampling = field(default_factory=Sampling)


QUICK = Settings(
    Shape(runs=1, kernels=1, samples=5),
    files=8,
    pairs=1,
    wide_files=1,
    matrix=Matrix("selfcheck", ("double",), ("numpy/eager",), ("S",), ("float32",)),
    sampling=Sampling(rounds=1, budget_s=0.01, min_sample_ms=0.2, warmup_ms=1.0),
)


def measure(settings: Settings) -> Report:
    """Write, send, compact and ask results.

    Args:
        settings: how much.

    Returns:
        Rates, times, sizes and peaks of memory.

    Raises:
        NotMeasuredError: the S3 server does not start, or something of it all fails.
    """
    figures, notes = list[Figure](), list[str]()
    for part in (_sent, _written_and_asked, _beside_pyarrow, _compacted, _stored_size, _memory):
        with tempfile.TemporaryDirectory(prefix="jitmatrix-selfcheck-") as folder:
            found, said = part(Path(folder), settings)
        figures += found
        notes += said
    return Report(tuple(figures), tuple(notes))


Found = tuple[list[Figure], list[str]]


def _sent(folder: Path, settings: Settings) -> Found:
    """Send result files to a real server, and the same files by boto3 alone."""
    own = _small_files(folder / "files", settings)
    server = SeaweedServer(_made(folder / "server"))
    try:
        server.start()
    except (OSError, RuntimeError) as error:
        raise NotMeasuredError(f"the S3 server does not start: {' '.join(str(error).split())[-200:]}") from None
    try:
        with configured(server, folder):
            server.client().create_bucket(Bucket=_BUCKET)
            ours, bare = list[float](), list[float]()
            for number in range(settings.pairs):
                target = S3Root(_BUCKET, f"ours{number}")
                with _clock(ours):
                    result = upload(_filled(spool(target), own), target)
                if not result.complete or len(result.sent) != settings.files:
                    raise NotMeasuredError(str(result))
                with _clock(bare):
                    _bare_upload(server, own, f"bare{number}")
    finally:
        server.kill()
    what = f"{settings.files} result files sent, over a bare boto3 loop with {THREADS} threads too"
    return [at_most(what, _ratio(ours, bare), 1.5)], [f"sending them: {median(ours):.1f} s, bare {median(bare):.1f} s"]


def _filled(to: Spool, own: Path) -> Spool:
    """Let files wait in a spool, as links: they are durable already."""
    shutil.copytree(own, to.folder, copy_function=os.link, dirs_exist_ok=True)
    return to


def _bare_upload(server: SeaweedServer, own: Path, prefix: str) -> None:
    client = server.client()
    paths = [path for path in own.rglob("*") if path.is_file()]

    def put(path: Path) -> None:
        key = f"{prefix}/{path.relative_to(own).as_posix()}"
        client.put_object(Bucket=_BUCKET, Key=key, Body=path.read_bytes())

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(put, paths))


def _written_and_asked(folder: Path, settings: Settings) -> Found:
    """Write a set of results, compact it, and ask each ready question of it."""
    shape = settings.shape
    spent = sum(write(folder, run, batches(run, shape)) for run in new_runs(shape.runs))
    took, root = list[float](), LocalRoot(folder)
    with _clock(took):
        _compact(root)
    processor = time.process_time()
    times = {name: _asked(root, name, settings.pairs) for name in questions()}
    processor = time.process_time() - processor
    slowest = max(times, key=lambda name: times[name])
    each = ", ".join(f"{name} {seconds:.2f}" for name, seconds in times.items())
    of = f"{shape.rows} rows of {shape.values} samples"
    return [
        at_least(f"{of} written, samples a second", shape.values / spent / 1e6, 1, " million"),
        at_most(f"slowest of {len(times)} ready questions ({slowest}) over {of}, compacted", times[slowest], 1, " s"),
    ], [
        f"compacting them: {took[0]:.1f} s",
        f"ready questions, seconds: {each}",
        f"processor seconds of a question, mean: {processor / len(times) / settings.pairs:.2f}",
    ]


def _asked(root: LocalRoot, name: str, times: int) -> float:
    took: list[float] = []
    for _ in range(times):
        with _clock(took):
            ask(root, name, {})
    return median(took)


def _beside_pyarrow(folder: Path, settings: Settings) -> Found:
    """Write runs, and the same rows by pyarrow alone: no check, no footer, no hash, no fsync."""
    shape = replace(settings.shape, runs=1)
    (run,) = new_runs(1)
    rows = list(batches(run, shape))
    ours, bare, processor = list[float](), list[float](), (list[float](), list[float]())
    for number in range(2 * settings.pairs):
        with _clock(processor[0], time.process_time):
            ours.append(write(folder / f"ours{number}", run, rows))
        with _clock(bare), _clock(processor[1], time.process_time):
            for index, batch in enumerate(rows):
                path = _made(folder / f"bare{number}") / f"{index}.parquet"
                content = pa.Table.from_pylist(batch, schema=schema.TIMINGS)
                pq.write_table(content, path, row_group_size=1 << 20, **packing(schema.TIMINGS))
    what = f"a run of {shape.rows} rows and {shape.values} samples written, over pyarrow alone"
    said = (
        f"writing that run: {median(ours):.2f} s, of processors {median(processor[0]):.2f}; "
        f"pyarrow alone {median(bare):.2f} s, of processors {median(processor[1]):.2f}"
    )
    return [at_most(what, _ratio(ours, bare), 1.2)], [said]


def _compacted(folder: Path, settings: Settings) -> Found:
    own = _small_files(folder / "files", settings)
    took, processor = list[float](), list[float]()
    for number in range(settings.pairs):
        root = LocalRoot(folder / f"copy{number}")
        shutil.copytree(own, root.path)
        with _clock(took), _clock(processor, time.process_time):
            _compact(root)
    said = f"processor seconds of compacting the small files: {median(processor):.1f}"
    return [at_most(f"{settings.files} small files compacted", median(took), 5, " s")], [said]


def _stored_size(folder: Path, settings: Settings) -> Found:
    """Time a few cases in earnest, and see what their samples take."""
    rows: list[Measurement] = []
    Engine(settings.matrix.expand(suite(), modes()), settings.sampling).measure(rows.append)
    (run,) = new_runs(1)
    store = Store(folder, run, None, lambda note: None)
    for row in rows:
        store.take(row)
    file, *_ = store.finish(rows)
    with pq.ParquetFile(file) as opened:
        groups = [opened.metadata.row_group(number) for number in range(opened.metadata.num_row_groups)]
    columns = [group.column(number) for group in groups for number in range(group.num_columns)]
    packed = sum(each.total_compressed_size for each in columns if each.path_in_schema.startswith("samples."))
    count = sum(len(round_) for row in rows for timing in row.timings.values() for round_ in timing.samples)
    return [at_most(f"bytes of each of {count} samples of real timings of {len(rows)} cases", packed / count, 4)], [
        f"their file with all other columns and its footer: {file.stat().st_size / count:.1f} bytes a sample"
    ]


def _memory(folder: Path, settings: Settings) -> Found:
    """Compare peaks of memory with those at ten times the data."""
    once, ten = settings.wide_files, 10 * settings.wide_files
    kernels = str(settings.shape.kernels)
    wrote = [peak_nbytes("write", str(folder / f"runs{runs}"), str(runs), kernels) for runs in (1, 10)]
    compacted = []
    for files in (once, ten):
        write_wide(folder / f"wide{files}", files, 8 << 20)
        compacted.append(peak_nbytes("compact", str(folder / f"wide{files}")))
    small = replace(settings.shape, runs=1, samples=Shape(1, 1).samples)
    figures = []
    for what, peaks in (
        (f"writing {10 * small.values} samples", wrote),
        (f"compacting {ten * 8} MiB of samples", compacted),
    ):
        figures.append(at_most(f"peak memory of {what}", peaks[1] / 2**20, MEMORY_NBYTES >> 20, " MiB"))
        figures.append(at_most(f"and over that at a tenth, {peaks[0] >> 20} MiB", peaks[1] / peaks[0], _FLAT))
    return figures, []


def _small_files(folder: Path, settings: Settings) -> Path:
    """Write as many small files as are wanted: of each run two of timings, its row and its marker."""
    shape = Shape(runs=settings.files // _FILES_OF_A_RUN, kernels=1, samples=10)
    for run in new_runs(shape.runs):
        rows = next(batches(run, shape))
        write(folder, run, (rows[:40], rows[40:80]))
    return folder


def _compact(root: LocalRoot) -> None:
    seen = survey(root)
    for day in seen.days:
        result = compact_day(root, day, seen)
        if result.problems:
            raise NotMeasuredError(str(result))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _ratio(ours: list[float], peer: list[float]) -> float:
    return median(one / other for one, other in zip(ours, peer, strict=True))


@contextmanager
def _clock(into: list[float], clock: Callable[[], float] = time.perf_counter) -> Iterator[None]:
    start = clock()
    yield
    into.append(clock() - start)
