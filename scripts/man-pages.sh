#!/bin/bash
# man-pages.sh BINARIES DIRECTORY - writes the programs' man pages, from what their --help says.
#
# generate-manual leaves lines empty, lists a subcommand `help` of its own, and says nothing of the
# exit status beyond what is common, where the description has a table; files and relatives are ours.
set -euo pipefail
binaries=$1 directory=$2

tail_of_countdownd() {
  cat <<'MDOC'
.Sh FILES
.Bl -tag -width 6n
.It Pa /etc/countdownd/countdownd.yaml
The configuration: every setting with its default.
.It Pa /etc/countdownd/countdownd.yaml.d/*.yaml
What is read after it, and wins.
.It Pa /run/countdownd/countdownd.sock
The socket.
.It Pa /var/lib/countdownd/state.db
What outlives the daemon.
.It Pa /var/lib/countdownd/changes-*.log
What has changed since.
.El
.Sh SEE ALSO
.Xr countdownctl 1 ,
.Xr redis-cli 1 ,
.Xr systemctl 1
.Pp
The protocol, policies, durability and operation are described in share/doc/countdownd/docs.
MDOC
}

tail_of_countdownctl() {
  cat <<'MDOC'
.Sh FILES
.Bl -tag -width 6n
.It Pa /run/countdownd/countdownd.sock
The daemon's socket.
.It Pa /etc/countdownd/countdownd.yaml
The configuration that
.Ic policy
reads.
.El
.Sh SEE ALSO
.Xr countdownd 1 ,
.Xr redis-cli 1
MDOC
}

mkdir -p "$directory"
for program in countdownd countdownctl; do
  page=$directory/$program.1
  "$binaries/generate-manual" "$binaries/$program" --date "$(date -u +%F)" -o "$directory"
  sed -i 's/^$/.Pp/' "$page"
  sed -zi \
    -e 's/\n\.Pp\n\.It/\n.It/g' \
    -e 's/\n\.It Em help\nShow subcommand help information\.\n\.Bl -tag -width 6n\n\.It Ar subcommands\.\.\.\n\.It Fl -version\nShow the version\.\n\.El//' \
    -e 's/\n\.Sh "EXIT STATUS"\n\.Ex -std\n*$/\n/' "$page"
  # It has no subcommands.
  [ $program != countdownd ] || sed -i '/^\.Ar subcommand$/d' "$page"
  "tail_of_$program" >>"$page"
done
