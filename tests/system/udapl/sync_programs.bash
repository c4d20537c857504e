# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Source it from a bats file: the programs of sync_programs/, and for each of their sync calls, in order, the kind of
# the finding that emulation reports without it; or -, which requires none: of memory that two processes share, the
# last owner reports, and there is none if both free it at once. (-g: bats reads this within a function.)
# shellcheck disable=SC2034 # for files that source this
declare -gA findings_without_sync=(
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

# find_builds FOLDER NAME: sets builds to the file names of a program, for one or both versions of uDAPL.
find_builds() {
    local path
    builds=()
    for path in "$1/sync_$2"_dat[12]; do
        [[ ! -x $path ]] || builds+=("${path##*/}")
    done
}
