#!/bin/bash
# install.sh install|uninstall|list - puts the built program into the system, or takes it away.
#
# DESTDIR (empty) goes before every path, for packages. PREFIX (/usr/local) is where programs go,
# SYSCONFDIR (/etc) where configuration goes. The configuration is left as it is if it was changed.
# `list` prints the installed paths. Needs what `make build man completions` builds.
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=${PREFIX:-/usr/local} etc=${SYSCONFDIR:-/etc} root=${DESTDIR-}
share=$prefix/share doc=$share/doc/countdownd
config=$etc/countdownd/countdownd.yaml

# Mode, file of this project, installed path; every file once.
files() {
  local program shell
  for program in countdownd countdownctl; do
    echo "755 .build/release/$program $prefix/bin/$program"
    echo "644 .build/man/$program.1 $share/man/man1/$program.1"
    echo "644 .build/completions/$program.bash $share/bash-completion/completions/$program"
    echo "644 .build/completions/$program.zsh $share/zsh/site-functions/_$program"
    echo "644 .build/completions/$program.fish $share/fish/vendor_completions.d/$program.fish"
  done
  echo "644 systemd/countdownd.service $prefix/lib/systemd/system/countdownd.service"
  echo "644 systemd/countdownd.socket $prefix/lib/systemd/system/countdownd.socket"
  echo "644 systemd/countdownd.sysusers $prefix/lib/sysusers.d/countdownd.conf"
  # As they lie here, so that what links to what does so there.
  for page in README.md CHANGELOG.md CONTRIBUTING.md LICENSE docs/*.md docs/*/*.md docs/*/*.svg config/*.yaml \
    systemd/* Benchmarks/*/README.md Examples/Package.swift Examples/Sources/*/*.swift \
    Examples/login/*.* Examples/login/*/*.{md,py,txt,swift}; do
    echo "644 $page $doc/$page"
  done
  echo "644 config/countdownd.yaml $config"
}

# Directories that are nobody else's, and may have others in them.
directories() {
  printf '%s\n' "$doc" "$config.d" "$etc/countdownd"
}

install_all() {
  local mode from to
  while read -r mode from to; do
    [ -r "$from" ] || {
      echo "install: there is no $from; run this first: make build man completions" >&2
      exit 1
    }
  done < <(files)
  while read -r mode from to; do
    if [ "$to" = "$config" ] && [ -e "$root$to" ] && ! cmp -s "$from" "$root$to"; then
      echo "$root$to was changed and is left as it is"
      continue
    fi
    install -D -m "$mode" "$from" "$root$to"
  done < <(files)
  # What is in the sources alone is named there, not linked.
  find "$root$doc" -name '*.md' -exec sed -Ei 's/\[([^]]*)\]\((\.\.\/)+Sources\/[^)]*\)/\1/g' {} +
  install -d "$root$config.d"
  sed -i "s|/usr/bin/countdownd|$prefix/bin/countdownd|; s|/etc/countdownd/|$etc/countdownd/|g" \
    "$root$prefix/lib/systemd/system/countdownd.service"
}

uninstall_all() {
  local mode from to
  while read -r mode from to; do
    if [ "$to" = "$config" ] && [ -e "$root$to" ] && ! cmp -s "$from" "$root$to"; then
      echo "$root$to was changed and is left"
      continue
    fi
    rm -f "$root$to"
  done < <(files)
  while read -r to; do
    [ ! -d "$root$to" ] || find "$root$to" -depth -type d -empty -delete
  done < <(directories)
}

case ${1-} in
install) install_all ;;
uninstall) uninstall_all ;;
list) files | cut -d' ' -f3 ;;
*)
  sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
  exit 64
  ;;
esac
