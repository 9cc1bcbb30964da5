"""Framework checks: what of the frameworks' installation, settings and devices falsifies timings, and how to mend it.

Run as ``python -m kernels.framework_check FRAMEWORK``, it tells the state of a fork server's process after its imports.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from kernels import devices
from kernels.case import Backend
from kernels.forkserver import preload
from kernels.frameworks import frameworks
from kernels.host_check import Check, text_of
from kernels.interpreter import OWN_PATH
from kernels.variables import DROPPED, environment

LEAST_COMPILED = 0.9
"""Share of a package's sources that must be there in compiled form; some files are never imported."""

KEEPERS = frozenset({"nvidia-persiste", "nv-hostengine", "dcgm-exporter"})
"""Programs that hold a device open without using it, by the name that the system cuts at 15 letters."""

CHANGES = {
    "OPENBLAS_CORETYPE": "chooses other kernels of the linear algebra library, up to twice as slow",
    "OPENBLAS_L2_SIZE": "changes the blocking of the linear algebra library",
    "MKL_DEBUG_CPU_TYPE": "chooses other kernels of the linear algebra library",
    "MKL_ENABLE_INSTRUCTIONS": "chooses other kernels of the linear algebra library",
    "NPY_DISABLE_CPU_FEATURES": "takes vector instructions away from NumPy",
    "JAX_DISABLE_JIT": "makes JAX run without compiling",
    "JAX_ENABLE_X64": "changes JAX's dtypes",
    "JAX_DEFAULT_MATMUL_PRECISION": "changes JAX's matrix products",
    "JAX_COMPILATION_CACHE_DIR": "answers JAX's compilations from files",
    "JAX_ENABLE_COMPILATION_CACHE": "may answer JAX's compilations from files",
    "JAX_DEBUG_NANS": "makes JAX check every result",
    "NUMBA_DISABLE_JIT": "makes Numba run without compiling",
    "NUMBA_OPT": "changes how far Numba optimises",
    "NUMBA_CPU_NAME": "makes Numba compile for another processor",
    "NUMBA_CACHE_DIR": "names where Numba answers compilations from files",
    "TF_ENABLE_ONEDNN_OPTS": "chooses other kernels of TensorFlow",
    "TF_XLA_FLAGS": "changes what TensorFlow compiles",
    "ATEN_CPU_CAPABILITY": "takes vector instructions away from PyTorch",
    "PYTORCH_JIT": "makes TorchScript run without compiling",
    "TORCHDYNAMO_DISABLE": "makes PyTorch run without compiling",
    "TORCH_COMPILE_DISABLE": "makes PyTorch run without compiling",
    "TORCHINDUCTOR_CACHE_DIR": "answers PyTorch's compilations from files",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "changes PyTorch's compilations",
    "LD_PRELOAD": "replaces libraries in every process",
    "LD_BIND_NOW": "moves the linking of libraries into their import",
    "MALLOC_ARENA_MAX": "changes the allocator",
    "PYTHONMALLOC": "changes the allocator of the interpreter",
    "PYTHONDEVMODE": "makes the interpreter check itself",
    "PYTHONTRACEMALLOC": "makes the interpreter trace every allocation",
    "PYTHONPROFILEIMPORTTIME": "times every import",
}
"""Variables that change what is timed, and how."""

SHOWN = ("CUDA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE", "TPU_VISIBLE_CHIPS")
"""Variables that a user may well mean, as all others of JAX and XLA: shown, and not held against the machine."""

_TPU_LOCK = Path("/tmp/libtpu_lockfile")


def variables(environ: Mapping[str, str]) -> list[Check]:
    """Look for variables that slow a framework's libraries, or change what they compute or keep.

    Args:
        environ: the environment.

    Returns:
        A check per variable that is there; a single one where there is none.
    """
    checks = []
    known = {name for name in environ if name in CHANGES or name in SHOWN or name.startswith(("JAX_", "XLA_"))}
    for name in sorted(known):
        platforms = environ[name].split(",") if name == "JAX_PLATFORMS" else []
        effect = "falls back from one device to another without a word" if len(platforms) > 1 else CHANGES.get(name)
        dropped = "; runs drop it for their cases" if name.startswith(DROPPED) else ""
        found = f"{name}={environ[name]}" + (f": {effect}" if effect else "") + dropped
        checks.append(Check("variable", effect is None, found, f"unset {name}" if effect else ""))
    return checks or [Check("variable", True, "none that slows or changes a framework")]


def compiled_files(name: str, most: int = 1000) -> Check:
    """Look whether a framework has its modules in compiled form: without it, their import takes three times as long.

    Args:
        name: the framework.
        most: no more files of a package are looked at.

    Returns:
        The check.
    """
    adapter = frameworks()[name]
    missing, seen, folders = 0, 0, []
    for module in dict.fromkeys((adapter.MODULE, *adapter.DISTRIBUTIONS)):
        spec = importlib.util.find_spec(module) if module.isidentifier() else None
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            sources = list(
                itertools.islice((file for file in Path(folder).rglob("*.py") if "tests" not in file.parts), most)
            )
            lacking = sum(not Path(importlib.util.cache_from_source(str(file))).exists() for file in sources)
            missing, seen = missing + lacking, seen + len(sources)
            folders += [folder] if lacking else []
    ok = seen == 0 or missing <= (1 - LEAST_COMPILED) * seen
    mend = f"{Path(sys.executable).name} -m compileall -q {' '.join(folders)}"
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):
        mend = f"unset PYTHONDONTWRITEBYTECODE; {mend}"
    return Check("compiled files", ok, f"{name}: {missing} of {seen} modules have no .pyc file", "" if ok else mend)


def preloaded(name: str) -> Check:
    """Look whether a framework opens its device, or starts threads, when its fork server imports it.

    Args:
        name: the framework.

    Returns:
        The check.
    """
    command = [sys.executable, OWN_PATH, "-m", "kernels.framework_check", name]
    try:
        # With one thread each, libraries for linear algebra start none; those that they start survive a fork by design.
        done = subprocess.run(command, env=environment(1), capture_output=True, text=True, timeout=120, check=True)
        state = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, IndexError, ValueError) as error:
        lines = (getattr(error, "stderr", None) or str(error)).strip().splitlines() or ["it printed nothing"]
        return Check("fork server", False, f"{name} cannot be imported: {lines[-1]}", frameworks()[name].INSTALL)
    mend = "look for a plugin, a .pth file or a sitecustomize that does it on import"
    if state["opened"]:
        return Check("fork server", False, f"{name} opens its device on import, before the fork: a case can hang", mend)
    if state["threads"] > 1:
        found = f"{name} starts threads on import, before the fork: {state['threads'] - 1}, and a case can hang"
        return Check("fork server", False, found, mend)
    return Check("fork server", True, f"{name} opens no device and starts no thread before the fork")


def device(backend: Backend) -> Check:
    """Look whether a device is there, and whether others hold it.

    Args:
        backend: gpu or tpu.

    Returns:
        The check.
    """
    name = f"device {backend.value}"
    pids = [pid for pid in devices.holders(backend) if _name(pid) not in KEEPERS]
    if pids:
        held = ", ".join(f"{pid} ({_name(pid) or 'not visible here'})" for pid in pids)
        return Check(name, False, f"busy: held by process {held}", "end that process, or wait for it")
    if not devices.present(backend):
        return Check(name, False, "absent: the system shows none", "install its driver, or pass it to the container")
    if backend is Backend.TPU and _TPU_LOCK.exists():
        return Check(name, False, f"{_TPU_LOCK} is there, and nobody that can be seen holds it", f"rm {_TPU_LOCK}")
    return Check(name, True, "there, and held by nobody")


def main(name: str) -> None:
    """Import what a fork server imports, and print the state of this process as one JSON line.

    Args:
        name: the framework.
    """
    preload(name)
    tasks = Path("/proc/self/task")
    threads = len(list(tasks.iterdir())) if tasks.is_dir() else threading.active_count()
    sys.stdout.write(json.dumps({"opened": frameworks()[name].opened(), "threads": threads}) + "\n")


def _name(pid: int) -> str:
    return text_of(Path(f"/proc/{pid}/comm"))


if __name__ == "__main__":
    main(sys.argv[1])
