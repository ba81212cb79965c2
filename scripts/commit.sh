#!/bin/bash
# commit.sh - writes the commit of this checkout into Sources/CCommit/commit.h, for --version; none
# if its tag is that of a release. Without git or a checkout it leaves the file as it is.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v git >/dev/null && [ -e .git ] || exit 0
commit=$(git rev-parse --short=9 HEAD 2>/dev/null) || exit 0
version=$(sed -n 's/.* current = "\(.*\)"$/\1/p' Sources/Wire/ProductVersion.swift)
if [ -n "$(git status --porcelain --untracked-files=no)" ]; then
  commit+=.changed
elif [ "$(git tag --points-at HEAD --list "v$version")" ]; then
  commit=
fi
line="#define COUNTDOWND_COMMIT \"$commit\""
file=Sources/CCommit/commit.h
[ "$(cat $file 2>/dev/null)" = "$line" ] && exit 0
echo "$line" >$file
touch Sources/CCommit/commit.c # A file that was not there is nothing that the compiler looks for.
