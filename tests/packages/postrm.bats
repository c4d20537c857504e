#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# debian/softrdma.postrm: what purge removes in /etc/softrdma.d, here that of a mount namespace with an empty /etc.

bats_require_minimum_version 1.5.0

setup() {
    unshare=(unshare --mount)
    [[ $(id -u) == 0 ]] || unshare+=(-Ur)
    "${unshare[@]}" true || skip 'mount namespaces are not permitted'
}
# purge COMMAND: what is in /etc after the command and a purge.
purge() {
    # shellcheck disable=SC2016 # $0 and $1 are for the inner shell
    "${unshare[@]}" sh -euc 'mount -t tmpfs none /etc
        mount -t tmpfs none /run
        cd /etc
        eval "$1"
        sh "$0" purge
        find /etc -mindepth 1 | LC_ALL=C sort' "$BATS_TEST_DIRNAME/../../debian/softrdma.postrm" "$1"
}

@test "purge removes the devices' files and their parts" {
    run -0 purge 'mkdir softrdma.d && cd softrdma.d
        touch rxe0.conf siw-1_a.conf .rxe0.conf.0123456789abcdef.part
        ln -s /none link.conf'
    [[ ! $output ]]
}

@test "purge leaves other files and folders" {
    run -0 purge 'mkdir -p softrdma.d/folder.conf/x.conf softrdma.d/.a.conf.0123456789abcdef.part && cd softrdma.d
        touch rxe0.conf notes .hidden.conf a.conf.bak 0.conf .rxe0.conf.part .rxe0.conf.0123456789abcdeg.part'
    expected=('' /.a.conf.0123456789abcdef.part /.hidden.conf /.rxe0.conf.0123456789abcdeg.part /.rxe0.conf.part
        /0.conf /a.conf.bak /folder.conf /folder.conf/x.conf /notes)
    [[ $output == "$(printf '/etc/softrdma.d%s\n' "${expected[@]}")" ]] || { echo "$output" && return 1; }
}

@test "purge succeeds without the folder, and leaves a link in its place" {
    run -0 purge true
    [[ ! $output ]]
    run -0 purge 'mkdir elsewhere && touch elsewhere/rxe0.conf && ln -s elsewhere softrdma.d'
    [[ $output == *elsewhere/rxe0.conf* ]]
}
