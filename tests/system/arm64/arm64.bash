# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Source it from a bats file: builds our libraries and programs for arm64.

root=$BATS_TEST_DIRNAME/../../..

# build_for_arm64 TARGET...: into $built; Debian's files for that CPU are in $ARM64_ROOT.
build_for_arm64() {
    local status=0
    built=$BUILD/arm64
    command -v aarch64-linux-gnu-g++ >/dev/null || skip 'no aarch64-linux-gnu-g++'
    ARM64_ROOT=$("$BATS_TEST_DIRNAME/../../debian/arm64_root.py" 2>"$BATS_FILE_TMPDIR/messages") || status=$?
    ((status != 77)) || skip "$ARM64_ROOT"
    export ARM64_ROOT
    # --fresh: what an earlier configuration found may be gone.
    cmake --fresh -S "$root" -G Ninja -B "$built" --toolchain "$root/cmake/arm64.cmake" \
        -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCOHERDMA_TESTS=OFF
    cmake --build "$built" -- "$@"
}
