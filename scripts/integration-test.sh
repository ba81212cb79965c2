#!/bin/bash
# integration-test.sh [PYTEST ARGUMENT]... - tests the real daemon with real clients.
# The daemon is COUNTDOWND if set, else .build/debug/countdownd, else .build/release/countdownd.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=Tests/Integration/requirements.txt
venv=.build/venv
if ! cmp -s "$requirements" "$venv/requirements.txt"; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements"
  cp "$requirements" "$venv/requirements.txt"
fi

# Versions of clients that exclude each other, each in its own folder.
while read -r client; do
  folder=.build/clients/$client
  [ -d "$folder" ] && continue
  rm -rf "$folder.partial"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --target "$folder.partial" "$client"
  mv "$folder.partial" "$folder"
done <Tests/Integration/clients.txt

# Compilers and type checkers keep what they have done, for all tests and workers.
export GOCACHE=${GOCACHE:-$PWD/.build/go-cache} MYPY_CACHE_DIR=${MYPY_CACHE_DIR:-$PWD/.build/mypy-cache}
exec "$venv/bin/python" -m pytest -p no:cacheprovider --rootdir=. -o testpaths=Tests/Integration "$@"
