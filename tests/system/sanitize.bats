#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Programs built with the sanitizers of build folder SANITIZED, on real devices. A finding ends the
# program with a bad status.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

@test "carry on rxe" { ADDRESS=$(of rxe ADDRESS) carried "$SANITIZED" env env --timeout 60; }
@test "carry on siw" { ADDRESS=$(of siw ADDRESS) carried "$SANITIZED" env env --timeout 60; }

looked_at() { # DEVICE: what libcoherdma does with a device
    local tool=$BUILD/$SANITIZED/tools/coherdma
    "$tool" show "$1"
    "$tool" explain "$1" --probe
    "$tool" doctor "$1"
}
@test "coherdma on rxe" { looked_at rxe0; }
@test "coherdma on siw" { looked_at siw0; }
