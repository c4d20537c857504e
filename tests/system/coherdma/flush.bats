#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# libcoherdma's native flush, which requires a newer rdma-core than this release's, and kernel 6.3: the library is
# built with the headers of Debian 13 and runs in a guest of it.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

# prepare: copies the library, the program, the plugin and this compiler's C++ library to the current folder, which
# the guest shares.
prepare() {
    local top=$BATS_TEST_DIRNAME/../../.. built=$BUILD/trixie root status=0 libraries
    cd "$BATS_FILE_TMPDIR" || return
    [[ ! -e flush ]] || return 0
    root=$("$BATS_TEST_DIRNAME/../../debian/suite_root.py" trixie 2>messages) || status=$?
    ((status != 77)) || skip "$root"
    ((status == 0)) || {
        cat messages
        return 1
    }
    libraries=$root/usr/lib/$(cc -print-multiarch)
    # --fresh: files that an earlier configuration found may be gone.
    PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$libraries/pkgconfig \
        cmake --fresh -S "$top" -G Ninja -B "$built" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        -DCMAKE_SHARED_LINKER_FLAGS="-Wl,-rpath-link,$libraries" -DCOHERDMA_TESTS=OFF
    cmake --build "$built" -- coherdma
    cp "$built/ibverbs-glue/libcoherdma.so.1" "$(c++ -print-file-name=libstdc++.so.6)" \
        "$BUILD/provider/libcoherdma-rdmav34.so" "$BUILD/tests/system/coherdma/flush" .
}

expect_trials_right() { # COMMAND: runs before the trials
    prepare
    # shellcheck disable=SC2016 # for the guest's shell
    run -0 run_in_suite --suite trixie --driver rxe -- sh -c '
        export LD_LIBRARY_PATH=$PWD VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=/run/verbs.log
        touch $VERBS_LOG_FILE
        '"$1"'
        ./flush $SOFTRDMA_RXE_DEVICE $SOFTRDMA_RXE_GID_INDEX && echo finished
        cat $VERBS_LOG_FILE'
    diff - <(grep -vF 'is served by coherdma' <<<"$output") <<'END'
native: right (native, 200 times)
native-without-permission: right (native, remote access error)
native-without-qp-permission: right (native, remote invalid request error)
native-out-of-bounds: right (native, remote access error)
read-back: right (read back, success)
read-back-without-permission: right (read back, remote access error)
finished
END
}
expect_served_times() { [[ $(grep -c 'rxe0 is served by coherdma' <<<"$output") == "$1" ]]; } # TIMES

@test "trixie: rxe: flushes with our plugin are native, and rejected without permission" {
    # shellcheck disable=SC2016 # for the guest's shell
    expect_trials_right 'export RDMAV_DRIVERS=$PWD/libcoherdma'
    expect_served_times 6
}
@test "trixie: rxe: flushes with the stock provider are native, and rejected without permission" {
    expect_trials_right 'unset RDMAV_DRIVERS'
    expect_served_times 0
}
