#!/bin/bash
# nightly.sh SEED - everything that takes too long for each change, one after the other.
#
# Goes on after a failure, lists what has failed at the end, and then ends with status 1. The seed is
# another one each night; what fails prints the one that plays it again.
set -uo pipefail
cd "$(dirname "$0")/.."

seed=$1
failed=()

step() {
  printf '\n== %s  make %s\n' "$(date +%T)" "$*"
  make "$@" || failed+=("make $*")
}

step fuzz SECONDS_OF_FUZZ=1800 SEED="$seed"
for offset in 0 1000000 2000000; do
  step simulate STEPS=2000000 SEED=$((seed + offset))
done
step torture ROUNDS=200 SEED="$seed"
step damage SECONDS_OF_DAMAGE=1200 SEED="$seed"
step test-deb
step sanitize SECONDS_OF_FUZZ=600 SEED="$seed"
step examples
step soak SECONDS_OF_SOAK=1800 SEED="$seed"

if [ ${#failed[@]} -gt 0 ]; then
  printf '\nfailed (seed %s):\n' "$seed"
  printf '  %s\n' "${failed[@]}"
  exit 1
fi
printf '\nall passed (seed %s)\n' "$seed"
