#!/bin/bash
# clean-root.sh DIRECTORY - a minimal system of this machine's Debian release, with systemd.
# Does nothing if it is there. Needs root, debootstrap, and the mirror that apt uses.
set -euo pipefail

directory=$(realpath -m "${1:?usage: clean-root.sh DIRECTORY}")
[ ! -d "$directory" ] || exit 0
. /etc/os-release
mirror=$(apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(REPO_URI)' \
  'Created-By: Packages' | sed -n "s/^$VERSION_CODENAME main //p" | head -1)
new=$(mktemp -d "$directory.XXXXXX")
trap 'rm -rf --one-file-system "$new"' EXIT
log=$(debootstrap --variant=minbase --include=systemd "$VERSION_CODENAME" "$new" \
  "${mirror:-http://deb.debian.org/debian}" 2>&1) || {
  echo "$log" >&2
  exit 1
}
rm -f "$new"/var/cache/apt/archives/*.deb
chmod 755 "$new"
mv -T "$new" "$directory"
