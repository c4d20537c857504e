# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# For tests that call softrdma from outside a guest.

program=$BATS_TEST_DIRNAME/../../../scripts/softrdma
softrdma() { "$program" "$@"; }

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    export TMPDIR=$BATS_TEST_TMPDIR # softrdma makes its temporary folders here: see left_over
}

# start_softrdma COMMAND...: starts softrdma itself, not a subshell, as process $pid. Its output is in out and err.
start_softrdma() {
    "$program" "$@" >out 2>err 3>&- &
    pid=$!
}
# expect_status STATUS: waits for process $pid.
expect_status() {
    local status=0
    wait "$pid" || status=$?
    [[ $status == "$1" ]] || {
        echo "status $status instead of $1"
        cat out err
        return 1
    }
}

# use_own_cache KERNELS: sets SOFTRDMA_CACHE to a copy of the cached kernels for QEMU (kernels) or user mode (uml).
use_own_cache() {
    local cache=${SOFTRDMA_CACHE:-$HOME/.cache/softrdma}
    export SOFTRDMA_CACHE=$BATS_TEST_TMPDIR/cache
    # An empty folder, which softrdma makes a cache: a folder with other files it refuses.
    PYTHONPATH=${program%/*} /usr/bin/python3 -c 'from lab.core import cache; cache.make_cache_folder()'
    case $1 in
    kernels) mkdir cache/kernels && cp -a "$cache/kernels/$(dpkg --print-architecture)" cache/kernels/ ;;
    uml) cp -a "$cache/uml" cache/ ;;
    esac
}

# guest_pids PATTERN: prints the processes of guests that this test has started, as bats says in their environment, and
# whose command line matches the pattern.
guest_pids() {
    local pid
    for pid in $(pgrep -f "([q]emu-system|[u]ml_dir=).*$1"); do
        if grep -qsxz "BATS_TEST_TMPDIR=$BATS_TEST_TMPDIR" "/proc/$pid/environ"; then echo "$pid"; fi
    done
}

# left_over: prints processes and folders that a softrdma of this test left.
left_over() {
    guest_pids .
    local pid
    for pid in $(pgrep -f "[s]oftrdma (run|kernel)"); do
        if grep -qsxz "TMPDIR=$TMPDIR" "/proc/$pid/environ"; then ps -o pid=,args= -p "$pid"; fi
    done
    find "$TMPDIR" -maxdepth 1 -name 'softrdma.*'
    local folder # of a guest's memory: softrdma.PID.NUMBER, and its lock
    for folder in /dev/shm/softrdma.*.*; do
        pid=${folder#*softrdma.}
        [[ ! -e $folder || -e /proc/${pid%%.*} ]] || echo "$folder"
    done
}
is_nothing_left() { [[ -z $(left_over) ]]; }

# kill_at_random_moments RUNS TENTHS OPTION... -- COMMAND...: kills so many runs of softrdma run, each at a random
# moment in another part of TENTHS tenths of a second. They leave nothing.
kill_at_random_moments() {
    local moment part runs=$1 tenths=$2
    shift 2
    for ((part = 0; part < runs; ++part)); do
        moment=$(((part * tenths + RANDOM % tenths) / runs))
        start_softrdma run -q "$@"
        sleep $((moment / 10)).$((moment % 10)) # the subject of the test
        kill -KILL "$pid"
        expect_status 137
        wait_until is_nothing_left || {
            echo "after $moment tenths of a second: $(left_over)"
            return 1
        }
    done
}
