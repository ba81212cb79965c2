#!/bin/bash
# demo.sh BINARIES - starts a private daemon, plays a verification-code flow and a HUD flow, and stops it.
# On a terminal the countdown is drawn live; elsewhere its events are printed.
set -euo pipefail

binaries=${1:?usage: demo.sh DIRECTORY_OF_BINARIES}
home=$(mktemp -d)
daemon=
finish() {
  trap - EXIT
  if [ -n "$daemon" ]; then kill "$daemon" 2>/dev/null && wait "$daemon" || true; fi
  rm -rf "$home"
}
trap finish EXIT
trap 'exit 130' INT TERM

export COUNTDOWND_SOCKET=$home/s.sock
"$binaries/countdownd" --socket "$COUNTDOWND_SOCKET" --state-directory "$home/state" \
  --log-level warning 2>"$home/log" &
daemon=$!
for _ in {1..100}; do
  "$binaries/countdownctl" ping >/dev/null 2>&1 && break
  kill -0 "$daemon" 2>/dev/null || { cat "$home/log" >&2; exit 1; }
  sleep 0.05
done

bold= plain=
if [ -t 1 ] && [ -z "${NO_COLOR-}" ]; then bold=$'\e[1m' plain=$'\e[0m'; fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; sleep 1; }
ctl() {
  printf '$ countdownctl %s\n' "$(printf '%s ' "$@")"
  "$binaries/countdownctl" "$@" || true
}

say "A person asks for a verification code. May it be sent? If so, the countdown starts."
ctl start +4512345678 --count 6 --title '%ds后重发' --ready-title '重发验证码'
say "A double tap, a page refresh, a second server: refused, and nothing changes."
ctl start +4512345678 --count 6
say "The button, live:"
ctl watch +4512345678 --exit-when-ready
say "The tap on the button that says 重发验证码 (send again):"
ctl resend +4512345678
ctl cancel +4512345678

say "A progress HUD that must not flicker: no sooner than after 300 ms, then for 1 s at least."
"$binaries/countdownctl" watch hud:checkout >"$home/events" 2>&1 &
watcher=$!
sleep 0.3
say "The work is done after 100 ms: nothing is ever shown."
ctl hud show checkout --grace 300ms --min 1s --status Paying
sleep 0.1
ctl hud dismiss checkout
say "This time it takes 500 ms: the HUD appears, and stays for its second."
ctl hud show checkout --grace 300ms --min 1s --status Paying
sleep 0.5
ctl hud dismiss checkout
sleep 1.6
kill "$watcher" 2>/dev/null || true
wait "$watcher" 2>/dev/null || true
printf '\n%sWhat the app heard:%s\n' "$bold" "$plain"
cat "$home/events"
say "make run starts a daemon that stays."
