#!/usr/bin/env bash
# Makes configure and the Makefile.in from a clone. A released tarball has them already.
set -euo pipefail
cd "$(dirname "$0")"

for tool in autoreconf automake libtoolize pkg-config; do
    if ! command -v "$tool" >/dev/null; then
        echo "autogen.sh: $tool was not found. Install it with: apt-get install autoconf automake libtool pkg-config" >&2
        echo "            (RHEL: dnf install autoconf automake libtool pkgconf-pkg-config)" >&2
        exit 1
    fi
done
autoreconf --force --install
# Between its tests configure removes a core dump named "core"; that is the name of a folder here.
sed -i 's/rm -f core /rm -f /' configure
