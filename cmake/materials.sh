#!/bin/sh
# materials.sh NAME VERSION LICENCES SPDX [LIBRARIES...]: what a package NAME of dlrun is made of besides dlrun's own code. LICENCES gets all
# licences in one file, in Debian's words; SPDX gets a software bill of materials (SPDX 2.3, JSON). LIBRARIES are files of shared libraries
# that the package carries. Each is a part of a Debian package of this machine. With one commit and the same packages, the same files.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
name=$1
version=$2
licences=$3
spdx=$4
shift 4
# Debian packages whose code is compiled or linked into dlrun's files: archives, and headers that hold code.
inside="libabsl-dev libboost1.74-dev libc-ares-dev libcli11-dev libfmt-dev libgrpc-dev libhwy-dev libprotobuf-dev libspdlog-dev
libstdc++-12-dev nlohmann-json3-dev zlib1g-dev"
licence_of() { # PACKAGE: as SPDX writes it
  case $1 in
    libabsl* | libdnnl* | libgrpc* | libhwy* | libssl3*) echo Apache-2.0 ;;
    libboost*) echo BSL-1.0 ;;
    libc-ares* | libfmt* | libspdlog* | libutf8proc* | nlohmann-json3-dev) echo MIT ;;
    libcli11-dev | libprotobuf* | libhwloc* | libevent* | libpmix*) echo BSD-3-Clause ;;
    ocl-icd*) echo BSD-2-Clause ;;
    libmunge*) echo LGPL-3.0-or-later ;;
    libudev*) echo LGPL-2.1-or-later ;;
    libstdc++* | libgcc* | libgomp*) echo 'GPL-3.0-or-later WITH GCC-exception-3.1' ;;
    libjpeg*) echo 'IJG AND BSD-3-Clause AND Zlib' ;;
    libpng*) echo libpng-2.0 ;;
    zlib*) echo Zlib ;;
    *) echo NOASSERTION ;;
  esac
}
package_of() { # FILE; a merged /usr shows a file under two names, of which dpkg knows one
  real=$(readlink -f "$1")
  found=$(dpkg-query -S "$real" 2>/dev/null || dpkg-query -S "${real#/usr}" 2>/dev/null || true)
  echo "${found%%:*}"
}

packages=$(for one in $inside; do
  case $(dpkg-query -W -f '${db:Status-Status}' "$one" 2>/dev/null || true) in installed) echo "$one STATIC_LINK" ;; esac
done
for library; do
  package=$(package_of "$library")
  [ -n "$package" ] || { echo "materials: no package has $library" >&2; exit 1; }
  echo "$package CONTAINS"
done | sort -u)

{
  printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: dlrun\n\nFiles: *\nCopyright: the authors of dlrun\nLicense: Apache-2.0\n'
  printf ' On Debian systems the text of the licence is in /usr/share/common-licenses/Apache-2.0.\n'
  printf '\nComment: The files of this package hold code of other projects. Their licences follow, as Debian has them.\n'
  echo "$packages" | while read -r package kind; do
    [ -n "$package" ] || continue
    file=/usr/share/doc/$package/copyright
    [ -f "$file" ] || { echo "materials: $package has no $file" >&2; exit 1; }
    printf '\n======== %s ========\n\n' "$package"
    cat "$file"
  done
} >"$licences"

created=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || echo 0)}
{
  printf '{\n  "spdxVersion": "SPDX-2.3",\n  "dataLicense": "CC0-1.0",\n  "SPDXID": "SPDXRef-DOCUMENT",\n  "name": "%s-%s",\n' "$name" "$version"
  printf '  "documentNamespace": "https://spdx.org/spdxdocs/%s-%s-%s",\n' "$name" "$version" "$created"
  printf '  "creationInfo": {"created": "%s", "creators": ["Tool: cmake/materials.sh"]},\n' "$(date -u -d "@$created" +%Y-%m-%dT%H:%M:%SZ)"
  printf '  "packages": [\n    {"SPDXID": "SPDXRef-dlrun", "name": "%s", "versionInfo": "%s", "downloadLocation": "NOASSERTION", "filesAnalyzed": false, ' "$name" "$version"
  printf '"licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "the authors of dlrun"}'
  echo "$packages" | while read -r package kind; do
    [ -n "$package" ] || continue
    its=$(dpkg-query -W -f '${Version}\n' "$package" | head -n 1)
    licence=$(licence_of "$package")
    printf ',\n    {"SPDXID": "SPDXRef-%s", "name": "%s", "versionInfo": "%s", "downloadLocation": "NOASSERTION", "filesAnalyzed": false, ' "$(echo "$package" | tr '+' '-')" "$package" "$its"
    printf '"licenseConcluded": "%s", "licenseDeclared": "%s", "copyrightText": "NOASSERTION", ' "$licence" "$licence"
    printf '"externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": "pkg:deb/debian/%s@%s"}]}' "$(echo "$package" | sed 's/+/%2B/g')" "$(echo "$its" | sed 's/+/%2B/g; s/:/%3A/g')"
  done
  printf '\n  ],\n  "relationships": [\n    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-dlrun"}'
  echo "$packages" | while read -r package kind; do
    [ -n "$package" ] || continue
    printf ',\n    {"spdxElementId": "SPDXRef-dlrun", "relationshipType": "%s", "relatedSpdxElement": "SPDXRef-%s"}' "$kind" "$(echo "$package" | tr '+' '-')"
  done
  printf '\n  ]\n}\n'
} >"$spdx"
