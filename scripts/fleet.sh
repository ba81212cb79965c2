#!/bin/bash
# fleet.sh BINARIES - runs a Redis server and three daemons that share it, on this machine, to try
# by hand. Ctrl-C ends and removes everything.
set -euo pipefail

binaries=$(realpath "${1:?usage: fleet.sh DIRECTORY_OF_BINARIES}")
home=$(mktemp -d /tmp/countdownd-fleet.XXXXXX)
processes=()
finish() {
  trap - EXIT INT TERM
  # A process that was stopped (SIGSTOP) must be continued before it can end.
  for process in "${processes[@]}"; do kill "$process" && kill -CONT "$process"; done 2>/dev/null
  wait 2>/dev/null || true
  rm -rf "$home"
}
trap finish EXIT
trap 'echo; exit 0' INT TERM

port=''
for try in {7379..7399}; do
  (exec 3<>"/dev/tcp/127.0.0.1/$try") 2>/dev/null || { port=$try; break; }
done
[ -n "$port" ] || { echo "No port from 7379 to 7399 is free." >&2; exit 1; }

# Background processes of a script ignore Ctrl-C, so `finish` can end them in order.
redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$home" --maxmemory-policy noeviction \
  >"$home/redis.log" &
redis=$!
processes+=("$redis")

cat >"$home/fleet.yaml" <<YAML
log-level: warning
policies:
  login: {ladder: [30s, 1m], windows: [3/10m]}
fleet:
  engine: redis
  nodes: ["127.0.0.1:$port"]
  discovery: single
  replicas: 0
YAML
for host in a b c; do
  "$binaries/countdownd" --config "$home/fleet.yaml" --socket "$home/$host" \
    --state-directory "$home/state-$host" 2>"$home/$host.log" &
  processes+=("$!")
  eval "$host=$!"
done
for host in a b c; do
  for _ in {1..200}; do
    "$binaries/countdownctl" --socket "$home/$host" ping >/dev/null 2>&1 && continue 2
    sleep 0.05
  done
  echo "The daemon of host $host does not answer:" >&2
  cat "$home/$host.log" >&2
  exit 1
done

# Its daemon may not have found the server yet.
for _ in {1..200}; do
  "$binaries/countdownctl" fleet init --socket "$home/a" >"$home/init.log" 2>&1 && break
  sleep 0.05
done
grep -q begun "$home/init.log" || { cat "$home/init.log" >&2; exit 1; }

cat <<TEXT
Redis is on port $port (process $redis), and each of the "hosts" a, b and c has a daemon.
In other terminals:

    cd $home
    PATH=$binaries:\$PATH

    countdownctl watch --socket b                         # all countdowns, as host b sees them

    countdownctl start +4512345678 60s --socket a         # accepted on host a,
    countdownctl start +4512345678 60s --socket b         # so refused on host b
    countdownctl get +4512345678 --socket c
    countdownctl fleet status --socket c

    kill -9 $a                                        # host a is lost; b and c go on
    countdownctl list --socket b

    kill -STOP $redis                                     # the server hangs
    countdownctl start other 60s --socket b               # UNSURE or UNAVAILABLE
    countdownctl fleet check --socket b
    kill -CONT $redis
    countdownctl start other 60s --socket b

    redis-cli -p $port FLUSHALL                           # all records are lost, so nobody knows
    countdownctl start other 60s --socket b               # what was sent: refused for 10 minutes
    countdownctl fleet check --socket b
    countdownctl fleet accept-loss --socket b             # goes on at once

Ctrl-C ends all of it.
TEXT
# Waits for Ctrl-C, even if the user kills a daemon or the server.
sleep infinity &
processes+=("$!")
while kill -0 "${processes[-1]}" 2>/dev/null; do wait "${processes[-1]}" || true; done
