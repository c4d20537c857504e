# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# What the tests share that call softrdma from outside.

program=$BATS_TEST_DIRNAME/../../scripts/softrdma
softrdma() { "$program" "$@"; }

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    export TMPDIR=$BATS_TEST_TMPDIR # softrdma's own folders go here: easy to see what is left
}

# begin COMMAND...: softrdma itself, not a shell around it, as process $pid, its output in out and err.
begin() {
    "$program" "$@" >out 2>err 3>&- &
    pid=$!
}
ends_with() { # STATUS
    local status=0
    wait "$pid" || status=$?
    [[ $status == "$1" ]] || {
        echo "status $status instead of $1"
        cat out err
        return 1
    }
}

# own_cache [PLACE]: a cache of the test's own, with the package lists of the real one to save time;
# with what the real one has in PLACE (kernels or uml).
own_cache() {
    local real=${SOFTRDMA_CACHE:-$HOME/.cache/softrdma}
    export SOFTRDMA_CACHE=$BATS_TEST_TMPDIR/cache
    mkdir cache
    [[ ! -d $real/apt ]] || cp -a "$real/apt" cache/
    case ${1:-} in
    kernels) mkdir cache/kernels && cp -a "$real/kernels/$(dpkg --print-architecture)" cache/kernels/ ;;
    uml) cp -a "$real/uml" cache/ ;;
    esac
}

left_over() { # what a softrdma of this test left: processes, folders
    pgrep -af "([q]emu|[u]ml_dir=).*$TMPDIR" || true
    local pid
    for pid in $(pgrep -f "[s]oftrdma (run|kernel)"); do
        if grep -qsxz "TMPDIR=$TMPDIR" "/proc/$pid/environ"; then ps -o pid=,args= -p "$pid"; fi
    done
    find "$TMPDIR" -maxdepth 1 -name 'softrdma.*'
}
nothing_left() { [[ -z $(left_over) ]]; }
