#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# softrdma for people who change a kernel: a shell, kernels of their own, words for the kernel, a debugger.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
source "$BATS_TEST_DIRNAME/../lib/caller.bash"

# start_on_terminal COMMAND: starts it in a shell, as process $pid. What is written to descriptor 9 is typed.
start_on_terminal() {
    rm -f typed out && mkfifo typed
    script -qefc "$1" /dev/null <typed >out 2>&1 3>&- &
    pid=$!
    exec 9>typed
}

@test "run without a command on a terminal is a shell: that of SHELL, or another" {
    for shell in /bin/dash /no/such/shell; do
        start_on_terminal "SHELL=$shell '$program' run --in uml -q"
        wait_until is_ready_or_ended "$pid" grep -qs '[>#$] ' out
        # shellcheck disable=SC2016 # the shell in the guest expands it
        echo 'echo "it is $0, $(ls /sys/class/infiniband)"; exit 7' >&9
        expect_status 7
        grep "it is $([[ -x $shell ]] && echo "$shell" || echo bash), rxe0" out
    done
    run -2 softrdma run --in uml </dev/null
    [[ ${#lines[@]} == 1 && $output == *"a command is missing"* ]]
}
