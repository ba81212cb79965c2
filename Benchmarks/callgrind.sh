#!/bin/bash
# callgrind.sh [N] - instructions per operation of our wheel with N timers (100,000 unless told), as
# a table. Instructions do not depend on what else the machine does; times are in `make bench-wheel`.
#
# Each run of `timer-bench instructions` ends after one more operation than another, so the
# difference of the two is that operation, and whatever the program does before cancels out.
set -euo pipefail
cd "$(dirname "$0")"
count=${1:-100000}

swift build -c release --product timer-bench >&2
# Older valgrinds stop at debug information as new as this compiler's.
strip -o .build/timer-bench-stripped .build/release/timer-bench

instructions() {
  local log
  log=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null \
    .build/timer-bench-stripped instructions "$1" "$count" 1 0 2>&1) ||
    { echo "$log" >&2; return 1; }
  sed -n 's/.*Collected : *\([0-9]*\).*/\1/p' <<<"$log"
}

nothing=$(instructions nothing)
schedule=$(instructions schedule)

row() {
  awk -v operation="$1" -v more="$2" -v less="$3" -v count="$count" \
    'BEGIN { printf "| %s | %.1f |\n", operation, (more - less) / count }'
}

echo "| operation, $count timers uniform over an hour of 1 µs ticks | instructions |"
echo "|---|--:|"
row schedule "$schedule" "$nothing"
for operation in cancel reschedule expire next; do
  row "$operation" "$(instructions $operation)" "$schedule"
done
