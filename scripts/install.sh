#!/bin/bash
# install.sh install|uninstall|list [countdownd|countdown-gateway] - installs or removes a built
# program.
#
# DESTDIR (empty) goes before every path, for packages. PREFIX (/usr/local) is where programs go,
# SYSCONFDIR (/etc) where configuration goes. A changed configuration file is never replaced or
# removed. `list` prints the installed paths. Requires `make build man completions`, or for the
# gateway `make gateway`.
set -euo pipefail
cd "$(dirname "$0")/.."

package=${2:-countdownd}
prefix=${PREFIX:-/usr/local} etc=${SYSCONFDIR:-/etc} root=${DESTDIR-}
share=$prefix/share doc=$share/doc/$package
case $package in
countdownd)
  built=.build programs="countdownd countdownctl" units=systemd
  template=config/countdownd.yaml config=$etc/countdownd/countdownd.yaml
  targets="build man completions"
  ;;
countdown-gateway)
  built=Gateway/.build programs=countdown-gateway units=Gateway/systemd
  template=$units/countdown-gateway.default config=$etc/default/countdown-gateway
  targets=gateway
  ;;
*)
  echo "install: there is no package $package" >&2
  exit 64
  ;;
esac

# Prints the mode, source path and installed path of each file. The mode of a symbolic link is link.
files() {
  local program page unit
  echo "755 $built/release/$package $prefix/bin/$package"
  for program in $programs; do
    echo "644 $built/completions/$program.bash $share/bash-completion/completions/$program"
    echo "644 $built/completions/$program.zsh $share/zsh/site-functions/_$program"
    echo "644 $built/completions/$program.fish $share/fish/vendor_completions.d/$program.fish"
  done
  for page in $built/man/*.[1-8]; do
    echo "644 $page $share/man/man${page##*.}/${page##*/}"
  done
  for unit in $package.service $package.socket; do
    echo "644 $units/$unit $prefix/lib/systemd/system/$unit"
  done
  for page in $(documents); do echo "644 $page $doc/$page"; done
  echo "644 $template $config"
  if [ "$package" = countdown-gateway ]; then
    echo "644 $units/$package-admin.socket $prefix/lib/systemd/system/$package-admin.socket"
    return
  fi
  echo "644 $built/schema.json $share/countdownd/schema.json"
  # Both names run the same program.
  echo "link countdownd $prefix/bin/countdownctl"
  for unit in $package.service $package.socket; do
    echo "644 systemd/user/$unit $prefix/lib/systemd/user/$unit"
  done
  for unit in countdownd-{metrics,backup}.{service,timer} countdownd-metrics-file.service; do
    echo "644 systemd/$unit $prefix/lib/systemd/system/$unit"
  done
  echo "644 systemd/countdownd.sysusers $prefix/lib/sysusers.d/countdownd.conf"
}

# Prints the documents for users, with their paths in this project, so that links work. Documents
# for contributors (docs/dev, CONTRIBUTING.md, measurements) are not installed. countdownd's package
# has the pages about the gateway, because its other pages link to them.
documents() {
  if [ "$package" = countdown-gateway ]; then
    printf '%s\n' CHANGELOG.md LICENSE
    return
  fi
  find README.md CHANGELOG.md LICENSE SECURITY.md docs config systemd/*.conf \
    packaging/monitoring Examples/login Examples/flows \( -name '.*' -o -name dev -o -name swift \) -prune \
    -o -type f -regextype egrep -regex '.*(LICENSE|\.(md|svg|png|yaml|conf|html|py|txt|json|flow))' -print \
    2>/dev/null | sort
}

# Prints the directories that only this package uses. They can have subdirectories.
directories() {
  echo "$doc"
  [ "$package" != countdownd ] || printf '%s\n' "$share/countdownd" "$config.d" "$etc/countdownd"
}

install_all() {
  local mode from to
  while read -r mode from to; do
    [ "$mode" = link ] || [ -r "$from" ] || {
      echo "install: there is no $from; run this first: make $targets" >&2
      exit 1
    }
  done < <(files)
  while read -r mode from to; do
    if [ "$to" = "$config" ] && [ -e "$root$to" ] && ! cmp -s "$from" "$root$to"; then
      echo "$root$to was changed and is left as it is"
      continue
    fi
    if [ "$mode" = link ]; then
      ln -sfn "$from" "$root$to"
      continue
    fi
    install -D -m "$mode" "$from" "$root$to"
    # Symbols are two thirds of a program's size.
    [ "$mode" = 644 ] || ! command -v strip >/dev/null ||
      strip --strip-unneeded --remove-section=.comment --remove-section=.note "$root$to"
  done < <(files)
  unlink_what_is_not_installed
  [ "$package" != countdownd ] || install -d "$root$config.d"
  local seen=/usr
  [[ $prefix/ = /usr/* ]] || seen="/usr $prefix"
  sed -i "s|/usr/bin/|$prefix/bin/|; s|/etc/|$etc/|g; s|^BindReadOnlyPaths=/usr |BindReadOnlyPaths=$seen |" \
    "$root$prefix"/lib/systemd/*/"$package"*.service
  # The pages name the paths of the Debian package.
  find "$root$doc" -name '*.md' -exec \
    sed -i "s|/usr/share/doc/countdownd|$share/doc/countdownd|g; s|/usr/bin/|$prefix/bin/|g" {} +
}

# Replaces links to pages that are not installed by the text of the links.
unlink_what_is_not_installed() {
  local page link
  while read -r page; do
    while read -r link; do
      [ -e "${page%/*}/$link" ] ||
        sed -Ezi "s|!?\[([^]]*)\]\(${link//./\\.}(#[^)]*)?\)|\1|g" "$page"
    done < <(grep -oE '\]\([^)#[:space:]]+' "$page" | cut -c3- | grep -v '://' | sort -u)
  done < <(find "$root$doc" -name '*.md')
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
  sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
  exit 64
  ;;
esac
