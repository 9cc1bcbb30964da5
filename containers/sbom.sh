#!/bin/sh
# Write the software bill of materials of this file system, Debian's packages and Python's: sh sbom.sh FILE
set -eu
file=$1
sh "$(dirname "$0")/install.sh" /tmp/syft sbom.lock
SYFT_CHECK_FOR_APP_UPDATE=false /tmp/syft/bin/syft scan dir:/ --quiet --output "cyclonedx-json=$file" \
  --source-name jitmatrix --exclude './tmp/**' --exclude './proc/**' --exclude './sys/**' --exclude './root/**' \
  --exclude './tools/**'
