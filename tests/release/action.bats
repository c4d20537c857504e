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
step() { # NUMBER NAME=VALUE...
    rm -rf steps
    "$BATS_TEST_DIRNAME/ci_job" action "$BATS_TEST_DIRNAME/../../action.yml" steps "${@:2}"
    "${WITHIN[@]}" "steps/0$1"
}

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

@test "an archive is downloaded by https, and its SHA-256 compared" {
    "$BATS_TEST_DIRNAME/make_certificate" certificate.pem
    coproc SERVER { exec "$BATS_TEST_DIRNAME/serve_https" "$DIST" certificate.pem 3>&-; }
    read -r port <&"${SERVER[0]}"
    export CURL_CA_BUNDLE=$PWD/certificate.pem
    step 0 "archive=https://localhost:$port/${archive##*/}" "sha256=$sha256"
    run -1 step 0 "archive=https://localhost:$port/SHA256SUMS" "sha256=$sha256"
    [[ $output == *"::error::softrdma: the SHA-256 of $PWD/temp/softrdma.tar.xz is "*", not $sha256" ]]
    run -1 step 0 "archive=https://localhost:$port/missing" "sha256=$sha256"
    [[ $output == *"::error::softrdma: cannot download https://localhost:$port/missing" ]]
    kill "$SERVER_PID"
    [[ $(wc -l <path) == 1 ]]
}

@test "a runner that lacks something is told what" {
    WITHIN=(setarch i686)
    run -1 step 0 "archive=$archive" "sha256=$sha256"
    [[ $output == '::error::softrdma: this runner is Linux i686; '* ]]
    # A PATH with fewer programs.
    mkdir programs
    ln -s /usr/bin/{bash,tr,uname,false} programs
    # shellcheck disable=SC2123
    WITHIN=(/usr/bin/env PATH="$PWD/programs")
    run -1 step 0 "archive=$archive" "sha256=$sha256"
    [[ $output == '::error::softrdma: this runner has no python3 of version 3.9 or later; try: apt-get install python3' ]]
    ln -s false programs/python3
    run -1 step 0 "archive=$archive" "sha256=$sha256"
    [[ $output == *'has no python3 of version 3.9'* ]]
    ln -sf /usr/bin/python3 programs/python3
    run -1 step 0 "archive=$archive" "sha256=$sha256"
    [[ $output == '::error::softrdma: this runner has no program ip; try: apt-get install iproute2' ]]
    ln -s "$(type -P ip)" programs/ip
    run -1 step 0 "archive=https://localhost/archive" "sha256=$sha256"
    [[ $output == '::error::softrdma: this runner has no program curl; '* ]]
    [[ ! -s path && ! $(ls temp) ]]
}
