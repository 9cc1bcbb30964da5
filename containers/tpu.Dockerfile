# The tpu image: JAX with libtpu from wheels, for a virtual machine or node that has TPU chips. `make image` builds it; docs/containers.md says how it is run.
# The base: any image with Python 3.11, 3.12 or 3.13. This one by digest, so that a build next month is this build.
ARG BASE_IMAGE=docker.io/library/python:3.13.15-slim-trixie@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${BASE_IMAGE} AS system
ARG EXTRAS=""
COPY containers/system.sh /build/
RUN sh /build/system.sh "$EXTRAS" && rm -r /build

FROM system AS packages
# For strip, which takes a tenth off the image. Its version is the base's own.
# hadolint ignore=DL3008
RUN apt-get -qq update && apt-get -qq install --yes --no-install-recommends binutils >/dev/null \
    && rm -rf /var/lib/apt/lists/*
ARG LOCKS="tpu.lock"
COPY containers/install.sh containers/tpu*.lock containers/wheels /build/
RUN --mount=type=cache,target=/root/.cache/pip --mount=type=secret,id=ca \
    sh /build/install.sh /opt/venv $LOCKS
# The pages of a Prefect server that people look at: an image has its worker's, and its own is looked at by nobody.
RUN rm -rf /opt/venv/lib/python3*/site-packages/prefect/server/ui*

FROM packages AS sbom
COPY containers/sbom.sh containers/sbom.lock /build/
RUN --mount=type=cache,target=/root/.cache/pip --mount=type=secret,id=ca \
    sh /build/sbom.sh /sbom.cdx.json

FROM system
ENV PATH=/opt/venv/bin:$PATH
COPY --from=packages /opt/venv /opt/venv
COPY --from=sbom /sbom.cdx.json /opt/sbom.cdx.json
RUN PREFECT_HOME=/opt/prefect prefect server database upgrade --yes >/dev/null && chmod -R a+rX /opt/prefect

# Where Prefect, boto3 and the frameworks may write is /tmp; the root file system can be read-only.
ENV HOME=/tmp \
    PREFECT_HOME=/tmp/prefect \
    PREFECT_SERVER_ANALYTICS_ENABLED=false \
    DO_NOT_TRACK=1 \
    PYTHONUNBUFFERED=1 \
    JITMATRIX_SPOOL=/var/lib/jitmatrix/spool \
    JITMATRIX_BACKEND=tpu \
    XLA_PYTHON_CLIENT_PREALLOCATE=false
# Threads are not fixed here: jitmatrix gives OpenMP, OpenBLAS, MKL and Numba one thread for each processor that the
# container may run on, before a case's process starts, and XLA takes as many by itself. So give a container processors
# of its own (--cpuset-cpus): under a quota (--cpus) more threads than it pays for are stopped in turns, and rows say so.
# XLA_FLAGS stays unset: what is measured is the compiler as its users have it. A flag given at `run` is recorded.
# Memory of the device is taken as a case needs it, not at JAX's start. LIBTPU_INIT_ARGS stays unset as XLA_FLAGS does.

COPY README.md pyproject.toml /opt/jitmatrix/
COPY kernels /opt/jitmatrix/kernels
COPY flows /opt/jitmatrix/flows
COPY selfcheck /opt/jitmatrix/selfcheck
COPY containers/entrypoint.sh /opt/jitmatrix/
# Compiled now: nobody can write beside the sources later, and an import would compile them each time.
RUN pip install --quiet --no-cache-dir --no-deps --no-build-isolation --root-user-action ignore \
    --editable /opt/jitmatrix && python -m compileall -q /opt/jitmatrix

VOLUME /var/lib/jitmatrix
WORKDIR /var/lib/jitmatrix
USER 10001:10001
ENTRYPOINT ["/bin/sh", "/opt/jitmatrix/entrypoint.sh"]
CMD ["jitmatrix", "bench", "--matrix", "smoke", "--framework", "jax", "--backend", "tpu"]
# One real operation on the image's backend. Once a day: a check in the middle of a case would be in its timing.
HEALTHCHECK --interval=24h --timeout=2m --retries=1 CMD ["python", "-m", "kernels.health"]

# What changes with every build comes last.
ARG VERSION=unknown
ARG COMMIT=""
ARG IMAGE=""
ENV JITMATRIX_COMMIT=${COMMIT} JITMATRIX_IMAGE=${IMAGE}
LABEL org.opencontainers.image.title="jitmatrix-tpu" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
