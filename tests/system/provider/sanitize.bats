#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Programs built with the sanitizer of build folder SANITIZED, on soft devices. A report ends the program
# with a failure.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

@test "rxe: data_integrity runs without a sanitizer report" { verify_data_on rxe; }
@test "siw: data_integrity runs without a sanitizer report" { verify_data_on siw; }

run_coherdma() { # DEVICE
    local tool=$BUILD/$SANITIZED/tools/coherdma
    "$tool" show "$1"
    "$tool" explain "$1" --probe
    "$tool" doctor "$1"
}
@test "rxe: coherdma show, explain and doctor run without a sanitizer report" { run_coherdma rxe0; }
@test "siw: coherdma show, explain and doctor run without a sanitizer report" { run_coherdma siw0; }
