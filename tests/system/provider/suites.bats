#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The plugin as it was built here, byte for byte, in guests of each Debian release, which have their own
# libibverbs, perftest and kernel. They have no bats and see only the current folder.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

# What runs in the guest, with a device of each driver; OUR_DRIVERS is in its environment.
# shellcheck disable=SC2016 # for the guest's shell
in_guest='
    sha256sum libcoherdma-rdmav34.so
    readlink -f /usr/lib/*/libibverbs.so.1
    export VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=/run/verbs.log
    run_programs() { # DRIVER ADDRESS
        case " $OUR_DRIVERS " in *" $1 "*) export RDMAV_DRIVERS=$PWD/libcoherdma ;; *) unset RDMAV_DRIVERS ;; esac
        guest_rping "$2" 100 && echo "$1: rping is well"
        guest_perftest "ib_write_bw -F -R -d ${1}0 -n 200 -s 4096" "$2" && echo "$1: ib_write_bw is well"
    }
    run_programs rxe $SOFTRDMA_RXE_ADDRESS
    run_programs siw $SOFTRDMA_SIW_ADDRESS
    cat /run/verbs.log'

# run_programs_in SUITE LIBRARY: rping and perftest there, with a libibverbs whose name ends like that.
run_programs_in() {
    local driver
    export OUR_DRIVERS
    cd "$BATS_TEST_TMPDIR" || return
    cp -a "$BUILD"/provider/libcoherdma-rdmav*.so "$lib/is_listening" .
    run -0 run_in_suite --suite "$1" --driver both -- sh -c "$(<"$lib/guest.sh")$in_guest"
    [[ ${lines[0]} == "$(sha256sum libcoherdma-rdmav34.so)" ]]
    # shellcheck disable=SC2053 # a pattern
    [[ ${lines[1]} == */libibverbs.so.1.*.$2 ]]
    [[ $(grep -c '^ping data' <<<"$output") == 200 ]]
    for driver in rxe siw; do
        [[ $output == *"$driver: rping is well"*"$driver: ib_write_bw is well"* ]]
        [[ " $OUR_DRIVERS " != *" $driver "* ]] || (($(grep -c "${driver}0 is served by coherdma" <<<"$output") >= 4))
    done
}

@test "bookworm: rping and ib_write_bw complete over rxe and siw" { run_programs_in bookworm '44.*'; }
@test "trixie: rping and ib_write_bw complete over rxe and siw" { run_programs_in trixie '56.*'; }
@test "sid: rping and ib_write_bw complete over rxe and siw" { run_programs_in sid '6[0-9].*'; }
