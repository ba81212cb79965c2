#!/bin/bash
# nightly.sh SEED - runs the tests that take too long for each change: about two hours on two cores.
#
# Continues after a failure, lists the failed steps at the end, and then exits with status 1. Each
# night has another seed; a failure prints the seed that reproduces it.
set -uo pipefail
cd "$(dirname "$0")/.."

seed=$1
failed=()

step() {
  printf '\n== %s  make %s\n' "$(date +%T)" "$*"
  make "$@" || failed+=("make $*")
}

step test-release
step check-instructions
step test-deb
step check-tarball
step walk
step simulate STEPS=100000 SEED=0
step simulate STEPS=1000000 SEED="$seed"
step simulate-replay STEPS=1000000 SEED="$seed"
step simulate-fleet STEPS=4000 SEED=0
step simulate-fleet STEPS=400000 SEED="$seed"
step fuzz SECONDS_OF_FUZZ=60 SEED=0
step fuzz SECONDS_OF_FUZZ=480 SEED="$seed"
step torture ROUNDS=400 SEED="$seed"
step torture-timers
step every-call
step damage SECONDS_OF_DAMAGE=240 SEED="$seed"
step soak SECONDS_OF_SOAK=300 SEED="$seed"
step test-fleet LOSSES=20 FAULTS=21 PAUSE_S=20 ANSWER_MS=260 WRITE_MS=3000 SECONDS_OF_POLICY=600 KEYS=10000 KILL_EVERY=60 \
  DURATION=20
step examples
step benchmarks
step bench-loading
step test-screen
step test-screen BROWSER=firefox
step sanitize SECONDS_OF_FUZZ=240 SEED="$seed"

if [ ${#failed[@]} -gt 0 ]; then
  printf '\nfailed (seed %s):\n' "$seed"
  printf '  %s\n' "${failed[@]}"
  exit 1
fi
printf '\nall passed (seed %s)\n' "$seed"
