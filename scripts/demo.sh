#!/bin/bash
# demo.sh BINARIES - a tour of all kinds with its own daemon: each part runs commands and shows the
# events that clients receive. On a terminal any key skips to the next part, and q ends the tour.
set -euo pipefail

binaries=${1:?usage: demo.sh DIRECTORY_OF_BINARIES}
home=$(mktemp -d)
daemon='' watcher=''
finish() {
  trap - EXIT
  for process in $watcher $daemon; do
    kill "$process" 2>/dev/null && wait "$process" 2>/dev/null || true
  done
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

bold='' dim='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR-}" ] && [ "${TERM-}" != dumb ]; then
  bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'
fi

# Set while the rest of a part is skipped.
skipping=''

# Waits $1 seconds; a key skips the rest of the part, or ends the tour.
pause() {
  local key=''
  [ -z "$skipping" ] || return 0
  if [ ! -t 0 ]; then
    sleep "$1"
  elif IFS= read -rsn1 -t "$1" key; then
    [ "$key" != q ] || exit 0
    skipping=yes
  fi
}

part() {
  stop_watching
  skipping=''
  printf '\n%s%s%s\n' "$bold" "$1" "$plain"
  pause 1
}

say() {
  [ -z "$skipping" ] || return 0
  printf '\n%s\n' "$*"
  pause 1.2
}

# Prints a command of countdownctl and runs it, then waits ${then:-0.6} seconds. A refusal is part
# of the tour.
ctl() {
  local words='' word
  [ -z "$skipping" ] || return 0
  for word in "$@"; do
    case $word in *[!A-Za-z0-9_:,./+=%-]*) words+=" '$word'" ;; *) words+=" $word" ;; esac
  done
  printf '%s$ countdownctl%s%s\n' "$dim" "$words" "$plain"
  "$binaries/countdownctl" "$@" || true
  pause "${then:-0.6}"
}

# Prints the events of these channels between the commands until the part ends.
watch_events() {
  [ -z "$skipping" ] || return 0
  "$binaries/countdownctl" watch "$@" 2>/dev/null \
    > >(sed -uE '/  snapshot  /d; s/  generation [0-9]+//; s/^/    event  /') &
  watcher=$!
  pause 0.4
}

stop_watching() {
  [ -n "$watcher" ] || return 0
  kill "$watcher" 2>/dev/null || true
  wait "$watcher" 2>/dev/null || true
  watcher=''
}

printf 'A tour of countdownd, about a minute long.'
[ ! -t 0 ] || printf ' Any key skips a part, q ends the tour.'
echo

part 'Countdown: may I send another verification code?'
ctl start +4512345678 6s --title 'Resend in %d s' --ready-title 'Resend code'
say 'A double tap, a reload, a second server: refused, and nothing changes.'
ctl start +4512345678 6s
say 'This is what the button shows, live:'
[ -n "$skipping" ] || "$binaries/countdownctl" watch +4512345678 --exit-when-ready || true
say 'A tap on "Resend code" sends again:'
ctl resend +4512345678

part 'HUD: a progress indicator that does not flicker'
watch_events hud:checkout
say 'Show it only if the work takes longer than 300 ms, then for at least 1 s. This takes 100 ms:'
then=0.1 ctl hud show checkout --grace 300ms --min 1s --status Paying
ctl hud dismiss checkout
say 'This takes longer, so it appears, and stays for its second:'
ctl hud show checkout --grace 300ms --min 1s --status Paying
ctl hud dismiss checkout
pause 1.5

part 'Timer: something is due later'
watch_events timer:tea
ctl timer set tea 2s --payload 'tea is ready'
pause 2.2

part 'Throttle: at most two tries in ten seconds'
for _ in 1 2 3; do ctl throttle take login:10.0.0.7 --burst 2 --rate 2/10s; done

part 'Once: run something at most once per key'
ctl once begin order-7 --ttl 24h
ctl once done order-7 paid
say 'The same request again gets the stored result:'
ctl once begin order-7 --ttl 24h

part 'Gate: run an action now if the session is open, else after the login'
watch_events gate:session-9
ctl gate check session-9 buy --payload 4711
say 'The person logs in, and one client takes the action:'
ctl gate open session-9 --ttl 30m
ctl gate take session-9

part 'Debounce: one event for many calls'
watch_events debounce:draft-3
for text in H He Hello; do ctl debounce call draft-3 1s --payload "$text"; done
pause 1.2

part 'Scope: an owner in a tree; what it owns is cancelled with it'
watch_events scope:app scope:register countdown:sms
ctl scope open app
ctl scope open register --parent app
ctl start sms 60s --owner scope:register
ctl scope close app
pause 0.4

part 'Navigation: pages in a stack, and a swipe back that can be cancelled'
watch_events nav:main
ctl nav push main home
ctl nav push main register
ctl nav swipe main --x 5 --dx 12
ctl nav cancel main
ctl nav pop main

part 'Page: a first load with an error page and a retry'
watch_events page:orders
ctl page appear orders --timeout 10s
ctl page failed orders --message offline
ctl page retry orders
ctl page loaded orders --items 12

stop_watching
printf '\n%smake run starts a daemon that stays.%s\n' "$bold" "$plain"
