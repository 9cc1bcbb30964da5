"""Engine: docker, podman or buildah, whichever is there; builds, and tells what it built."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernels.errors import UsageError

NAMES = ("docker", "podman", "buildah")
"""In the order in which they are looked for."""

_STEP = re.compile(r"^(\[\d/\d\] )?STEP \d+/\d+: |^#\d+ \[")

_CAUSES = (
    (
        re.compile(r"no space left on device", re.IGNORECASE),
        "there is no space left where {engine} keeps images; {prune}",
    ),
    (
        re.compile(r"(/bin/sh|sh)\W.*(no such file or directory|not found in \$PATH|cannot find)", re.IGNORECASE),
        "the base image {base} has no shell, and so no python3; name one with Python 3.11, 3.12 or 3.13: "
        "BASE=docker.io/library/python:3.13-slim",
    ),
    (
        re.compile(
            r"manifest unknown|pull access denied|initializing source|pinging|dial tcp|no such host|i/o timeout",
            re.IGNORECASE,
        ),
        "the base image {base} cannot be had; is its name right, and its registry in reach? `make base` makes one from "
        "Debian packages: make image BASE=localhost/jitmatrix-base",
    ),
    (
        re.compile(r"hashes are required|do not match the hashes|No matching distribution"),
        "a lock does not fit the base image's Python, or the index's files; run make lock, or name a base with "
        "Python 3.13",
    ),
)
"""What an engine's output says, and what it means for whoever reads one line."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A command that builds images.

    Attributes:
        name: of ``NAMES``.
    """

    name: str

    @classmethod
    def here(cls, *, runs: bool = False) -> Engine:
        """Find an engine that answers.

        Args:
            runs: whether it must run containers too, which buildah is not for.

        Returns:
            The first of ``NAMES`` that does.

        Raises:
            UsageError: none does; the message says why.
        """
        silent = []
        for name in NAMES[:2] if runs else NAMES:
            if shutil.which(name) is None:
                continue
            # Docker's command may be there without its daemon.
            done = subprocess.run([name, "info"], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return cls(name)
            silent.append(f"{name} does not answer ({_last(done.stderr or done.stdout)})")
        wanted = " or ".join(NAMES[:2]) if runs else "docker, podman or buildah"
        raise UsageError(f"no engine for images here: {'; '.join(silent) or 'none is on PATH'}; install {wanted}")

    def build(
        self, arguments: Mapping[str, str], tags: Sequence[str], dockerfile: Path, context: Path, log: Path
    ) -> None:
        """Build an image, with a line on standard error for each step.

        Args:
            arguments: build arguments.
            tags: names of the image.
            dockerfile: what it is built by.
            context: folder that the Dockerfile copies from.
            log: file for all that the engine says.

        Raises:
            UsageError: it cannot be built; the message is one line with the cause.
            KeyboardInterrupt: the user's; a line on standard error removes what podman or buildah left of the build.
        """
        options = [f"--build-arg={name}={value}" for name, value in arguments.items()]
        options += [f"--tag={tag}" for tag in tags]
        certificates = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
        if certificates and Path(certificates).is_file():
            options.append(f"--secret=id=ca,src={certificates}")
        # The OCI format has no health check, and podman and buildah write it unless told otherwise.
        command = [self.name, "build", "--network=host"]
        command += ["--layers", "--format=docker"] if self.name != "docker" else ["--progress=plain"]
        log.parent.mkdir(parents=True, exist_ok=True)
        before = self._open()
        try:
            lines, status = _followed([*command, *options, f"--file={dockerfile}", str(context)], log)
        except KeyboardInterrupt:
            # Not removed here: another build may have opened one of them meanwhile.
            left = sorted(self._open() - before)
            force = ["--force"] if self.name == "podman" else []
            if left:
                words = " ".join([self.name, "rm", *force, *left])
                sys.stderr.write(f"jitmatrix: interrupted; this removes what it left: {words}\n")
            raise
        if status != 0:
            raise UsageError(f"{cause(lines, self.name, arguments)} (all of it: {log})")

    def digest(self, image: str) -> str:
        """Name an image by its content.

        Args:
            image: a name of it.

        Returns:
            ``name@sha256:…`` where the engine has a digest for it, else its id.
        """
        found = json.loads(self._told("inspect", "--type=image", image))
        entry = found[0] if isinstance(found, list) else found
        if self.name == "buildah":
            return f"{image.rpartition(':')[0]}@{entry['FromImageDigest']}"
        repository = image.rpartition(":")[0]
        named = [each for each in entry.get("RepoDigests") or () if each.partition("@")[0].endswith(repository)]
        return named[0] if named else f"sha256:{str(entry['Id']).removeprefix('sha256:')}"

    def nbytes(self, image: str) -> int:
        """Give how large an image is, unpacked.

        Args:
            image: a name of it.

        Returns:
            Bytes, all layers together.
        """
        if self.name == "buildah":
            found = json.loads(self._told("images", "--json", image))
            return int(
                float(re.sub(r"[^0-9.]", "", found[0]["size"])) * {"M": 1e6, "G": 1e9}[found[0]["size"].split()[1][0]]
            )
        return int(json.loads(self._told("inspect", "--type=image", image))[0]["Size"])

    def file(self, image: str, path: str) -> bytes:
        """Read a file of an image.

        Args:
            image: a name of it.
            path: of the file in it.

        Returns:
            Its content.
        """
        made = self._told("from", "--pull-never", image) if self.name == "buildah" else self._told("create", image)
        made = made.strip()
        try:
            if self.name == "buildah":
                # It runs nothing of the image: a mount is all that is needed.
                return Path(self._told("mount", made).strip(), path.lstrip("/")).read_bytes()
            tar = subprocess.run([self.name, "cp", f"{made}:{path}", "-"], capture_output=True, check=True).stdout
            return _only_file(tar)
        finally:
            # With the volume that it was made with, which has no name.
            self._told("rm", *(["--volumes"] if self.name != "buildah" else []), made)

    def storage(self) -> Path | None:
        """Find where the engine keeps images.

        Returns:
            The folder; None where it is not told, or is on another machine.
        """
        if self.name == "docker":
            return Path(self._told("info", "--format={{.DockerRootDir}}").strip())
        found = json.loads(self._told("info", *(["--format=json"] if self.name == "podman" else [])))
        return Path(found["store"]["GraphRoot"] if self.name == "buildah" else found["store"]["graphRoot"])

    def device_options(self, backend: str) -> list[str]:
        """Give the options that hand the machine's devices to a container.

        Args:
            backend: cpu, gpu or tpu.

        Returns:
            The options; for a tpu those of prefect.yaml: libtpu opens the chips' device files, which are root's.

        Raises:
            UsageError: the engine has no runtime for GPUs.
        """
        if backend == "cpu":
            return []
        if backend == "tpu":
            return ["--privileged", "--user=root", "--network=host"]
        if self.name == "docker":
            runtimes = json.loads(self._told("info", "--format={{json .Runtimes}}"))
            if "nvidia" in runtimes:
                return ["--gpus=all"]
        elif any(path.is_file() for folder in ("/etc/cdi", "/var/run/cdi") for path in Path(folder).glob("nvidia*")):
            return ["--device=nvidia.com/gpu=all"]
        raise UsageError(
            f"{self.name} has no runtime for GPUs here; install NVIDIA's container toolkit, and run nvidia-ctk "
            + (
                "runtime configure --runtime=docker"
                if self.name == "docker"
                else "cdi generate --output=/etc/cdi/nvidia.yaml"
            )
        )

    def _open(self) -> set[str]:
        """List the containers that builds work in; docker's are the daemon's own."""
        words = {"podman": ["ps", "--all", "--external"], "buildah": ["containers"]}.get(self.name)
        if not words:
            return set()
        # Podman fails at a list that another build takes something out of: no reason to build nothing.
        done = subprocess.run([self.name, *words, "--quiet"], capture_output=True, text=True, check=False)
        return set(done.stdout.split())

    def _told(self, *words: str) -> str:
        done = subprocess.run([self.name, *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise UsageError(f"{self.name} {words[0]}: {_last(done.stderr)}")
        return done.stdout


def _followed(command: Sequence[str], log: Path) -> tuple[list[str], int]:
    """Run a build into its log, its steps on standard error; gives the lines that it said, and its exit status."""
    lines = []
    with (
        log.open("w", buffering=1, encoding="utf-8") as kept,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            kept.write(line)
            lines.append(line.rstrip())
            if _STEP.search(line):
                sys.stderr.write(f"  {line.rstrip()[:118]}\n")
    return lines, process.returncode


def cause(lines: Sequence[str], engine: str, arguments: Mapping[str, str]) -> str:
    """Find in an engine's output why a build failed.

    Args:
        lines: what it said.
        engine: its name.
        arguments: of the build.

    Returns:
        One line: what, and how to mend it where it is known.
    """
    for line in reversed(lines):
        said = re.search(r"jitmatrix: .*", line)
        # Not the text of the step itself, which an engine repeats.
        if said and "echo" not in line and "$1" not in line:
            return said.group().removeprefix("jitmatrix: ")
    words = {"engine": engine, "base": arguments.get("BASE_IMAGE", "of the Dockerfile")}
    words["prune"] = (
        "buildah prune --all" if engine == "buildah" else f"{engine} system prune removes what nothing uses"
    )
    for pattern, meaning in _CAUSES:
        for line in reversed(lines):
            if pattern.search(line):
                return meaning.format(**words)
    return next((line for line in reversed(lines) if line.strip()), "it said nothing")[:400]


def _last(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "it said nothing"


def _only_file(archive: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        found = tar.extractfile(tar.getmembers()[0])
        assert found is not None
        return found.read()
