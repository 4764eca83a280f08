#!/bin/sh
# Install OpenBLAS on Debian and its like when run as root; elsewhere say what its absence costs, and go on.
set -eu
[ "$(uname -s)" = Linux ] || exit 0
if ldconfig -p 2>/dev/null | grep -q 'libopenblas\.so'; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "installing OpenBLAS (libopenblas0-pthread)"
  if { apt-get install -y -qq libopenblas0-pthread || { apt-get update -qq && apt-get install -y -qq libopenblas0-pthread; }; } \
    >/dev/null 2>&1; then exit 0; fi
fi
echo "OpenBLAS is not installed: matrix products will be about 30 times slower." >&2
echo "  Debian, Ubuntu: sudo apt-get install libopenblas0-pthread    Fedora: sudo dnf install openblas" >&2
