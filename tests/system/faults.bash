# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# For the tables of faults of the stock providers: tries() is the program and whom it talks to. Each
# test prints a row of its table: what, the stock provider, ours.
source "$BATS_TEST_DIRNAME/lib.bash"

plugin=$BUILD/release/provider/libcoherdma

# judged NAME [VARIABLE=VALUE...]: "right (...)" or "wrong (...)", as the program says.
judged() {
    local name=$1 line
    shift
    line=$(env "$@" $(tries) "$name") || true
    [[ $line == "$name: "* ]] || {
        echo "nothing was said of $name: $line" >&2
        return 1
    }
    printf '%s\n' "${line#"$name": }"
}

# ours NAME: as judged, with our plugin, if it serves the device.
ours() {
    local log=$BATS_TEST_TMPDIR/verbs.log
    judged "$1" RDMAV_DRIVERS="$plugin" VERBS_LOG_LEVEL=3 VERBS_LOG_FILE="$log" &&
        grep -q 'is served by coherdma' "$log"
}

# row NAME: stock and own are what is judged.
row() {
    stock=$(judged "$1")
    own=$(ours "$1")
    echo "# $1 | stock: $stock | ours: $own" >&3
}

fault() { # NAME: wrong with the stock provider, right with us
    row "$1"
    [[ $stock == wrong* ]]
    [[ $own == right* ]]
}
right() { # NAME: right with us; the stock provider is, too, or on some kernels
    row "$1"
    [[ $stock != untried* ]]
    [[ $own == right* ]]
}
