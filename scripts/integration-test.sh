#!/bin/bash
# integration-test.sh [PYTEST ARGUMENT]... - the real daemon with real clients.
# Tests .build/debug/countdownd, else .build/release/countdownd, or what COUNTDOWND names.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=Tests/Integration/requirements.txt
venv=.build/venv
if ! cmp -s "$requirements" "$venv/requirements.txt"; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements"
  cp "$requirements" "$venv/requirements.txt"
fi

# Clients whose versions exclude each other, each in a folder of its own.
while read -r client; do
  folder=.build/clients/$client
  [ -d "$folder" ] && continue
  rm -rf "$folder.partial"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --target "$folder.partial" "$client"
  mv "$folder.partial" "$folder"
done <Tests/Integration/clients.txt
exec "$venv/bin/python" -m pytest -p no:cacheprovider -o testpaths=Tests/Integration "$@"
