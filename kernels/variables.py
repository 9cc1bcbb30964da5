"""The environment variables of a case's process: the user's, without what falsifies a timing and without secrets."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""Where ``kernels`` lies; processes must take it from there and from no folder that the user stands in."""

DROPPED = (
    "ATEN_CPU_CAPABILITY",
    "DNNL_",
    "JAX_",
    "MKL_DEBUG_CPU_TYPE",
    "MKL_ENABLE_INSTRUCTIONS",
    "NPY_DISABLE_CPU_FEATURES",
    "NUMBA_",
    "ONEDNN_",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "PYTHONDEVMODE",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONMALLOC",
    "PYTHONPROFILEIMPORTTIME",
    "PYTHONSTARTUP",
    "PYTHONTRACEMALLOC",
    "PYTORCH_JIT",
    "TF_CPP_MAX_VLOG_LEVEL",
    "TF_CPP_VMODULE",
    "TF_DUMP_GRAPH_PREFIX",
    "TF_FUNCTION_JIT_COMPILE_DEFAULT",
    "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_XLA_FLAGS",
    "TORCHDYNAMO_",
    "TORCHINDUCTOR_",
    "TORCH_ALLOW_TF32",
    "TORCH_COMPILE",
    "TORCH_LOGS",
    "TORCH_TRACE",
    "TRITON_",
)
"""Prefixes of variables that would change what is compiled, cached or computed behind the case's back."""

SECRET = re.compile(
    r"^(AWS|PREFECT)_|(^|_)(API_?KEY|AUTH_STRING|CREDENTIALS?|PASSWORD|PASSWD|PRIVATE_KEY|SECRET|TOKEN)(_|$)"
)
"""Names of variables that a worker has for its storage and its server: a kernel, which may be anybody's, has no use
for them, and what it prints is stored."""


def environment(threads: int) -> dict[str, str]:
    """Compose the environment in which cases run, before their process starts.

    Args:
        threads: threads that a framework may use.

    Returns:
        The user's environment without what would falsify a timing and without secrets, with thread counts set, and
        with this project first on the module path.
    """
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(DROPPED) and not SECRET.search(name)
    }
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), kept.get("PYTHONPATH"))))
    counts = ("OMP", "OPENBLAS", "MKL", "NUMBA")
    kept |= {f"{library}_NUM_THREADS": str(threads) for library in counts}
    if threads == 1:
        # XLA has no thread count of its own on the CPU: it takes the affinity, and Eigen asks for this.
        kept["XLA_FLAGS"] = f"{kept.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    # Keras, which TensorFlow imports, imports pandas and so Arrow, whose allocator starts a thread before the fork.
    kept["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    return kept | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_CPP_MIN_LOG_LEVEL": "3"}
