"""What torch.compile's own compiler, inductor, did in this process: its programs, caches and fallbacks."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sysconfig
import tempfile
from pathlib import Path

from kernels.errors import UnavailableError
from kernels.frameworks.framework import Compiled, Events

_roots: list[tempfile.TemporaryDirectory[str]] = []
"""The fork server's folder: what a case that was killed leaves in it goes with the server."""


def prepare() -> None:
    """Compile one addition, and forget it.

    The first compilation of a process tries which vector instructions its C++ compiler can use, precompiles a header
    and fills registries. What it finds is kept in the user's own cache, as for any program of theirs, so that it is
    tried once on a machine; the kernels' own compilations see nothing of that cache. One addition starts no threads.
    """
    import torch
    from torch._dynamo.utils import counters

    _in_process()
    _roots.append(tempfile.TemporaryDirectory(prefix="jitmatrix-torch-"))
    # Without a C++ compiler, each case says so.
    with contextlib.suppress(Exception):
        torch.compile(lambda x: x + 1, dynamic=False)(torch.zeros(8))
    torch._dynamo.reset()
    counters.clear()


class Inductor:
    """Counts what is compiled, keeps it in a folder of its own, and tells what was not compiled."""

    def __init__(self, events: Events, cache_dir: str | None, on_host: bool) -> None:
        """Point the compiler at a folder, and listen to it.

        Args:
            events: where traces, compilations and cache hits are counted.
            cache_dir: persistent cache; None takes an empty folder, and looks nothing up in it either.
            on_host: whether programs are compiled for the host.

        Raises:
            UnavailableError: there is no C++ compiler to compile for the host with, or no headers of this Python.
        """
        import torch
        import torch._functorch.config
        import torch._inductor.compile_fx
        from torch._dynamo.utils import counters
        from torch._inductor.graph import GraphLowering

        if on_host:
            _require_compiler()
        _in_process()
        self._events, self._counters, self._config = events, counters, torch._dynamo.config
        self._texts: list[str] = []
        self._private = None if cache_dir else tempfile.mkdtemp(dir=_roots[0].name if _roots else None)
        folder = str(cache_dir or self._private)
        os.environ |= {"TORCHINDUCTOR_CACHE_DIR": folder, "TRITON_CACHE_DIR": str(Path(folder, "triton"))}
        torch._inductor.config.fx_graph_cache = cache_dir is not None
        torch._functorch.config.enable_autograd_cache = cache_dir is not None
        # PyTorch's own tests and tools read programs by this hook; it is called for one from the cache too.
        GraphLowering.save_output_code = staticmethod(self._take)
        torch._dynamo.callback.on_compile_end(self._captured)

    def _take(self, text: str) -> None:
        self._texts.append(text)
        self._events.compiles += 1

    def _captured(self, _: object) -> None:
        self._events.traces += 1
        found = self._counters["inductor"]
        self._events.cache_hits = found["fxgraph_cache_hit"]
        self._events.cache_misses = found["fxgraph_cache_miss"]

    def describe(self) -> Compiled | None:
        """Tell what is known of the programs so far.

        Returns:
            Their text, and of a single program how many inputs it reads; None before the first.
        """
        if not self._texts:
            return None
        text = "\n".join(program_text(text) for text in self._texts)
        return Compiled(text=text, parameters=inputs_read(text) if len(self._texts) == 1 else None)

    def fallbacks(self) -> list[str]:
        """Say what the interpreter did in place of a compiled program.

        Returns:
            A reason for each graph break and refusal, by PyTorch's own counts; one where nothing was compiled.
        """
        kinds = ("graph_break", "unimplemented")
        reasons = sorted({_in_words(reason) for kind in kinds for reason in self._counters[kind]})
        found = [f"torch.compile left a part to the interpreter: {reason}" for reason in reasons]
        if self._config.suppress_errors:
            found.append("torch.compile was told to suppress its errors, and to run uncompiled after one")
        if not self._texts:
            found.append("torch.compile compiled nothing: the interpreter ran the kernel")
        return found

    def close(self) -> None:
        """Remove the private folder."""
        if self._private:
            shutil.rmtree(self._private, ignore_errors=True)


def program_text(text: str) -> str:
    """Take out of a program's text what is not the program: its number, and the code that would run it alone.

    Args:
        text: the Python module that inductor wrote.

    Returns:
        The same for the same program.
    """
    return re.sub(r"^# AOT ID: .*\n", "", text, flags=re.M).partition("\ndef get_args():")[0]


def inputs_read(text: str) -> int | None:
    """Count the inputs that a program reads.

    Args:
        text: the Python module that inductor wrote.

    Returns:
        How many arguments it uses, beyond looking at their shapes; None where the module has another form.
    """
    call = re.search(r"^( *)def call\((?:self, )?args\):\n(?:\1 +.*\n|\s*\n)*", text, re.MULTILINE)
    if call is None:
        return None
    unpacked = re.search(r"^ *([\w, ]+?),? = args$", call.group(), re.MULTILINE)
    if unpacked is None:
        return 0
    body = re.sub(r"^ *(?:assert_size_stride\(.*|assert_alignment\(.*|del .*)$", "", call.group(), flags=re.M)
    names = [name.strip() for name in unpacked.group(1).split(",")]
    return sum(len(re.findall(rf"\b{name}\b", body)) > 1 for name in names)


def _in_words(reason: str) -> str:
    """Take what happened and its explanation, without the hints that follow them and the addresses of objects."""
    words = re.sub(r" at 0x[0-9a-f]+", "", reason).partition("\n  Hint:")[0].partition("\n\n")[0]
    return " ".join(words.replace("\n  Explanation: ", ": ").split())[:300]


def _in_process() -> None:
    """Have no worker processes compile: they would outlive a case, and start while it is timed."""
    import torch._inductor.config

    torch._inductor.config.compile_threads = 1


def _require_compiler() -> None:
    from torch._inductor import cpp_builder, exc

    try:
        cpp_builder.get_cpp_compiler()
    except exc.InvalidCxxCompiler as error:
        reason = "torch.compile needs a C++ compiler for the host, and finds none: install g++, or name one by CXX"
        raise UnavailableError(reason) from error
    # Its programs are modules of this Python. Some distributions pack the headers apart.
    folders = [sysconfig.get_path("include")]
    for name in ("CPATH", "CPLUS_INCLUDE_PATH"):
        folders += os.environ.get(name, "").split(os.pathsep)
    if not any(Path(folder, "Python.h").is_file() for folder in folders if folder):
        raise UnavailableError(
            f"torch.compile needs the headers of this Python, and {folders[0]} has no Python.h: install them "
            "(Debian: libpython3-dev)"
        )
