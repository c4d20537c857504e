#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Programs built with sanitizers, on real devices. A finding ends the program with a bad status.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

@test "asan and ubsan: carry on rxe" { ADDRESS=$(of rxe ADDRESS) carried asan env env --timeout 60; }
@test "asan and ubsan: carry on siw" { ADDRESS=$(of siw ADDRESS) carried asan env env --timeout 60; }
@test "tsan: carry on rxe" { ADDRESS=$(of rxe ADDRESS) carried tsan env env --timeout 60; }
@test "tsan: carry on siw" { ADDRESS=$(of siw ADDRESS) carried tsan env env --timeout 60; }

looked_at() { # BUILD DEVICE: what libcoherdma does with a device
    "$BUILD/$1/tools/coherdma" show "$2"
    "$BUILD/$1/tools/coherdma" explain "$2" --probe
    "$BUILD/$1/tools/coherdma" doctor "$2"
}
@test "asan and ubsan: coherdma on rxe" { looked_at asan rxe0; }
@test "asan and ubsan: coherdma on siw" { looked_at asan siw0; }
@test "tsan: coherdma on rxe" { looked_at tsan rxe0; }
@test "tsan: coherdma on siw" { looked_at tsan siw0; }
