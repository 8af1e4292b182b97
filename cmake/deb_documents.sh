#!/bin/sh
# deb_documents.sh PACKAGE VERSION MAINTAINER USR: what Debian wants in a package besides its files: licences, a changelog, compressed
# manuals, and reasons for what lintian would refuse. Beside the licences lies the bill of materials.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
package=$1
version=$2
maintainer=$3
usr=$4
doc=$usr/share/doc/$package
case $usr in */_CPack_Packages/*) ;; *) echo "deb_documents: $usr is no folder of cpack's" >&2; exit 1 ;; esac
mkdir -p "$doc" "$usr/share/lintian/overrides"
"$here/materials.sh" "$package" "$version" "$doc/copyright" "$doc/$package.spdx.json"
date=$(sed -n "s/^## $version, //p" "$here/../CHANGELOG.md")
printf 'dlrun (%s) stable; urgency=medium\n\n  * CHANGELOG.md in the sources says what changed.\n\n -- %s  %s\n' "$version" "$maintainer" \
  "$(date -uR -d "${date:-@0}")" | gzip -9n >"$doc/changelog.gz"
[ ! -f "$usr/share/man/man1/dlrun.1" ] || gzip -9nf "$usr/share/man/man1/dlrun.1"
case $package in
  dlrun)
    cat >"$usr/share/lintian/overrides/dlrun" <<'TEXT'
# Opened by name at the first use; nothing links it.
dlrun: sharedobject-in-library-directory-missing-soname *libdlrun_rendezvous.so*
# gRPC is linked statically, and zlib with it: a job starts that program, which takes 10 ms to load dynamically, and 2 so.
dlrun: embedded-library zlib *dlrun-rendezvous*
TEXT
    ;;
  dlrun-mpi)
    cat >"$usr/share/lintian/overrides/dlrun-mpi" <<'TEXT'
# Opened by name at the first use; nothing links them.
dlrun-mpi: sharedobject-in-library-directory-missing-soname *libdlrun_mpi_*.so*
TEXT
    ;;
  *) rmdir "$usr/share/lintian/overrides" "$usr/share/lintian" ;;
esac
chmod -R u=rwX,go=rX "$usr/share"
