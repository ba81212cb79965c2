#!/bin/bash
# clean-root.sh DIRECTORY [PACKAGE]... - creates a minimal system of this machine's Debian release,
# with systemd and the packages. Does nothing if DIRECTORY already has them. Needs root, debootstrap
# and the mirror that apt uses.
set -euo pipefail

directory=$(realpath -m "${1:?usage: clean-root.sh DIRECTORY [PACKAGE]...}")
shift
packages=(systemd "$@")

is_complete() {
  local package status
  for package in "${packages[@]}"; do
    status=$(dpkg-query --admindir="$directory/var/lib/dpkg" --show \
      --showformat '${db:Status-Status}' "$package" 2>/dev/null) || return 1
    [ "$status" = installed ] || return 1
  done
}

if [ -d "$directory" ]; then
  ! is_complete || exit 0
  rm -rf --one-file-system "$directory"
fi
. /etc/os-release
mirror=$(apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(REPO_URI)' \
  'Created-By: Packages' | sed -n "s/^$VERSION_CODENAME main //p" | head -1)
if [ -z "$mirror" ]; then
  echo "clean-root: apt has no mirror of $VERSION_CODENAME main; run apt-get update" >&2
  exit 1
fi
new=$(mktemp -d "$directory.XXXXXX")
trap 'rm -rf --one-file-system "$new"' EXIT
include=$(IFS=,; echo "${packages[*]}")
log=$(debootstrap --variant=minbase --include="$include" "$VERSION_CODENAME" "$new" \
  "$mirror" 2>&1) || {
  echo "$log" >&2
  exit 1
}
rm -f "$new"/var/cache/apt/archives/*.deb
chmod 755 "$new"
mv -T "$new" "$directory"
