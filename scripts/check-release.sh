#!/bin/bash
# check-release.sh TAG - checks that TAG (such as v0.2.0) is the version of the sources, and that
# the changelog has a section for it.
set -euo pipefail
cd "$(dirname "$0")/.."

tag=${1:?usage: check-release.sh TAG}
version=$(sed -n 's/.* current = "\(.*\)"$/\1/p' Sources/Wire/ProductVersion.swift)
if [ "$tag" != "v$version" ]; then
  echo "check-release: the tag is $tag, Sources/Wire/ProductVersion.swift says $version" >&2
  exit 1
fi
if ! grep -qE "^## \[?${version//./\\.}\]? - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md; then
  echo "check-release: CHANGELOG.md has no section \"## $version - YYYY-MM-DD\"" >&2
  exit 1
fi
