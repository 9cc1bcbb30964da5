#!/bin/sh
# Install locks from this folder into a virtual environment: sh install.sh /opt/venv NAME.lock ...
set -eu
cd "$(dirname "$0")"
venv=$1
shift

# Certificates of the machine that builds, where it needs its own to reach a package index.
if [ -s /run/secrets/ca ]; then
  export PIP_CERT=/run/secrets/ca
fi
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_CACHE_DIR=/root/.cache/pip

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
for lock in "$@"; do
  where=
  case "$lock" in cpu-torch*)
    # PyPI's PyTorch for Linux carries CUDA; the one without is a file of wheels/, or in PyTorch's own index.
    where=--extra-index-url=https://download.pytorch.org/whl/cpu
    for wheel in wheels/torch-*.whl; do
      [ ! -e "$wheel" ] || where=--find-links=wheels
    done
    ;;
  esac
  "$venv/bin/python" -m pip install --quiet --require-hashes --requirement "$lock" $where
done

# What nothing here runs is a sixth of it: tests of packages (numpy.testing, which users import, needs NumPy's own), the
# services of AWS that are not storage or sign-in, Arrow's network protocol and headers, and symbols for debuggers.
find "$venv" -type d -name tests -not -path '*/numpy/*' -prune -exec rm -rf {} +
for site in "$venv"/lib/python3*/site-packages; do
  find "$site/botocore/data" -mindepth 1 -maxdepth 1 -type d \
    -not -name s3 -not -name sts -not -name sso -not -name sso-oidc -not -name signin -exec rm -rf {} + 2>/dev/null || true
  rm -rf "$site"/pyarrow/include "$site"/pyarrow/src "$site"/pyarrow/libarrow_flight.so.* "$site"/pyarrow/_flight.* \
    "$site"/pyarrow/libarrow_python_flight.so*
done
if command -v strip >/dev/null; then
  for library in jaxlib/libjax_common.so llvmlite/binding/libllvmlite.so; do
    find "$venv" -path "*/$library" -exec strip --strip-unneeded {} +
  done
fi
