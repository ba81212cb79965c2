#!/bin/bash
# callgrind.sh [N] - prints a table of the instructions per operation of our wheel with N timers
# (default 100,000). They do not depend on other load; `make bench-wheel` measures times.
#
# Two runs of `timer-bench instructions` differ by one operation, so the difference of their counts
# is the cost of that operation.
set -euo pipefail
cd "$(dirname "$0")"
count=${1:-100000}

swift build -c release --product timer-bench >&2
# Older versions of Valgrind cannot read this compiler's debug information.
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
