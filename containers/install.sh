#!/bin/sh
# Install locks from this folder into a virtual environment: sh install.sh /opt/venv NAME.lock ...
# In /tools is the file system of a stage that has pip, strip and the folder wheels.
set -eu
cd "$(dirname "$0")"
venv=$1
shift

# Certificates of the machine that builds, where it needs its own to reach a package index.
if [ -s /tmp/ca.pem ]; then
  export PIP_CERT=/tmp/ca.pem
fi
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_CACHE_DIR=/tmp/pip

python3 -m venv --without-pip "$venv"
for lock in "$@"; do
  where=
  case "$lock" in cpu-torch*)
    # PyPI's PyTorch for Linux carries CUDA; the one without is a file of wheels/, or in PyTorch's own index.
    where=--extra-index-url=https://download.pytorch.org/whl/cpu
    for wheel in /tools/wheels/torch-*.whl; do
      [ ! -e "$wheel" ] || where=--find-links=/tools/wheels
    done
    ;;
  esac
  /tools/opt/pip/bin/python -m pip --python "$venv/bin/python" install --quiet --no-compile --require-hashes \
    --requirement "$lock" $where
done

# What nothing here runs is a fifth of it: tests of packages (numpy.testing, which users import, needs NumPy's own), what
# type checkers and Cython read, the services of AWS that are not storage or sign-in, Arrow's network protocol and
# headers, and symbols for linkers and debuggers. Libraries of NVIDIA, PyTorch, TensorFlow and libtpu stay as they are,
# and those that a wheel took along (*.libs), whose layout was changed before.
find "$venv" -type d -name tests -not -path '*/numpy/*' -prune -exec rm -rf {} +
find "$venv" -type f \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' \) -delete
for site in "$venv"/lib/python3*/site-packages; do
  find "$site/botocore/data" -mindepth 1 -maxdepth 1 -type d \
    -not -name s3 -not -name sts -not -name sso -not -name sso-oidc -not -name signin -exec rm -rf {} + 2>/dev/null || true
  rm -rf "$site"/pyarrow/include "$site"/pyarrow/src "$site"/pyarrow/libarrow_flight.so.* "$site"/pyarrow/_flight.* \
    "$site"/pyarrow/libarrow_python_flight.so*
  find "$site" \( -name '*.libs' -o -path "$site/nvidia" -o -path "$site/torch" -o -path "$site/tensorflow" \
    -o -path "$site/libtpu" \) -prune -o -type f -name '*.so*' -print0 |
    LD_LIBRARY_PATH=$(echo /tools/usr/lib/*-linux-gnu) xargs -0 -r -P "$(nproc)" -n 16 /tools/usr/bin/strip --strip-unneeded
done
# Compiled now that it is cut, on all processors. Some packages carry templates that are no Python: they stay as they are.
"$venv/bin/python" -m compileall -qq -j 0 "$venv/lib" || true
