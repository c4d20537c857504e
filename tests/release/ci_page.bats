#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The jobs of docs/rdma-in-ci.md and docs/ci, and the lines for tools, in Debian 12 ($CI_ROOTS), with the archive that
# scripts/release has made ($DIST). The address and the SHA-256 of the archive are other ones, and nothing else.

bats_require_minimum_version 1.5.0
page=$BATS_TEST_DIRNAME/../../docs/rdma-in-ci.md
JOB_USER=1234

setup_file() {
    [[ $(id -u) == 0 ]] || skip 'only root enters a root of Debian here'
    export certificate=$BATS_FILE_TMPDIR/certificate.pem
    "$BATS_TEST_DIRNAME/make_certificate" "$certificate"
    "$BATS_TEST_DIRNAME/serve_https" "$DIST" "$certificate" >"$BATS_FILE_TMPDIR/port" 2>"$BATS_FILE_TMPDIR/requests" 3>&- &
    echo $! >"$BATS_FILE_TMPDIR/server"
    until [[ -s $BATS_FILE_TMPDIR/port ]]; do sleep 0.1; done
}
teardown_file() {
    [[ ! -f $BATS_FILE_TMPDIR/server ]] || kill "$(<"$BATS_FILE_TMPDIR/server")"
}

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    archive=$(cd "$DIST" && echo softrdma-*-x86_64.tar.xz)
    sha256=$(sha256sum <"$DIST/$archive" | cut -d ' ' -f 1)
    address=https://localhost:$(<"$BATS_FILE_TMPDIR/port")/$archive
    mkdir -p job/temp
    : >job/path
    cp "$certificate" job/certificate.pem
}

# run_in_root ROOT COMMAND...: in the folder `job`, with the variables of a runner.
run_in_root() {
    run "$BATS_TEST_DIRNAME/enter_root" "$CI_ROOTS/$1" "$PWD/job" /usr/bin/env CURL_CA_BUNDLE=/job/certificate.pem \
        DEBIAN_FRONTEND=noninteractive RUNNER_TEMP=/job/temp GITHUB_PATH=/job/path "${@:2}"
    printf '%s\n' "$output"
}
# run_job SYSTEM FILE NAME=VALUE... [-- COMMAND...]: the job's scripts as root in a bare root, or by a user after the
# command, as a machine that has what the command installs.
# shellcheck disable=SC2016 # for the inner shells
run_job() {
    local arguments=()
    until [[ $# == 0 || $1 == -- ]]; do arguments+=("$1") && shift; done
    rm -rf job/steps
    "$BATS_TEST_DIRNAME/ci_job" "${arguments[@]:0:2}" job/steps "${arguments[@]:2}"
    local run_steps='for step in steps/*; do "$step"; done'
    if [[ $# == 0 ]]; then
        run_in_root bare bash -ec "$run_steps"
    else
        chown -R $JOB_USER job
        run_in_root bare bash -ec '
            useradd --uid "$0" runner
            apt-get update
            apt-get install -y --no-install-recommends "${@:2}"
            [ ! -d /etc/sudoers.d ] || echo "runner ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/runner
            exec setpriv --reuid "$0" --regid "$0" --clear-groups bash -ec "$1"' \
            $JOB_USER "$run_steps" "${@:2}"
    fi
}
# expect_job ROUNDS: it has succeeded, a device was shown, and rping has made so many rounds.
expect_job() {
    [[ $status == 0 && $output == *PORT_ACTIVE* && $(grep -c '^ping data' <<<"$output") == "$1" ]]
}
count_requests() { grep -c "GET /$archive" "$BATS_FILE_TMPDIR/requests" || true; }

@test "GitHub: the job's steps, by a user without root" {
    "$BATS_TEST_DIRNAME/../docs/page_block" GitHub yaml 1 "$page" >rdma.yml
    run_job actions rdma.yml "archive=$address" "sha256=$sha256" -- sudo ca-certificates curl iproute2 python3
    expect_job 5
}

@test "Forgejo: the job's steps" {
    run_job actions "$BATS_TEST_DIRNAME/../../docs/ci/forgejo.yml" "archive=$address" "sha256=$sha256"
    expect_job 5
}

@test "GitLab: the job's script, and again with its cache" {
    local before
    before=$(count_requests)
    for _ in 1 2; do
        run_job gitlab "$BATS_TEST_DIRNAME/../../docs/ci/gitlab-ci.yml" "SOFTRDMA_URL=$address" "SOFTRDMA_SHA256=$sha256"
        expect_job 5
        (($(count_requests) == before + 1))
    done
}

@test "Jenkins: the job's steps, by a user without root, and again in its workspace" {
    local packages=(curl ca-certificates iproute2 python3 ibverbs-providers ibverbs-utils rdmacm-utils) before
    before=$(count_requests)
    for _ in 1 2; do
        run_job jenkins "$BATS_TEST_DIRNAME/../../docs/ci/Jenkinsfile" "SOFTRDMA_URL=$address" "SOFTRDMA_SHA256=$sha256" -- "${packages[@]}"
        expect_job 5
        (($(count_requests) == before + 1))
    done
}

# expect_refusal: the job has downloaded the archive, and has neither unpacked nor run it.
expect_refusal() {
    [[ $status != 0 && $output == *'softrdma.tar.xz: FAILED'* && $output != *hca_id* ]]
    [[ -f job/.softrdma/softrdma.tar.xz && ! -d $(echo job/.softrdma/softrdma-*/) ]]
}
@test "an archive with another SHA-256 ends a job before its tests" {
    local arguments=("SOFTRDMA_URL=$address" "SOFTRDMA_SHA256=${sha256//[0-8]/9}")
    run_job gitlab "$BATS_TEST_DIRNAME/../../docs/ci/gitlab-ci.yml" "${arguments[@]}"
    expect_refusal
    rm -r job/.softrdma
    run_job jenkins "$BATS_TEST_DIRNAME/../../docs/ci/Jenkinsfile" "${arguments[@]}" -- ca-certificates curl iproute2 python3
    expect_refusal
}

# run_lines: those of job/lines in job/project, with the archive's programs.
# shellcheck disable=SC2016 # for the inner shell
run_lines() { run_in_root tools bash -ec 'PATH=/job/softrdma/bin:$PATH && cd project && source ../lines'; }
# check_tool NAME OUTPUT: the page's lines for the tool pass with softrdma. With the program env in its place they fail,
# with the output: it is softrdma that gives the device.
check_tool() {
    mkdir job/softrdma
    tar -xJf "$DIST/$archive" -C job/softrdma --strip-components=1 --no-same-owner
    cp -rL "$BATS_TEST_DIRNAME/projects/$1" job/project
    "$BATS_TEST_DIRNAME/../docs/page_block" 'Your tests' sh 1 "$page" | sed -n "/^# $1\$/,/^# /{/^#/!p}" >job/lines
    [[ $(<job/lines) == *softrdma* ]]
    run_lines
    [[ $status == 0 ]] || return 1
    sed -i -E 's/softrdma run( --write \.)? --/env/; s/softrdma;run;--/env/' job/lines
    rm -r job/project
    cp -rL "$BATS_TEST_DIRNAME/projects/$1" job/project
    run_lines
    [[ $status != 0 && $output == *"$2"* ]]
}
@test "cargo test, with a variable or a file" {
    check_tool cargo 'test result: FAILED'
    mkdir job/project/.cargo
    "$BATS_TEST_DIRNAME/../docs/page_block" 'Your tests' toml 1 "$page" >job/project/.cargo/config.toml
    echo 'cargo test' >job/lines
    run_lines
    [[ $status == 0 ]]
}
@test "go test" { check_tool go 'uverbs0: no such file'; }
@test "pytest" { check_tool pytest '1 failed'; }
@test "ctest" { check_tool cmake 'tests failed'; }
@test "meson test" { check_tool meson 'FAIL'; }
@test "npm test" { check_tool npm 'ENOENT'; }
