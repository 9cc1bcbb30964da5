"""Build images, each with its description, its log and its bill of materials beside it; ``make image`` runs this.

Run as ``python -m containers.build cpu gpu --jax 0.11.0 --base NAME``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from containers import locks
from containers.engine import Engine
from containers.variant import FOLDER, Variant, version
from kernels import checkout
from kernels.errors import UsageError
from kernels.variables import ROOT

BUILDS = ROOT / "build" / "images"
"""What is written beside a build: its description, its bill of materials, its log."""

SPACE_NBYTES = {"cpu": 6 * 10**9, "gpu": 30 * 10**9, "tpu": 6 * 10**9}
"""What a build needs for a moment: the image, the stages that it is built in, and the index's files."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Build images, one after the other.

    Args:
        arguments: of the command line; None takes those of the process.

    Returns:
        0, 2 where one cannot be built, or 130 where it was interrupted.
    """
    parser = argparse.ArgumentParser(
        prog="python -m containers.build",
        description=__doc__.partition("\n")[0] if __doc__ else None,
        allow_abbrev=False,
    )
    parser.add_argument("backends", nargs="+", metavar="BACKEND", help="cpu, gpu or tpu")
    parser.add_argument("--extras", default="", help="frameworks beside the core set, separated by commas")
    parser.add_argument("--jax", default="", help="a version of JAX other than the lock's")
    parser.add_argument("--base", default="", help="a base image other than the Dockerfile's")
    options = parser.parse_args(arguments)
    try:
        variants = [Variant.of(backend, options.extras, options.jax) for backend in options.backends]
        engine = Engine.here()
        for variant in variants:
            build(variant, engine, options.base)
    except UsageError as error:
        sys.stderr.write(f"jitmatrix: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def build(variant: Variant, engine: Engine, base: str = "") -> dict[str, object]:
    """Build one image, and write what it is beside the build.

    Args:
        variant: which.
        engine: by what.
        base: a base image other than the Dockerfile's.

    Returns:
        The description, as it stands in ``build/images/<repository>-<tag>.json``.

    Raises:
        UsageError: it cannot be built.
    """
    start = time.monotonic()
    locks.check([*variant.locks, "sbom"])
    free = shutil.disk_usage(_storage(engine)).free
    needed = SPACE_NBYTES[variant.backend]
    if free < needed:
        raise UsageError(
            f"{free / 1e9:.1f} GB are free where {engine.name} keeps images, and the {variant.backend} image takes up "
            f"to {needed / 1e9:.0f} while it is built; make room, such as by {engine.name} system prune"
        )
    names = [f"{name}.lock" for name in variant.locks]
    made = FOLDER / f"{variant.backend}-{variant.tag}.lock" if variant.jax else None
    try:
        if made:
            made.write_text(locks.for_jax(variant), encoding="utf-8")
            names = [made.name]
        content = variant.content(base, [FOLDER / name for name in names])
        newest = f"{variant.repository}:{variant.tag}"
        image = f"{newest}-{content}"
        revision = commit()
        given = {
            "EXTRAS": " ".join(variant.extras),
            "LOCKS": " ".join(names),
            "VERSION": version(),
            "COMMIT": revision,
            "IMAGE": image,
            **({"BASE_IMAGE": base} if base else {}),
        }
        sys.stderr.write(f"{image}, by {engine.name}\n")
        beside = BUILDS / f"{variant.repository}-{variant.tag}"
        engine.build(given, [image, newest], variant.dockerfile, ROOT, beside.with_name(f"{beside.name}.log"))
        if made:
            shutil.copyfile(made, beside.with_name(f"{beside.name}.lock"))
    finally:
        if made:
            made.unlink(missing_ok=True)
    bill = beside.with_name(f"{beside.name}.cdx.json")
    bill.write_bytes(engine.file(image, "/opt/sbom.cdx.json"))
    found = {
        "image": image,
        "newest": newest,
        "digest": engine.digest(image),
        "nbytes": engine.nbytes(image),
        "commit": revision,
        "locks": names,
        "engine": engine.name,
        "seconds": round(time.monotonic() - start, 1),
    }
    beside.with_name(f"{beside.name}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(
        f"{newest}: {found['nbytes'] / 1e9:.2f} GB unpacked, in {found['seconds']:g} s\n"  # type: ignore[operator]
        f"  {found['digest']}\n  bill of materials: {bill.relative_to(ROOT)}\n"
    )
    return found


def commit() -> str:
    """Read the commit that is built.

    Returns:
        Its hash, with ``-dirty`` behind it where the checkout differs, as git describes one; empty outside a checkout.
    """
    head, changed = checkout.state()
    return f"{head}-dirty" if head and changed else head or ""


def _storage(engine: Engine) -> Path:
    """Find the folder whose disk takes the image; that of the checkout where the engine does not tell."""
    told = engine.storage()
    return told if told and told.is_dir() else ROOT


if __name__ == "__main__":
    sys.exit(main())
