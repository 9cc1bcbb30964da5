#!/bin/sh
# Prepare a base image: check its Python, take set-user-id bits away, add the user and the writable folder.
#   sh system.sh EXTRAS
# What it refuses is one line that begins with "jitmatrix:", which `make image` repeats.
set -eu

refuse() {
  echo "jitmatrix: $1; name one with Python 3.11, 3.12 or 3.13: make image BASE=docker.io/library/python:3.13-slim" >&2
  exit 2
}

command -v python3 >/dev/null || refuse "the base image has no python3"
python3 -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' ||
  refuse "the base image has $(python3 --version)"
python3 -c 'import ensurepip, venv' 2>/dev/null || refuse "the base image's python3 has no venv module (Debian: python3-venv)"

# PyTorch's compiler calls a C++ compiler: for every kernel on a cpu, for its launchers on a gpu. What it compiles are
# modules of this Python, whose headers Debian packs apart.
case "$1" in *torch*)
  include=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
  headers=
  [ -e "$include/Python.h" ] || headers=libpython3-dev
  apt-get -qq update
  apt-get -qq install --yes --no-install-recommends g++ libc6-dev $headers >/dev/null
  rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/debconf/*-old /var/log/apt/* /var/log/dpkg.log
  [ -e "$include/Python.h" ] || refuse "the base image has no $include/Python.h, which PyTorch's compiler needs"
  ;;
esac

# Nobody changes users in here.
find / -xdev -type f -perm /6000 -exec chmod a-s {} +

echo 'jitmatrix:x:10001:10001:jitmatrix:/tmp:/usr/sbin/nologin' >>/etc/passwd
echo 'jitmatrix:x:10001:' >>/etc/group
# Whoever an orchestrator runs as writes here: the spool, and results where no root is named.
mkdir -p /var/lib/jitmatrix
chmod 1777 /var/lib/jitmatrix
