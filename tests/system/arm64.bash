# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Source it from a bats file: ours, built for arm64.

root=$BATS_TEST_DIRNAME/../..

# build_for_arm64 TARGET...: they are in $built then, and Debian's files for that CPU in $ARM64_ROOT.
build_for_arm64() {
    local status=0
    built=$BUILD/arm64
    command -v aarch64-linux-gnu-g++ >/dev/null || skip 'no aarch64-linux-gnu-g++'
    ARM64_ROOT=$("$BATS_TEST_DIRNAME/arm64_root.py" 2>"$BATS_FILE_TMPDIR/said") || status=$?
    ((status != 77)) || skip "$ARM64_ROOT"
    export ARM64_ROOT
    # Anew: what an earlier one found may be gone.
    cmake --fresh -S "$root" -G Ninja -B "$built" --toolchain "$root/cmake/arm64.cmake" \
        -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCOHERDMA_TESTS=OFF
    cmake --build "$built" -- "$@"
}
