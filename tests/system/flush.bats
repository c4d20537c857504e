#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# libcoherdma's native flush, which needs a later rdma-core than this release's to compile with, and a
# kernel from 6.3 on: the library is built with the headers of Debian 13, and used in a guest of it.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

# prepared: what the guest is to see is in the current folder: the library, the program, the plugin,
# and this compiler's C++ library.
prepared() {
    local top=$BATS_TEST_DIRNAME/../.. built=$BUILD/trixie root status=0 libraries
    cd "$BATS_FILE_TMPDIR" || return
    [[ ! -e flush ]] || return 0
    root=$("$BATS_TEST_DIRNAME/suite_root.py" trixie 2>said) || status=$?
    ((status != 77)) || skip "$root"
    ((status == 0)) || {
        cat said
        return 1
    }
    libraries=$root/usr/lib/$(cc -print-multiarch)
    # Anew: what an earlier one found may be gone.
    PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$libraries/pkgconfig \
        cmake --fresh -S "$top" -G Ninja -B "$built" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        -DCMAKE_SHARED_LINKER_FLAGS="-Wl,-rpath-link,$libraries" -DCOHERDMA_TESTS=OFF
    cmake --build "$built" -- coherdma
    cp "$built/ibverbs-glue/libcoherdma.so.1" "$(c++ -print-file-name=libstdc++.so.6)" \
        "$BUILD/release/provider/libcoherdma-rdmav34.so" "$BUILD/release/tests/flush" .
}

tried() { # COMMAND: the trials, after it
    prepared
    # shellcheck disable=SC2016 # for the guest's shell
    run -0 in_suite --suite trixie --driver rxe -- sh -c '
        export LD_LIBRARY_PATH=$PWD VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=/run/verbs.log
        touch $VERBS_LOG_FILE
        '"$1"'
        ./flush $SOFTRDMA_RXE_DEVICE $SOFTRDMA_RXE_GID_INDEX && echo all were tried
        cat $VERBS_LOG_FILE'
    diff - <(grep -vF 'is served by coherdma' <<<"$output") <<'END'
native: right (native, 200 times)
native-without-permission: right (native, remote access error)
native-without-permission-of-the-pair: right (native, remote invalid request error)
native-beyond-the-memory: right (native, remote access error)
read-back: right (read back, success)
read-back-without-permission: right (read back, remote access error)
all were tried
END
}
served() { [[ $(grep -c 'rxe0 is served by coherdma' <<<"$output") == "$1" ]]; } # TIMES

@test "trixie: flushes are native on rxe, and refused without permission, with our plugin" {
    # shellcheck disable=SC2016 # for the guest's shell
    tried 'export RDMAV_DRIVERS=$PWD/libcoherdma'
    served 6
}
@test "trixie: flushes are native on rxe, and refused without permission, with the stock provider" {
    tried 'unset RDMAV_DRIVERS'
    served 0
}
