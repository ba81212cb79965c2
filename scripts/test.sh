#!/bin/bash
# test.sh [check|integration] - runs all tests: those in Swift, which compute, beside those of the
# daemon, which wait; and what measures time or load last, alone.
#
# `check` runs lint and those tests that find most mistakes; `integration` leaves out those in Swift.
# The Swift tests, and the daemon unless COUNTDOWND names another one, are of the debug build.
set -uo pipefail
cd "$(dirname "$0")/.."

what=${1:-all}
log=.build/swift-tests.log
integration_log=.build/integration-tests.log
swift=
# Names the tests, too: the end of a long output is what records keep.
failed=()

# Swift tests that take longer than the others: random histories and input, and large tables.
long='SimulationTests|OracleTests|FuzzTests|ReplayTests|ListingTests|TableTests|FleetServersTests|NestingTests'
long+='|FreeIndicesTests|OwnerTests|ShardsTests|MemoryTests|aSlowReaderMakesTheDaemonWait'

part() { printf '\n== %s  %s\n' "$(date +%T)" "$*"; }

# fails WHAT LOG SCRIPT - notes what failed, and the tests that a script of sed finds in LOG.
fails() {
  failed+=("$1:")
  mapfile -t -O ${#failed[@]} failed < <(sed -nE "$3" "$2")
}

# end PID - ends a process and all that it has started.
end() {
  local child
  for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do end "$child"; done
  kill -KILL "$1" 2>/dev/null
}
trap '[ -z "$swift" ] || end "$swift"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# One after another: side by side, those that fill the memory with many things slow each other and
# everything else down. In a session of its own, Ctrl-C ends nothing of it before `end` does.
start_swift() {
  COUNTDOWND=$PWD/.build/debug/countdownd \
    setsid swift test --no-color-diagnostics --skip-build --no-parallel "$@" >"$log" 2>&1 &
  swift=$!
}

# Prints how many passed, or what did not.
end_swift() {
  part "Swift tests: $log"
  if wait "$swift"; then
    tail -1 "$log"
  else
    fails "Swift tests" "$log" 's/^✘ Test (.*) failed after .*/  \1/p'
    grep -vE '^[^ ]+ (Test .*\(.*|Suite .*) (started|passed after [0-9.]+ seconds)\.$' "$log" | tail -100
  fi
  swift=
  # Skipped, or ended by itself: in CI, no Swift test may be.
  if [ -n "${CI:-}" ] && grep -E '^➜ (Test|Suite) ' "$log"; then failed+=("Swift tests are skipped"); fi
}

integration() {
  part "integration tests $*"
  COUNTDOWND=${COUNTDOWND:-$PWD/.build/debug/countdownd} scripts/integration-test.sh -q "$@" |
    tee "$integration_log" && return
  # A test's name may have blanks; its error comes after " - ".
  fails "integration tests $*" "$integration_log" \
    's/^(FAILED|ERROR) ([^ ].*)/  \2/; T; s/ - .*//; p'
}

workers=(-n "${WORKERS:-6}" --dist loadgroup)
case $what in
  check)
    start_swift --skip "$long"
    part lint
    make --no-print-directory lint || failed+=(lint)
    ROUNDS=2 integration "${workers[@]}" Tests/Integration/test_{reference,bad_input,store_trouble,torture}.py
    end_swift
    ;;
  all | integration)
    [ "$what" = integration ] || start_swift
    integration -m "not alone" "${workers[@]}" --durations=10
    [ "$what" = integration ] || end_swift
    integration -m alone --durations=10
    ;;
esac

if [ ${#failed[@]} -gt 0 ]; then
  printf '\nfailed:\n'
  printf '  %s\n' "${failed[@]}"
  exit 1
fi
