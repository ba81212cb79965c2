#!/bin/bash
# build-tarball.sh - packs the programs for any Linux with glibc 2.36 or newer:
# .build/countdownd-VERSION-linux-ARCHITECTURE.tar.gz, with its checksum beside it.
#
# SQLite, libyaml and the C++ library are linked statically. RELEASE_FLAGS are the flags of `make
# build`. Requires `make man completions`.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022

newest_glibc=2.36
libraries='libc\.so|libm\.so|libgcc_s\.so|ld-linux'

# The linker finds these archives before the shared libraries.
static=$PWD/.build/static
rm -rf "$static"
mkdir -p "$static"
for library in libsqlite3.a libyaml.a libstdc++.a; do
  ln -s "$(clang -print-file-name=$library)" "$static"
done
for package in sqlite3 yaml-0.1; do
  sed "s|^libdir=.*|libdir=$static|" "$(pkg-config --variable=pcfiledir $package)/$package.pc" \
    >"$static/$package.pc"
done
# shellcheck disable=SC2086 # these are words
swift build $RELEASE_FLAGS --pkg-config-path "$static" --product countdownd
program=.build/release/countdownd
others=$(readelf -d $program | grep NEEDED | grep -Ev "$libraries" || true)
if [ -n "$others" ]; then
  printf 'build-tarball: needs shared libraries that not every system has:\n%s\n' "$others" >&2
  exit 1
fi
glibc=$(objdump -T $program | grep -o 'GLIBC_2[.0-9]*' | sort -uV | tail -1)
if [ "$(printf '%s\n' $newest_glibc "${glibc#GLIBC_}" | sort -V | tail -1)" != $newest_glibc ]; then
  echo "build-tarball: needs glibc ${glibc#GLIBC_}; build on a system with $newest_glibc" >&2
  exit 1
fi

version=$($program --version)
version=${version##* }
name=countdownd-${version%%+*}-linux-$(uname -m)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
work=.build/tarball
tree=$work/$name
rm -rf $work
mkdir -p "$tree"
DESTDIR=$work/root PREFIX=/usr/local SYSCONFDIR=/etc scripts/install.sh install
mv $work/root/usr/local/* $work/root/etc "$tree"
cat packaging/deb/{countdownd/copyright,licenses} >"$tree/share/doc/countdownd/copyright"
cat >"$tree/INSTALL" <<'TEXT'
Try it without installing:

    bin/countdownd --socket ./countdownd.sock --state-directory ./state

Install it, as root:

    cp -r bin lib share /usr/local
    cp -rn etc /
    systemd-sysusers && systemctl daemon-reload
    systemctl enable --now countdownd.socket countdownd.service

share/doc/countdownd/README.md tells the rest.
TEXT
tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
  --directory $work "$name" | gzip -9n >".build/$name.tar.gz"
cd .build
sha256sum "$name.tar.gz" >"$name.tar.gz.sha256"
echo ".build/$name.tar.gz"
