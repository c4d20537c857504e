#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The steps of action.yml, with the archive that scripts/release has made ($DIST). GitHub itself is not tried.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    export RUNNER_TEMP=$PWD/temp GITHUB_PATH=$PWD/path
    mkdir temp
    : >path
    archive=$(echo "$DIST"/softrdma-*-x86_64.tar.xz)
    sha256=$(sha256sum <"$archive" | cut -d ' ' -f 1)
}
step() { "$BATS_TEST_DIRNAME/run_step" "$BATS_TEST_DIRNAME/../../action.yml" "$@"; } # NUMBER NAME=VALUE...

@test "a job unpacks the archive, and runs commands with a device of each driver" {
    step 0 "archive=$archive" "sha256=$sha256"
    step 0 "archive=$archive" "sha256=${sha256^^}" # in another step of the job
    for driver in rxe siw both; do
        run -0 step 1 driver=$driver "run=
            ls /sys/class/infiniband | tee devices
            false | true || echo 'pipefail is set'"
        [[ $output == *'pipefail is set'* ]]
        [[ $(<devices) == "${driver/both/$'rxe0\nsiw0'}"* ]] || { cat devices && return 1; }
    done
}

@test "a job runs commands on two hosts; their status is the step's" {
    step 0 "archive=$archive" "sha256=$sha256"
    # shellcheck disable=SC2016 # $HOST2 is for the guest's shell
    run -3 step 1 hosts=2 'run=on 2 sh -c "echo two: $HOST2"; exit 3'
    [[ $output == *'two: '[0-9]* ]]
}

@test "an archive with another SHA-256, or none: an error, and nothing is unpacked" {
    run -1 step 0 "archive=$archive" "sha256=${sha256/[0-9]/x}"
    [[ $output == "::error::softrdma: the SHA-256 of $archive is $sha256, not "* ]]
    run -1 step 0 "archive=missing" "sha256=$sha256"
    [[ $output == '::error::softrdma: there is no file missing' ]]
    [[ ! -s path && ! $(ls temp) ]]
}
