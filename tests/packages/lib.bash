# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# For the stages of packages: source it after ci/lib.sh. What is made here lies in $BUILD/packages.
packages=$BUILD/packages

# made SUITE ARCH OPTION...: its packages are in $packages/SUITE-ARCH.
made() { check 'packages are made' scripts/package deb --out "$packages" --suite "$1" --arch "$2" "${@:3}"; }

# What lintian says, but for tags whose reasons are in debian/README.source. It leaves files behind.
linted() ( # SUITE ARCH
    TMPDIR=$(mktemp -d)
    export TMPDIR
    trap 'rm -rf "$TMPDIR"' EXIT
    lintian -I --pedantic --fail-on error,warning,info,pedantic --allow-root \
        --suppress-tags initial-upload-closes-no-bugs,no-homepage-field,debian-watch-file-is-missing,bogus-mail-host,spelling-error-in-binary \
        "$packages/$1-$2"/*.changes "$packages/$1-$2"/*.dsc
)

# A Debian to install them in.
rooted() { # SUITE ARCH
    local debs
    debs=$(mktemp -d)
    find "$packages/$1-$2" -name '*.deb' ! -name '*-dbgsym_*' -exec cp -t "$debs" {} +
    tests/packages/root "$1" "$2" "$debs" "$packages/root-$1-$2.tar"
    rm -r "$debs"
}

# travelled SUITE ARCH JOURNEY OPTION...: in a guest of the lab, by these options.
travelled() {
    local journey=$3
    local folder=journey-$journey
    printf '== %s of %s, %s\n' "$journey" "$1" "$2"
    rm -rf "${packages:?}/$folder"
    mkdir "$packages/$folder"
    cp tests/packages/{in-guest,steps,"$journey"} debian/tests/{over-a-device,soft-device} "$packages/$folder"
    # A guest of another release sees the folder where it was called, and what is below.
    (cd "$packages" && "$OLDPWD/scripts/softrdma" run -q "${@:4}" --driver both -- sh "$folder/in-guest" "root-$1-$2.tar" "$folder" "$journey") 2>&1 |
        tap || grep -q '^fail' "$RESULTS" || fail "$journey" 'exit status is not 0, but no step failed'
}
