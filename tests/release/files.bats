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

@test "the bill of materials names commit, kernel and its libraries" {
    jq -e --arg commit "commit $(git -C "$repository" rev-parse HEAD)" '
        .spdxVersion == "SPDX-2.3" and .packages[0].sourceInfo == $commit
        and ([.packages[].SPDXID] == ["SPDXRef-softrdma", "SPDXRef-linux", "SPDXRef-glibc", "SPDXRef-libgcc"])
        and ([.packages[] | select(.supplier | not)] == []) and ([.relationships[].relationshipType] | length == 4)' "$DIST"/*.spdx.json
    pinned=$(sed -n 's/^SHA256: //p' "$repository/scripts/lab/kernel/pinned_kernel")
    jq -e --arg pinned "$pinned" '.packages[1].checksums == [{algorithm: "SHA256", checksumValue: $pinned}]' "$DIST"/*.spdx.json
}

@test "the manifest, the bill and the sources name the libraries that the linker takes" {
    tar -xJf "$DIST"/softrdma-*-x86_64.tar.xz --strip-components=1
    version=$(dpkg-query -W -f '${source:Version}' libc6-dev)
    jq -e --arg version "$version" '.facts.linked["libc.a"] == {package: "libc6-dev", source: "glibc", version: $version}' \
        share/softrdma/uml/*/manifest.json
    jq -e --arg version "$version" '.packages[2].versionInfo == $version' "$DIST"/*.spdx.json
    for name in LGPL-2.1 GPL-3 libc6-dev.copyright "libgcc-$(gcc -dumpversion)-dev.copyright"; do
        [[ -s share/doc/softrdma/LICENSES/$name ]]
    done

    tar -xf "$DIST"/softrdma-*-sources.tar --strip-components=1
    cd glibc
    grep -qx "Version: $version" ./*.dsc
    diff <(find . -type f -printf '%P\n' | sort) \
        <({ sed -n '/^Checksums-Sha256:/,/^[^ ]/s/^ .* //p' ./*.dsc && printf '%s\n' *.dsc; } | sort)
}

# pip moves only some of the wheel's folders there.
@test "pip install --target has the kernel" {
    python3 -m venv env || skip 'this Python makes no virtual environments'
    env/bin/pip --quiet --no-cache-dir install --no-index --target target "$DIST"/*.whl
    export SOFTRDMA_CACHE=$PWD/cache
    run -0 target/bin/softrdma kernel path
    [[ $output == "$PWD"/target/share/softrdma/uml/*/linux && ! -e cache ]]
}

@test "pip installs a softrdma that starts, in a folder with blanks and a long name" {
    for folder in 'a b' "$(printf 'x%.0s' {1..200})/$(printf 'y%.0s' {1..80})"; do
        python3 -m venv "$folder/env" || skip 'this Python makes no virtual environments'
        "$folder/env/bin/python3" -m pip --quiet --no-cache-dir install --no-index "$DIST"/*.whl
        run -0 "$folder/env/bin/softrdma" kernel path
        [[ $output == "$PWD/$folder"/env/share/softrdma/uml/*/linux ]]
    done
}

@test "another user makes the same bytes in another folder, with another umask, language and time zone, and git's attributes" {
    [[ $(id -u) == 0 ]] || skip 'only root becomes another user'
    folder=$(mktemp -d /tmp/softrdma_release.XXXXXX) # which the other user can enter
    chmod 755 "$folder"
    git -c safe.directory='*' clone -q --no-local "$repository" "$folder/clone"
    for attributes in "$folder/clone/.git/info" "$folder/config/git"; do
        mkdir -p "$attributes"
        echo '/man export-ignore' >"$attributes/attributes"
        echo '/LICENSE export-ignore' >>"$attributes/attributes"
    done
    git -C "$folder/clone" config core.attributesFile "$folder/config/git/attributes"
    # A cache with the kernel, as the user would have after a build.
    mkdir "$folder/cache"
    cp -r "${SOFTRDMA_CACHE:-$HOME/.cache/softrdma}"/{CACHEDIR.TAG,uml} "$folder/cache"
    chown -R 1234:1234 "$folder"
    make_part() { # UMASK PART
        (umask "$1" && cd / && setpriv --reuid 1234 --regid 1234 --clear-groups \
            env HOME=/nonexistent SOFTRDMA_CACHE="$folder/cache" TMPDIR="$folder" LC_ALL=C TZ=ELSEWHERE-14 \
            XDG_CONFIG_HOME="$folder/config" SOURCE_DATE_EPOCH=86400 "$folder/clone/scripts/release" "$2" --out "$folder/dist")
    }
    make_part 077 archive
    make_part 0 wheel
    (cd "$folder/dist" && sha256sum --check --strict --quiet SHA256SUMS)
    diff <(grep -v sources "$DIST/SHA256SUMS") "$folder/dist/SHA256SUMS"
    rm -r "$folder"
}

@test "the sources make the archive and the wheel" {
    tar -xf "$DIST"/softrdma-*-sources.tar --strip-components=1
    # The commands of its README.
    sed -n '/^    /,/^$/p' README.txt >commands
    PATH=/usr/lib/ccache:$PATH sh -eu commands
    diff <(grep -v sources "$DIST/SHA256SUMS") dist/SHA256SUMS
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

@test "a folder that cannot have the files is named" {
    mkdir -p out/SHA256SUMS
    run -2 "$repository/scripts/release" archive --out out
    [[ $output == *"$PWD/out/SHA256SUMS is a folder"* && $(ls -A out) == SHA256SUMS ]]
    run -2 "$repository/scripts/release" archive --out /proc/none
    [[ $output == *"--out /proc/none: "* && $output != *Traceback* ]]
    : >file
    run -2 "$repository/scripts/release" archive --out file
    [[ $output == *"--out $PWD/file: "* && $output != *Traceback* ]]
}
