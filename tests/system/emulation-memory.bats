#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What registered memory costs on a played device. Run by ci/stages:
# softrdma run --driver both --memory 3500 -- bats tests/system/emulation-memory.bats

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/lib.bash"

setup() {
    export RDMAV_DRIVERS=$BUILD/release/provider/libcoherdma COHERDMA_EMULATE=stale
}
registers() { # DRIVER WHAT...
    run -0 "$BUILD/release/tests/system/emulation/registers" "$(of "$1" DEVICE)" "${@:2}"
    echo "$output"
}
# within LEAST MOST NUMBER
within() { awk -v a="$1" -v b="$2" -v n="$3" 'BEGIN { exit !(n >= a && n <= b) }'; }

# 1 GiB, and its copy, and 13 % at most of what is registered.
costs() {
    local is='registered 1024 MB: ([0-9.]+) % more in use, and (-?[0-9.]+) % afterwards'
    registers "$1" size 1024
    [[ $output =~ $is ]]
    within 100 113 "${BASH_REMATCH[1]}"
    within -1 0.5 "${BASH_REMATCH[2]}"
}
@test "rxe: 1 GiB of registered memory costs its copy and an eighth, until it is deregistered" { costs rxe; }
@test "siw: 1 GiB of registered memory costs its copy and an eighth, until it is deregistered" { costs siw; }

grows_not() {
    registers "$1" cycles 1000
    [[ $output =~ 'registered 1000 times: '(-?[0-9]+)' KB more' ]]
    within -2000 500 "${BASH_REMATCH[1]}"
}
@test "rxe: nothing is left of 1000 registrations" { grows_not rxe; }
@test "siw: nothing is left of 1000 registrations" { grows_not siw; }

runs_out() {
    registers "$1" until-refused
    [[ $output == *'no memory is left for the device'?'s copy of a region of 67108864 bytes'* ]]
    [[ $output == *': Cannot allocate memory'* ]]
    [[ $output == *'and again when others are gone'* ]]
}
@test "rxe: registration fails when memory runs out, and says why" { runs_out rxe; }
@test "siw: registration fails when memory runs out, and says why" { runs_out siw; }

forks() {
    registers "$1" fork
    [[ $output == *'the child has registered'*'the parent has registered'* ]]
}
@test "rxe: a child opens the device itself" { forks rxe; }
@test "siw: a child opens the device itself" { forks siw; }
