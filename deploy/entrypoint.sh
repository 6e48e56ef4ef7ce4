#!/bin/sh
# Starts `sluice serve` in the container. A token from SLUICE_TOKEN_FILE or SLUICE_TOKEN goes to the token file of the
# data folder: it is in no command line, and no agent inherits it.
set -eu
umask 077
data=${SLUICE_DATA:-/data}
token=
if [ -n "${SLUICE_TOKEN_FILE:-}" ]; then
  token=$(cat "$SLUICE_TOKEN_FILE")
elif [ -n "${SLUICE_TOKEN:-}" ]; then
  token=$SLUICE_TOKEN
fi
if [ -n "$token" ]; then
  printf '%s\n' "$token" > "$data/token.new"
  mv "$data/token.new" "$data/token"
fi
unset SLUICE_TOKEN SLUICE_TOKEN_FILE token
exec sluice serve --host 0.0.0.0 --port 7411 --data "$data" "$@"
