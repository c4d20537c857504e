#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The pinned user-mode kernel: where its source comes from, and that a newer one does not replace it. The copy of softrdma
# pins the kernel source of a small archive.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
source "$BATS_TEST_DIRNAME/../lib/caller.bash"

setup_file() {
    umask 022
    "$BATS_TEST_DIRNAME/small_archive" "$BATS_FILE_TMPDIR/archive"
    mkdir "$BATS_FILE_TMPDIR/scripts"
    cp -r "$BATS_TEST_DIRNAME/../../../scripts/"{softrdma,kernel-source,pin-kernel,lab} "$BATS_FILE_TMPDIR/scripts"
    cp "$BATS_FILE_TMPDIR/archive/pinned_kernel" "$BATS_FILE_TMPDIR/scripts/lab/kernel"
    # An archive with a newer source only, as the pinned one becomes.
    cp -r "$BATS_FILE_TMPDIR/archive" "$BATS_FILE_TMPDIR/newer"
    cd "$BATS_FILE_TMPDIR/newer" || return
    dpkg-deb -R linux-source-9.9_*.deb source
    rm linux-source-9.9_*.deb
    sed -i 's/^Version: .*/Version: 9.9.10-1/' source/DEBIAN/control
    dpkg-deb --root-owner-group -Znone --build source . >/dev/null
    index=main/binary-$(dpkg --print-architecture)/Packages
    dpkg-scanpackages -m . >"dists/sid/$index" 2>/dev/null
    printf 'SHA256:\n %s %s %s\n' "$(sha256sum <"dists/sid/$index" | cut -d ' ' -f 1)" "$(stat -c %s "dists/sid/$index")" "$index" >dists/sid/Release
}
setup() {
    cd "$BATS_TEST_TMPDIR" || return
    archive=$BATS_FILE_TMPDIR/archive program=$BATS_FILE_TMPDIR/scripts/softrdma
    export SOFTRDMA_CACHE=$BATS_TEST_TMPDIR/cache SOFTRDMA_MIRROR=file:$archive APT_CONFIG=$archive/apt.conf
    export SOFTRDMA_SNAPSHOT=http://127.0.0.1:9 # no server
    unset SOFTRDMA_OLD_LISTS
}
teardown() { [[ ! ${server:-} ]] || kill "$server"; }

# serve_snapshot FILE: serves the file as that of the pin.
serve_snapshot() {
    mkdir -p snapshot/file
    cp "$1" "snapshot/file/$(sed -n 's/^SHA1: //p' "$archive/pinned_kernel")"
    python3 -u -m http.server --bind 127.0.0.1 --directory snapshot 0 >server.out 2>&1 3>&- &
    server=$!
    wait_until is_ready_or_ended "$server" grep -q ' port ' server.out
    SOFTRDMA_SNAPSHOT=http://127.0.0.1:$(sed -n 's/.* port \([0-9]*\) .*/\1/p' server.out)
}
# expect_no_kernel: the build has left nothing in the cache.
expect_no_kernel() {
    left=$(find "$SOFTRDMA_CACHE" -name '*.part' -o -name '*.tree' -o -name 'linux*' -o -path '*/work/uml.*' ! -name '*.lock')
    [[ ! $left ]] || { echo "left: $left" && return 1; }
}
# expect_built VERSION: $output reports a build of it.
expect_built() { [[ $output == *"building the user-mode kernel"*"user-mode kernel $1 is in "* ]] || { echo "$output" && return 1; }; }

@test "the cached pinned kernel is used after the newest version has changed" {
    run -0 softrdma kernel build
    expect_built 9.9.9-1
    kernel=$(softrdma kernel path)
    rm -rf "$SOFTRDMA_CACHE/apt" # the lists of a day ago
    SOFTRDMA_MIRROR=file:$BATS_FILE_TMPDIR/newer run -0 softrdma kernel build
    [[ ${#lines[@]} == 1 && $output == *"user-mode kernel 9.9.9-1 is in ${kernel%/*}" ]] || { echo "$output" && return 1; }
    [[ $(softrdma kernel path) == "$kernel" ]]
}

@test "the kernel has the same bytes where Rust is installed" {
    softrdma kernel build
    mkdir bin
    printf '#!/bin/sh\necho "rustc 1.95.0"\n' >bin/rustc
    chmod +x bin/rustc
    first=$(softrdma kernel path)
    PATH=$PWD/bin:$PATH SOFTRDMA_CACHE=$PWD/other run -0 softrdma kernel build
    cmp "$first" "$(SOFTRDMA_CACHE=$PWD/other softrdma kernel path)"
}

@test "kernel build with the pinned kernel in the cache needs no network, mirror or apt" {
    unshare -Urn true || skip 'user namespaces are not permitted'
    run -0 softrdma kernel build
    # The programs of apt fail.
    mkdir bin
    for name in apt-get apt-cache apt-config dpkg-deb; do printf '#!/bin/sh\nexit 99\n' >bin/$name; done
    chmod +x bin/*
    export PATH=$PWD/bin:$PATH SOFTRDMA_MIRROR=http://127.0.0.1:9
    run -0 unshare -Urn "$program" kernel build
    [[ ${#lines[@]} == 1 && $output == *"user-mode kernel 9.9.9-1 is in "* ]] || { echo "$output" && return 1; }
    # Without the kernel these programs are called.
    softrdma kernel remove 9.9
    run ! unshare -Urn "$program" kernel build
}

@test "run uses the pinned kernel, and that of build --newest by --kernel" {
    softrdma kernel build
    pinned=$(softrdma kernel path)
    SOFTRDMA_MIRROR=file:$BATS_FILE_TMPDIR/newer run -0 softrdma kernel build --newest
    expect_built 9.9.10-1
    [[ $(softrdma kernel path) == "$pinned" ]]
    [[ $(softrdma kernel path 9.9) == */9.9.10-1-*/linux ]]
    softrdma version --json >facts.json
    [[ $(jq -r '.kernel | "\(.version) \(.is_pinned) \(.path)"' facts.json) == "9.9.9-1 true ${pinned%/*}" ]]
    [[ $(jq -r '.pinned_kernel | "\(.package) \(.version)"' facts.json) == 'linux-source-9.9 9.9.9-1' ]]
    softrdma kernel remove 9.9
    SOFTRDMA_MIRROR=file:$BATS_FILE_TMPDIR/newer softrdma kernel build 9.9
    [[ $(softrdma kernel path) == */9.9.10-1-*/linux ]]
    [[ $(softrdma version --json | jq .kernel.is_pinned) == false ]]
}

@test "a file of the mirror with another SHA-256 is refused, and nothing is left" {
    cp -r "$archive" mirror
    printf x | dd of="$(echo mirror/linux-source-9.9_*.deb)" bs=1 seek=1000 conv=notrunc status=none
    export SOFTRDMA_MIRROR=file:$PWD/mirror
    run -77 softrdma kernel build
    [[ $output == *"file:$PWD/mirror/"*'is refused: its SHA-256 is '* ]] || { echo "$output" && return 1; }
    expect_no_kernel
    serve_snapshot "$archive"/linux-source-9.9_*.deb
    run -0 softrdma kernel build
    expect_built 9.9.9-1
}

@test "a source that the mirror no longer has comes from the snapshot" {
    serve_snapshot "$archive"/linux-source-9.9_*.deb
    SOFTRDMA_MIRROR=file:$BATS_FILE_TMPDIR/newer run -0 softrdma kernel build
    expect_built 9.9.9-1
    [[ $output == *"trying $SOFTRDMA_SNAPSHOT/file/"* ]]
    grep -q 'GET /file/[0-9a-f]* .* 200' server.out
}

@test "a file of the snapshot with another SHA-256 is refused, and nothing is left" {
    export SOFTRDMA_MIRROR=file:$BATS_FILE_TMPDIR/newer
    cp "$archive"/linux-source-9.9_*.deb changed
    printf x | dd of=changed bs=1 seek=1000 conv=notrunc status=none
    serve_snapshot changed
    run -77 softrdma kernel build
    [[ $output == *"$SOFTRDMA_SNAPSHOT/file/"*'is refused: its SHA-256 is '* ]] || { echo "$output" && return 1; }
    expect_no_kernel
    echo >>"$(echo snapshot/file/*)" # the server is not read to an end that the pin does not have
    run -77 softrdma kernel build
    [[ $output == *"$SOFTRDMA_SNAPSHOT/file/"*'unexpected size'* ]] || { echo "$output" && return 1; }
    expect_no_kernel
}

@test "without mirror and snapshot the error has both reasons and the command to type" {
    SOFTRDMA_MIRROR=file:$BATS_FILE_TMPDIR/newer run -77 softrdma kernel build
    [[ ${lines[-1]} == *'linux-source-9.9 9.9.9-1'*"file:$BATS_FILE_TMPDIR/newer/"*"$SOFTRDMA_SNAPSHOT/file/"*refused*'softrdma kernel build --newest'* ]] || {
        echo "$output"
        return 1
    }
    expect_no_kernel
}

@test "pin-kernel prints the pin of the newest source" {
    run -0 --separate-stderr "${program%/*}/pin-kernel"
    diff -u <(grep -E '^(Package|Version|Filename|Size|SHA256|SHA1):' "$archive/pinned_kernel" | sort) <(grep -v '^#\|^Provenance: ' <<<"$output" | sort)
    grep -x 'Provenance: main/binary-.*/Packages (SHA-256 .*) of sid, whose Release (SHA-256 .*) is not signed' <<<"$output"
    SOFTRDMA_CACHE=$PWD/other SOFTRDMA_MIRROR=file:$BATS_FILE_TMPDIR/newer "${program%/*}/pin-kernel" >pinned_kernel
    grep -x 'Version: 9.9.10-1' pinned_kernel
}

@test "kernel-source puts the file of the pinned source into a folder, and keeps the package" {
    run -0 "${program%/*}/kernel-source" kernel
    [[ ${lines[-1]} == kernel/linux-source-9.9.tar.xz && $(ls -A kernel) == linux-source-9.9.tar.xz ]]
    dpkg-deb -x "$archive"/linux-source-9.9_*.deb unpacked
    cmp kernel/linux-source-9.9.tar.xz unpacked/usr/src/linux-source-9.9.tar.xz
    export SOFTRDMA_MIRROR=file:$PWD/none
    run -0 "${program%/*}/kernel-source" other
    cmp other/linux-source-9.9.tar.xz kernel/linux-source-9.9.tar.xz
    touch file
    run -2 "${program%/*}/kernel-source" file
    [[ $output == *'file: File exists; choose another folder'* ]]
}

@test "kernel-source refuses a package with another SHA-256" {
    cp -r "$archive" mirror
    printf x | dd of="$(echo mirror/linux-source-9.9_*.deb)" bs=1 seek=1000 conv=notrunc status=none
    SOFTRDMA_MIRROR=file:$PWD/mirror run -77 "${program%/*}/kernel-source" kernel
    [[ $output == *"file:$PWD/mirror/"*'is refused: its SHA-256 is '* && ! -e kernel ]]
    [[ $(find "$SOFTRDMA_CACHE/sources" ! -name '*.lock') == "$SOFTRDMA_CACHE/sources" ]]
}
