#!/bin/sh
# The first meson that runs: a version manager may put one in front that does not.
for meson in "${MESON:-meson}" /usr/bin/meson; do
	"$meson" --version >/dev/null 2>&1 && exec "$meson" "$@"
done
echo "meson is missing: run tools/deps.sh build" >&2
exit 1
