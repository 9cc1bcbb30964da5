#!/bin/sh
# Run a command as the child of an init that forwards signals to all of its processes and collects orphans.
set -eu
# Prefect's own server, where no other is named, would spend ten seconds on making its database: this one was made
# when the image was.
if [ -z "${PREFECT_API_URL:-}" ] && [ ! -e "$PREFECT_HOME/prefect.db" ]; then
  mkdir -p "$PREFECT_HOME"
  cp /opt/prefect/prefect.db "$PREFECT_HOME/prefect.db"
fi
exec dumb-init -- "$@"
