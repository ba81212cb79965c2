#!/bin/bash
# build-deb.sh - packs what `make build man completions` built: .build/countdownd_VERSION_ARCH.deb
#
# The maintainer of the package is who builds it: DEBFULLNAME and DEBEMAIL, as with Debian's tools.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022

program=.build/release/countdownd
if ldd $program | grep -q libswiftCore; then
  echo "build-deb: $program needs the Swift runtime of this machine; run make build" >&2
  exit 1
fi
version=$($program --version)
version=${version##* }-1
architecture=$(dpkg --print-architecture)
maintainer="${DEBFULLNAME:-countdownd packagers} <${DEBEMAIL:-countdownd@$(hostname -f)}>"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

work=.build/deb
tree=$work/countdownd
rm -rf $work
mkdir -p $tree/DEBIAN $work/debian

DESTDIR=$tree PREFIX=/usr SYSCONFDIR=/etc scripts/install.sh install
mv $tree/usr/share/zsh/site-functions $tree/usr/share/zsh/vendor-completions # where Debian's looks

doc=$tree/usr/share/doc/countdownd
mv $doc/CHANGELOG.md $doc/changelog
cat >$doc/changelog.Debian <<TEXT
countdownd ($version) unstable; urgency=medium

  * Built from the project's own packaging; changelog.gz tells what is new.

 -- $maintainer  $(date --utc --date="@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %H:%M:%S +0000')
TEXT
install -m644 packaging/deb/copyright $doc/copyright
install -D -m644 packaging/deb/lintian-overrides $tree/usr/share/lintian/overrides/countdownd
gzip -9n $doc/changelog $doc/changelog.Debian $tree/usr/share/man/man*/*

# The packages of the libraries that the programs need, with the versions they need.
printf 'Source: countdownd\n\nPackage: countdownd\nArchitecture: any\n' >$work/debian/control
libraries=$(cd $work && dpkg-shlibdeps -O countdownd/usr/bin/countdownd)
libraries=${libraries#shlibs:Depends=}

sed -e "s|@VERSION@|$version|; s|@ARCHITECTURE@|$architecture|; s|@MAINTAINER@|$maintainer|" \
  -e "s|@SIZE@|$(du -sk --apparent-size --exclude=DEBIAN $tree | cut -f1)|" \
  -e "s|@LIBRARIES@|$libraries|" packaging/deb/control >$tree/DEBIAN/control
echo /etc/countdownd/countdownd.yaml >$tree/DEBIAN/conffiles
install -m755 packaging/deb/{postinst,prerm,postrm} $tree/DEBIAN
(cd $tree && find usr -type f -print0 | sort -z | xargs -0 md5sum) >$tree/DEBIAN/md5sums

package=.build/countdownd_${version}_$architecture.deb
dpkg-deb --root-owner-group --build $tree "$package" >/dev/null
(cd .build && sha256sum "${package#.build/}" >"${package#.build/}.sha256")
echo "$package"
