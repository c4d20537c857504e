# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Source it from a bats file: the programs of situations/, and for each of their syncs, in order, the
# kind of the finding that says why the data are wrong on a played device without it; or -, none has to:
# of memory that processes share the last to have it tells, but if both give it back at once, neither is.
# (-g: bats reads it within a function.)
declare -gA without=(
    [batch]='unsynced-read stale'
    [modify_then_read]=unsynced-read
    [ordered]='stale stale'
    [second_lmr]='unsynced-read stale'
    [shared]='- -'
    [touch_then_be_written]='unsynced-write conflict'
    [write_then_look]=stale
    [written_then_touch]='conflict unsynced-read'
    [atomic_write]=stale
)

# builds FOLDER NAME: those of a program that are there.
builds() {
    local each
    for each in "$1/situation_$2"_dat[12]; do
        [[ ! -x $each ]] || echo "${each##*/}"
    done
}
