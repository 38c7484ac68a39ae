#!/bin/sh
# configure.sh FOLDER [OPTION...]: set up a build folder once.  Later options are added to it, and what they do not concern
# is not compiled again; another compiler (CC) starts the folder anew.
set -eu
here=$(dirname "$0")
usage() {
	echo "usage: tools/configure.sh FOLDER [-DNAME=VALUE | --NAME=VALUE]..." >&2
	exit 2
}
case ${1:-} in
'' | -*) usage ;;
esac
folder=$1
shift
for option in "$@"; do
	case $option in
	-D?*=* | --?*=*) ;;
	*) usage ;;
	esac
done
mkdir -p "$folder" 2>/dev/null && [ -w "$folder" ] || {
	echo "cannot write to $folder: build elsewhere with BUILD=FOLDER" >&2
	exit 1
}
# What was asked for so far: the compiler, then an option a line.
asked=$folder/.configured
compiler=${CC:-cc}
command -v "${compiler%% *}" >/dev/null || {
	echo "there is no C compiler '$compiler': tools/deps.sh build installs one, CC=NAME names another" >&2
	exit 1
}
if [ -f "$folder/build.ninja" ] && [ "$(sed -n 1p "$asked" 2>/dev/null)" = "$compiler" ]; then
	how=configure
	new=0
	for option in "$@"; do
		grep -qxF -e "$option" "$asked" || new=1
	done
	[ $new = 1 ] || exit 0
else
	how=setup
	rm -rf "$folder"
	mkdir -p "$folder"
	echo "$compiler" >"$folder.asked"
fi
log=$folder.log
[ $how = setup ] || cp "$asked" "$folder.asked"
run() {
	"$here/meson.sh" $how "$folder" "$@" && { [ $how = setup ] || ninja -C "$folder" build.ninja; }
}
run "$@" >"$log" 2>&1 || {
	cat "$log" >&2
	exit 1
}
for option in "$@"; do
	grep -vF -e "${option%%=*}=" "$folder.asked" >"$folder.kept" || true
	mv "$folder.kept" "$folder.asked"
	echo "$option" >>"$folder.asked"
done
mv "$folder.asked" "$asked"
mv "$log" "$folder/configured.log"
