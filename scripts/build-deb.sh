#!/bin/bash
# build-deb.sh PACKAGE - packs countdownd or countdown-gateway: .build/PACKAGE_VERSION_ARCH.deb
#
# Requires `make build man completions`, or for the gateway `make gateway`. DEBFULLNAME and DEBEMAIL
# name the maintainer of the package, as with Debian's tools.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022

package=${1:?usage: build-deb.sh countdownd|countdown-gateway}
parts=packaging/deb/$package
work=.build/deb
tree=$work/$package
rm -rf $work
mkdir -p "$tree/DEBIAN" $work/debian

DESTDIR=$tree PREFIX=/usr SYSCONFDIR=/etc scripts/install.sh install "$package"
mv "$tree/usr/share/zsh/site-functions" "$tree/usr/share/zsh/vendor-completions" # where Debian's looks

program=$tree/usr/bin/$package
if ldd "$program" | grep -q libswiftCore; then
  echo "build-deb: $package needs the Swift runtime of this machine; build it with make" >&2
  exit 1
fi
version=$($program --version)
version=${version##* }
version=${version%%+*}-1
architecture=$(dpkg --print-architecture)
maintainer="${DEBFULLNAME:-countdownd packagers} <${DEBEMAIL:-countdownd@$(hostname -f)}>"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

doc=$tree/usr/share/doc/$package
mv "$doc/CHANGELOG.md" "$doc/changelog"
cat >"$doc/changelog.Debian" <<TEXT
$package ($version) unstable; urgency=medium

  * Built from the project's own packaging; changelog.gz tells what is new.

 -- $maintainer  $(date --utc --date="@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %H:%M:%S +0000')
TEXT
cat "$parts/copyright" packaging/deb/licenses >"$doc/copyright"
install -D -m644 packaging/deb/lintian-overrides "$tree/usr/share/lintian/overrides/$package"
gzip -9n "$doc/changelog" "$doc/changelog.Debian" "$tree"/usr/share/man/man*/*

# The packages of the shared libraries that the program needs, with their minimum versions.
printf 'Source: countdownd\n\nPackage: %s\nArchitecture: any\n' "$package" >$work/debian/control
libraries=$(cd $work && dpkg-shlibdeps -O "$package/usr/bin/$package")
libraries=${libraries#shlibs:Depends=}

control=$tree/DEBIAN
sed -e "s|@VERSION@|$version|; s|@ARCHITECTURE@|$architecture|; s|@MAINTAINER@|$maintainer|" \
  -e "s|@SIZE@|$(du -sk --apparent-size --exclude=DEBIAN "$tree" | cut -f1)|" \
  -e "s|@LIBRARIES@|$libraries|" "$parts/control" >"$control/control"
(cd "$tree" && find etc -type f -printf '/%p\n') >"$control/conffiles"
sockets=$(cd "$tree/usr/lib/systemd/system" && echo *.socket)
timers=$(cd "$tree/usr/lib/systemd/system" && echo *.timer | sed 's/^\*.timer$//')
for script in postinst prerm postrm; do
  # The steps of this package alone are in separate files.
  sed -e "s|@PACKAGE@|$package|g; s|@SOCKETS@|$sockets|g; s|@TIMERS@|$timers|g" \
    -e "/# @CONFIGURE@/{r $parts/configure" -e 'd}' \
    -e "/# @PURGE@/{r $parts/purge" -e 'd}' packaging/deb/$script >"$control/$script"
  chmod 755 "$control/$script"
done
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$control/md5sums"

file=${package}_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$tree" ".build/$file" >/dev/null
(cd .build && sha256sum "$file" >"$file.sha256")
echo ".build/$file"
