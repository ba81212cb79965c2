#!/bin/bash
# Runs COMMAND inside a private, real systemd, and ends with COMMAND's exit status.
#
#   scripts/with-systemd.sh [OPTION]... -- COMMAND [ARGUMENT]...
#
#   -r ROOT      boot the system in this directory, instead of this machine's
#   -u UNIT      copy a unit file (or a drop-in directory) to /etc/systemd/system before the boot
#   -c FROM:TO   copy a file or directory of this machine to TO
#   -b PATH      show PATH of this machine at the same place, read-only
#   -B PATH      the same, writable: COMMAND's changes there are kept
#   -t SECONDS   how long COMMAND may take (120)
#   -T SECONDS   how long the boot may take (20)
#
# Inside, systemd is process 1 of private pid, mount, network, ipc, uts and cgroup namespaces, on an
# overlay of this machine's root: programs are the ones installed here (or in ROOT), and every write
# (except below -B) goes to memory and is dropped at the end. /tmp, /run and /dev are empty at first.
# The units of the distribution can be started, but the boot pulls in the journal and D-Bus alone.
#
# Exit status: COMMAND's; 124 when COMMAND took too long; 125 when the boot failed or the call was
# wrong. Needs root, systemd and util-linux.
set -u

usage() { sed -n '4,13s/^# \{0,1\}//p' "$0"; }

fail() {
  echo "with-systemd: $*" >&2
  exit 125
}

# ---- Step 2 of 3: in a private mount namespace. Gives systemd a cgroup, then its namespaces.
make_namespaces() {
  set -e
  local name=$1 own
  mount -t tmpfs -o mode=755 with-systemd /mnt
  cd /mnt
  mkdir upper work root cgroup
  mount -t cgroup2 cgroup2 cgroup
  own=$(sed -n 's/^0:://p' /proc/self/cgroup)
  mkdir "cgroup$own/$name"
  # The process must join the cgroup first, because that becomes the root of its cgroup namespace.
  exec unshare --pid --net --ipc --uts --fork --kill-child=KILL bash -c '
    echo 0 >"$1/cgroup.procs" && umount cgroup && exec unshare --cgroup bash "$0" --boot
  ' "$0" "cgroup$own/$name"
}

# ---- Step 3 of 3: the future process 1. Builds the root file system, enters it, becomes systemd.
boot() {
  set -e
  umask 022
  cd /mnt
  root=/mnt/root
  units=$root/etc/systemd/system
  mount -t overlay -o "lowerdir=$WITH_SYSTEMD_ROOT,upperdir=upper,workdir=work" with-systemd $root
  mount_kernel_interfaces
  make_devices
  mount -t tmpfs -o mode=755,nosuid,nodev run $root/run
  mount -t tmpfs -o mode=1777,nosuid,nodev tmp $root/tmp
  show_host_paths
  choose_units
  copy_files
  cd $root
  mkdir -p mnt
  pivot_root . mnt
  umount -l /mnt
  cd /
  mount --make-rshared / # systemd expects so, and LoadCredential= and the like need it
  exec setpriv \
    --bounding-set -sys_module,-sys_rawio,-sys_time,-syslog,-mac_admin,-mac_override,-wake_alarm \
    env -i container=with-systemd PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=with-systemd.target --show-status=no </dev/null
}

mount_kernel_interfaces() {
  local knob
  mount -t proc -o nosuid,nodev,noexec proc $root/proc
  for knob in sys sysrq-trigger irq bus; do # these are the whole machine's
    [ -e $root/proc/$knob ] || continue
    mount --bind $root/proc/$knob $root/proc/$knob
    mount -o remount,bind,ro $root/proc/$knob
  done
  mount -t sysfs -o ro,nosuid,nodev,noexec sysfs $root/sys
  mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 $root/sys/fs/cgroup
  # systemd takes charge of every process in its root cgroup, so none of this machine's may be there.
  grep -qx 0::/ $root/proc/1/cgroup
  if grep -qx 0 $root/sys/fs/cgroup/cgroup.procs; then
    echo "a process of this machine is in the private cgroup"
    exit 1
  fi
}

make_devices() {
  local name major minor
  mount -t tmpfs -o mode=755,nosuid dev $root/dev
  mkdir $root/dev/pts $root/dev/shm
  while read -r name major minor; do
    mknod -m 666 $root/dev/$name c $major $minor
  done <<<$'null 1 3\nzero 1 5\nfull 1 7\nrandom 1 8\nurandom 1 9\ntty 5 0'
  mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts $root/dev/pts
  mount -t tmpfs -o mode=1777,nosuid,nodev shm $root/dev/shm
  ln -s pts/ptmx $root/dev/ptmx
  ln -s /proc/self/fd $root/dev/fd
  ln -s fd/0 $root/dev/stdin
  ln -s fd/1 $root/dev/stdout
  ln -s fd/2 $root/dev/stderr
}

show_host_paths() {
  local how path
  while IFS=: read -r how path; do
    [ -n "$path" ] || continue
    if [ -d "$path" ]; then
      mkdir -p "$root$path"
    else
      mkdir -p "$root${path%/*}"
      touch "$root$path"
    fi
    mount --rbind "$path" "$root$path"
    [ "$how" = rw ] || mount -o remount,bind,ro "$root$path"
  done <<<"$WITH_SYSTEMD_BINDS"
}

# Drops all units that are enabled on this machine, so that every boot is the same.
choose_units() {
  local unit
  rm -rf $root/usr/lib/systemd/system/*.{wants,requires} $root/usr/lib/systemd/system-generators/*
  rm -rf $units/* $root/etc/systemd/system-generators/*
  : >$root/etc/fstab
  echo with-systemd >$root/etc/hostname
  [ -s $root/etc/machine-id ] || tr -d - </proc/sys/kernel/random/uuid >$root/etc/machine-id
  ln -s /dev/null $units/systemd-journald-audit.socket
  cat >$units/with-systemd.target <<'UNIT'
[Unit]
Requires=sysinit.target
After=basic.target
AllowIsolate=yes
Wants=systemd-journald.service systemd-journald-dev-log.socket dbus.socket
UNIT
  while read -r unit; do
    [ -z "$unit" ] || cp -rL -- "$unit" $units/
  done <<<"$WITH_SYSTEMD_UNITS"
}

copy_files() {
  local from to
  while IFS=: read -r from to; do
    [ -n "$from" ] || continue
    mkdir -p "$root${to%/*}"
    cp -rL -- "$from" "$root$to"
  done <<<"$WITH_SYSTEMD_COPIES"
}

case ${1-} in
--make-namespaces) make_namespaces "$2" ;;
--boot) boot ;;
esac

# ---- Step 1 of 3: on this machine. Reads the options, boots, runs COMMAND, cleans up.
WITH_SYSTEMD_ROOT=/ WITH_SYSTEMD_UNITS='' WITH_SYSTEMD_BINDS='' WITH_SYSTEMD_COPIES=''
command_seconds=120 boot_seconds=20 newline=$'\n'

existing() { realpath -e -- "$1" 2>/dev/null || fail "there is no $1"; }

while getopts r:u:c:b:B:t:T:h option; do
  case $option in
  r) WITH_SYSTEMD_ROOT=$(existing "$OPTARG") || exit ;;
  u) path=$(existing "$OPTARG") || exit && WITH_SYSTEMD_UNITS+=$path$newline ;;
  c) path=$(existing "${OPTARG%%:*}") || exit
    WITH_SYSTEMD_COPIES+=$path:${OPTARG#*:}$newline ;;
  b) path=$(existing "$OPTARG") || exit && WITH_SYSTEMD_BINDS+=ro:$path$newline ;;
  B) path=$(existing "$OPTARG") || exit && WITH_SYSTEMD_BINDS+=rw:$path$newline ;;
  t) command_seconds=$OPTARG ;;
  T) boot_seconds=$OPTARG ;;
  h) usage && exit ;;
  *) usage >&2 && exit 125 ;;
  esac
done
shift $((OPTIND - 1))
if [ $# = 0 ]; then
  usage >&2
  exit 125
fi
[ "$(id -u)" = 0 ] || fail "needs root"
[ -x "$WITH_SYSTEMD_ROOT/lib/systemd/systemd" ] || fail "there is no systemd"
export WITH_SYSTEMD_ROOT WITH_SYSTEMD_UNITS WITH_SYSTEMD_BINDS WITH_SYSTEMD_COPIES

cgroup=with-systemd-$$
outer='' leader='' running='' # process ids: of step 2, of the private systemd, of COMMAND
log=$(mktemp)
exec 9<>"$log"
rm "$log" # open is enough, and so nothing is left behind however this ends
log=/proc/$$/fd/9

# Removes our cgroup and those of killed runs, through a mount that ends with its process.
remove_cgroups() {
  unshare --mount --propagation private bash -c '
    mount -t cgroup2 cgroup2 /mnt || exit
    cd "/mnt$(sed -n "s/^0:://p" /proc/self/cgroup)" || exit
    for group in with-systemd-*; do
      [ -d "$group" ] || continue
      [ "$group" = "$1" ] || ! [ -d "/proc/${group#with-systemd-}" ] || continue
      for attempt in {1..40}; do # a cgroup can be removed a moment after its last process
        find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null
        [ -d "$group" ] || break
        sleep .05
      done
    done
  ' _ "$1"
}

clear_up() {
  local process attempt
  trap '' INT TERM HUP
  if [ -n "$leader" ]; then # the end of process 1 is the end of its whole pid namespace
    kill -9 "$leader" 2>/dev/null
    for attempt in {1..100}; do
      kill -0 "$outer" 2>/dev/null || break
      sleep .03
    done
  fi
  for process in $outer $running; do kill -9 "$process" 2>/dev/null; done
  wait 2>/dev/null
  remove_cgroups $cgroup
}
trap clear_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

remove_cgroups none
setpriv --pdeathsig KILL unshare --mount --propagation private \
  bash "$(realpath "$0")" --make-namespaces $cgroup >&9 2>&1 </dev/null 9>&- &
outer=$!

# The child of step 2 is bash until it becomes systemd, which is ready once its socket exists.
end=$((SECONDS + boot_seconds))
until [ -n "$leader" ] && [ -S "/proc/$leader/root/run/systemd/private" ]; do
  for child in $(cat /proc/$outer/task/$outer/children 2>/dev/null); do
    [ "$(cat /proc/$child/comm 2>/dev/null)" = systemd ] && leader=$child
  done
  if ! kill -0 $outer 2>/dev/null || [ $SECONDS -ge $end ]; then
    cat $log >&2
    fail "the boot failed"
  fi
  sleep .02
done

inside="nsenter -t $leader -m -u -i -n -p -C --"
journal() { timeout 5 $inside journalctl --no-pager -q -n 40 >&2; }
state=$($inside timeout $((end - SECONDS + 1)) systemctl is-system-running --wait 2>&9 9>&-)
case $state in
running | degraded) ;;
*)
  cat $log >&2
  journal
  fail "the boot ended in state \"$state\""
  ;;
esac

timeout --foreground -k 2 "$command_seconds" $inside \
  sh -c 'cd "$1" 2>/dev/null || cd /; shift; exec "$@"' _ "$PWD" "$@" <&0 9>&- &
running=$!
wait $running
status=$?
running=''
if [ $status != 0 ]; then
  echo "with-systemd: exit status $status; the end of the journal:" >&2
  journal
fi
exit $status
