# The tpu image: JAX with libtpu from wheels, for a virtual machine or node that has TPU chips. `make image` builds it; docs/containers.md says how it is run.
# The base: any image with Python 3.11, 3.12 or 3.13. This one by digest, so that a build next month is this build.
ARG BASE_IMAGE=docker.io/library/python:3.13.15-slim-trixie@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${BASE_IMAGE} AS system
ARG EXTRAS=""
COPY containers/system.sh /build/
RUN sh /build/system.sh "$EXTRAS" && rm -r /build

FROM system AS tools
# For strip, which takes a fifth off the image, and pip; both are used from here, and no image takes them over. Their versions
# are the base's own.
# hadolint ignore=DL3008
RUN apt-get -qq update && apt-get -qq install --yes --no-install-recommends binutils >/dev/null \
    && rm -rf /var/lib/apt/lists/* && python3 -m venv /opt/pip
COPY containers/wheels /wheels

# Installed where it stays: to copy a gigabyte from one stage to another takes half a minute, even where it is cached.
FROM system AS runtime
ARG LOCKS="tpu.lock"
ENV PATH=/opt/venv/bin:$PATH
COPY containers/install.sh containers/tpu*.lock /build/
# Without the pages of a Prefect server that people look at: an image has its worker's, and its own is looked at by
# nobody.
RUN --mount=type=bind,from=tools,target=/tools --mount=type=cache,target=/tmp/pip \
    --mount=type=secret,id=ca,target=/tmp/ca.pem sh /build/install.sh /opt/venv $LOCKS \
    && rm -rf /build /opt/venv/lib/python3*/site-packages/prefect/server/ui*
RUN PREFECT_HOME=/opt/prefect prefect server database upgrade --yes >/dev/null && chmod -R a+rX /opt/prefect

FROM runtime AS project
COPY README.md pyproject.toml /opt/jitmatrix/
WORKDIR /opt/jitmatrix
# The packages of the project are empty here: an editable install takes down where they are, and their content comes
# after it, so that a change of it is built in seconds.
RUN --mount=type=bind,from=tools,target=/tools python -c "import os, tomllib; [os.makedirs(name.replace('.', '/')) \
    for name in tomllib.load(open('pyproject.toml', 'rb'))['tool']['setuptools']['packages']]" \
    && /tools/opt/pip/bin/python -m pip --python /opt/venv/bin/python install --quiet --no-cache-dir --no-deps \
    --no-build-isolation --no-warn-script-location --root-user-action ignore --root /project --editable . \
    && mkdir -p /project/opt/jitmatrix && cp README.md pyproject.toml /project/opt/jitmatrix/
COPY kernels /project/opt/jitmatrix/kernels
COPY flows /project/opt/jitmatrix/flows
COPY selfcheck /project/opt/jitmatrix/selfcheck
# Compiled now: nobody can write beside the sources later, and an import would compile them each time.
RUN python -m compileall -q -s /project -p / /project

FROM runtime AS sbom
COPY containers/install.sh containers/sbom.sh containers/sbom.lock /build/
RUN --mount=type=bind,from=tools,target=/tools --mount=type=cache,target=/tmp/pip \
    --mount=type=secret,id=ca,target=/tmp/ca.pem sh /build/sbom.sh /sbom.cdx.json

FROM runtime
COPY --from=sbom /sbom.cdx.json /opt/sbom.cdx.json
COPY containers/entrypoint.sh /opt/jitmatrix/

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

VOLUME /var/lib/jitmatrix
WORKDIR /var/lib/jitmatrix
USER 10001:10001
ENTRYPOINT ["/bin/sh", "/opt/jitmatrix/entrypoint.sh"]
CMD ["jitmatrix", "bench", "--matrix", "smoke", "--framework", "jax", "--backend", "tpu"]
# One real operation on the image's backend. Once a day: a check in the middle of a case would be in its timing.
HEALTHCHECK --interval=24h --timeout=2m --retries=1 CMD ["python", "-m", "kernels.health"]

LABEL org.opencontainers.image.title="jitmatrix-tpu"

# What changes with every build comes last, in few steps: each is a layer that takes its time.
COPY --from=project /project/ /
ARG VERSION=unknown
ARG COMMIT=""
ARG IMAGE=""
# podman and buildah look at the values of arguments where a command is run, and there alone: without one, an image of
# a later commit has the name of the earlier in its environment and labels.
RUN test -n "${VERSION}${COMMIT}${IMAGE}"
ENV JITMATRIX_COMMIT=${COMMIT} JITMATRIX_IMAGE=${IMAGE}
LABEL org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
