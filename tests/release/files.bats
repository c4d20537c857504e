#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What scripts/release has made ($DIST).

bats_require_minimum_version 1.5.0

repository=$BATS_TEST_DIRNAME/../..
MAX_ARCHIVE_BYTES=25000000

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    umask 022
}

@test "SHA256SUMS has all files" {
    (cd "$DIST" && sha256sum --check --strict --quiet SHA256SUMS)
    diff <(cut -d ' ' -f 3 "$DIST/SHA256SUMS" | sort) <(cd "$DIST" && ls -I SHA256SUMS)
}

@test "the archive is small, and has the files of one folder, which root owns" {
    archive=$(echo "$DIST"/softrdma-*-x86_64.tar.xz)
    (($(stat -c %s "$archive") <= MAX_ARCHIVE_BYTES))
    tar -tvf "$archive" >list
    grep -Ev "^[-d]rwxr-xr-x root/root .* ${archive:${#DIST}+1:-7}(/.*)?$|^-rw-r--r-- root/root .* ${archive:${#DIST}+1:-7}/" list && return 1
    [[ $(wc -l <list) -gt 50 ]]
}

@test "the bill of materials names commit, kernel and C library" {
    jq -e --arg commit "commit $(git -C "$repository" rev-parse HEAD)" '
        .spdxVersion == "SPDX-2.3" and ([.packages[].SPDXID] == ["SPDXRef-softrdma", "SPDXRef-linux", "SPDXRef-glibc"])
        and .packages[0].sourceInfo == $commit and ([.relationships[].relationshipType] | length == 3)' "$DIST"/*.spdx.json
    pinned=$(sed -n 's/^SHA256: //p' "$repository/scripts/lab/kernel/pinned_kernel")
    jq -e --arg pinned "$pinned" '.packages[1].checksums == [{algorithm: "SHA256", checksumValue: $pinned}]' "$DIST"/*.spdx.json
}

@test "another user makes the same bytes in another folder, with another umask, language and time zone" {
    [[ $(id -u) == 0 ]] || skip 'only root becomes another user'
    folder=$(mktemp -d /tmp/softrdma_release.XXXXXX) # which the other user can enter
    chmod 755 "$folder"
    git -c safe.directory='*' clone -q --no-local "$repository" "$folder/clone"
    # A cache with the kernel, as the user would have after a build.
    mkdir "$folder/cache"
    cp -r "${SOFTRDMA_CACHE:-$HOME/.cache/softrdma}"/{CACHEDIR.TAG,uml} "$folder/cache"
    chown -R 1234:1234 "$folder"
    (umask 077 && cd / && setpriv --reuid 1234 --regid 1234 --clear-groups \
        env HOME=/nonexistent SOFTRDMA_CACHE="$folder/cache" TMPDIR="$folder" LC_ALL=C TZ=ELSEWHERE-14 \
        "$folder/clone/scripts/release" archive wheel --out "$folder/dist")
    for file in "$folder"/dist/*; do
        [[ $file == */SHA256SUMS ]] || cmp "$file" "$DIST/${file##*/}"
    done
    rm -r "$folder"
}

@test "the kernel that is built from the sources is the archive's" {
    mkdir archive
    tar -xJf "$DIST"/softrdma-*-x86_64.tar.xz -C archive --strip-components=1
    tar -xf "$DIST"/softrdma-*-sources.tar --strip-components=1
    # The commands of its README.
    sed -n '/^    /,/^$/p' README.txt >commands
    PATH=/usr/lib/ccache:$PATH sh -eu commands
    cmp kernel/linux archive/lib/softrdma/uml/*/linux
    ls glibc_*.dsc
}

@test "changes that are not committed, invalid arguments: misuse" {
    git -c safe.directory='*' clone -q --no-local "$repository" clone
    run -2 clone/scripts/release nothing
    [[ $output == *'nothing: no such part; choose from archive, wheel, sources'* ]]
    echo >>clone/README.md
    run -2 clone/scripts/release archive
    [[ $output == *"has changes that are not committed"* && ! $(ls clone/dist) ]]
    run -0 clone/scripts/release --help
    [[ $output == usage:* && $(wc -L <<<"$output") -le 100 ]]
}

@test "files that are not its own stay" {
    mkdir out
    echo mine >out/thesis
    run -0 "$repository/scripts/release" archive --out out
    [[ $(<out/thesis) == mine && $(find out -mindepth 1 | wc -l) == 4 ]]
}
