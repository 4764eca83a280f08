#!/bin/sh
# Install what some tests need beside Python, on Debian and its like when run as root: cron, promtool, Chromium, npm.
# Elsewhere say what is missing and which tests are skipped for it, and go on.
set -eu
[ "$(uname -s)" = Linux ] || exit 0

missing=''
command -v cron >/dev/null 2>&1 || [ -x /usr/sbin/cron ] || missing="$missing cron"
command -v promtool >/dev/null 2>&1 || missing="$missing promtool"
command -v chromium >/dev/null 2>&1 || missing="$missing chromium"
command -v npm >/dev/null 2>&1 || missing="$missing npm"
[ -n "$missing" ] || exit 0

apt() { apt-get -qq -y -o Dpkg::Use-Pty=0 "$@" </dev/null >/dev/null 2>&1; }

# promtool alone, out of the prometheus package: to install that would start a server, now and at each boot.
promtool() {
  folder=$(mktemp -d)
  chmod 755 "$folder"
  (cd "$folder" && apt download prometheus && dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool) &&
    install -m 755 "$folder/usr/bin/promtool" /usr/local/bin/promtool
  done=$?
  rm -rf "$folder"
  return $done
}

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "installing what tests need:$missing"
  export DEBIAN_FRONTEND=noninteractive
  apt update || true
  for each in $missing; do
    case $each in
      cron) apt install --no-install-recommends cron ;;
      promtool) promtool ;;
      npm) apt install --no-install-recommends npm ;;
      chromium) apt install --no-install-recommends chromium fonts-dejavu-core ;;
    esac || echo "  $each cannot be installed: the tests that need it are skipped" >&2
  done
  exit 0
fi
echo "not installed:$missing; the tests that need it are skipped." >&2
echo "  Debian, Ubuntu: sudo apt-get install --no-install-recommends cron chromium fonts-dejavu-core npm; promtool is in" >&2
echo "  the package prometheus, which also starts its server" >&2
