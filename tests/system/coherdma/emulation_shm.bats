#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The file in /dev/shm by which emulated processes of a user send each other requests: one that another user made is
# neither waited for nor used, and the program runs without it.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

setup() {
    export RDMAV_DRIVERS=$BUILD/provider/libcoherdma:$BUILD/provider/libcoherdma-observers COHERDMA_EMULATE=stale
    device=$(device_fact rxe DEVICE)
    shm=/dev/shm/coherdma-emulation-$EUID
    rm -rf "$shm"
    sysctl -qw fs.protected_regular=0 fs.protected_hardlinks=0 # as strict as the oldest kernels
    holder=''
}
teardown() {
    [[ ! $holder ]] || kill "$holder"
    rm -rf "$shm"
}

# expect_note NOTE: the device is opened without requests between processes, for that reason.
# shellcheck disable=SC2154 # stderr, of bats's run
expect_note() {
    run -0 --separate-stderr timeout "${LIMIT:-120}" ibv_devinfo -d "$device"
    echo "$stderr"
    [[ $output == *"hca_id:	$device"* ]]
    [[ $stderr == *"requests of other processes on memory of this process are not checked: $1"* ]]
}
# run_as_other_user SCRIPT: in Python, which has the path of the file in argv, until the test ends.
run_as_other_user() {
    setpriv --reuid 65534 --regid 65534 --clear-groups /usr/bin/python3 -c "import fcntl, os, signal, sys
$1
print('ready', flush=True)
signal.pause()" "$shm" >"$BATS_TEST_TMPDIR/holder.out" 2>&1 3>&- &
    holder=$!
    wait_for_output holder ready
}

@test "a file of this user has no note" {
    for try in 1 2; do
        run -0 --separate-stderr ibv_devinfo -d "$device"
        [[ $stderr != *'are not checked'* && $(stat -c '%u %a' "$shm") == "$EUID 600" ]] || { echo "$try: $stderr" && return 1; }
    done
}

@test "a file of another user, with its locks held, is not waited for" {
    run_as_other_user "fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.fchmod(fd, 0o666)
fcntl.flock(fd, fcntl.LOCK_EX)
fcntl.lockf(fd, fcntl.LOCK_EX)"
    expect_note "$shm belongs to user 65534, not to user $EUID; type: rm $shm"
    [[ $(stat -c %s "$shm") == 0 ]]
}

@test "a file of another user, as long as that of this user, is not mapped" {
    ibv_devinfo -d "$device"
    size=$(stat -c %s "$shm")
    rm "$shm"
    run_as_other_user "fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.fchmod(fd, 0o666)
os.truncate(fd, $size)"
    expect_note "$shm belongs to user 65534, not to user $EUID; type: rm $shm"
}

@test "a second name of a file of this user is not used, and the file is kept" {
    (umask 077 && echo text >/dev/shm/original)
    ln /dev/shm/original "$shm"
    expect_note "$shm has another name, a hard link; type: rm $shm"
    [[ $(</dev/shm/original) == text ]]
    rm /dev/shm/original
}

@test "a file that other users can open, and a symbolic link, are not used" {
    ibv_devinfo -d "$device"
    chmod 644 "$shm"
    expect_note "$shm can be opened by other users (mode 0644); type: rm $shm"
    rm "$shm"
    ln -s /dev/shm/target "$shm"
    expect_note "$shm is a symbolic link; type: rm $shm"
    [[ ! -e /dev/shm/target ]]
}

@test "a file of another version is not cut" {
    echo 'another layout' >"$shm"
    chmod 600 "$shm"
    expect_note "$shm is of another version of coherdma; when no emulated program runs, type: rm $shm"
    [[ $(<"$shm") == 'another layout' ]]
}

@test "a file of another version and the same size is not erased" {
    ibv_devinfo -d "$device"
    printf '\x7f' | dd of="$shm" bs=1 conv=notrunc status=none # the first byte of the version
    cp "$shm" "$BATS_TEST_TMPDIR/before"
    expect_note "$shm is of another version of coherdma; when no emulated program runs, type: rm $shm"
    cmp "$shm" "$BATS_TEST_TMPDIR/before"
}

@test "for a folder, the note has a command that removes it" {
    mkdir "$shm"
    expect_note "$shm is a folder; type: rm -r $shm"
}

# run_sides NAMESPACE OPTION...: both sides of `synced`, each a process of such a namespace, a command. The findings
# of the server are in server.json.
run_sides() {
    folder=$BATS_TEST_TMPDIR /usr/bin/python3 -c 'import os, socket, subprocess, sys
SOCKET = 3  # as synced expects it
namespace, program, *options = sys.argv[1:]
sides = []
for side, end in zip(("server", "client"), socket.socketpair()):
    env = dict(os.environ, COHERDMA_EMULATE_LOG="{}/{}.json".format(os.environ["folder"], side))
    command = [*namespace.split(), program, "--" + side, *options]
    sides.append(subprocess.Popen(command, env=env, pass_fds=[SOCKET], preexec_fn=lambda: os.dup2(end.fileno(), SOCKET)))
sys.exit(max(side.wait() for side in sides) > 1)' "$1" "$BUILD/tests/system/coherdma/emulation/synced" "${@:2}" 3>&-
}

@test "processes of two PID namespaces send each other requests" {
    local call namespace
    # The server finds that the client reads data that it has not synced, only if the client sends it requests.
    call=$("$BUILD/tests/system/coherdma/emulation/synced" --list rxe | awk '$2 == "read" && $3 == "server" { print $1 }')
    for namespace in '' 'unshare --pid --fork --mount-proc'; do
        rm -f "$BATS_TEST_TMPDIR"/*.json
        run_sides "$namespace" --only read --without "$call" "$device" "$(device_fact rxe ADDRESS)"
        cat "$BATS_TEST_TMPDIR/server.json"
        jq -es 'any(.[]; .missing == "sync before the Read")' "$BATS_TEST_TMPDIR/server.json"
    done
}

@test "a full /dev/shm does not end the program" {
    mount -t tmpfs -o size=64k none /dev/shm
    expect_note "$shm: No space left on device"
    umount /dev/shm
}

# fill_shm: leaves no room in a /dev/shm of the test's own.
fill_shm() {
    dd if=/dev/zero of=/dev/shm/filler bs=4k status=none 2>/dev/null || true
    [[ $(stat -fc %f /dev/shm) == 0 ]]
}

@test "a full /dev/shm does not end a program that registers shared memory" {
    local program=$BUILD/tests/system/coherdma/emulation/shared
    mount -t tmpfs -o size=64k none /dev/shm
    fill_shm
    run --separate-stderr timeout "${LIMIT:-120}" "$program" "$(device_fact rxe ADDRESS)"
    umount /dev/shm
    echo "$status: $stderr"
    ((status <= 1)) # the data are wrong: each process has a copy of its own
    [[ $stderr == *'as if it was private to this process: /dev/shm/'*': No space left on device'* ]]
}

@test "a /dev/shm without room for the keys of memory does not end the program" {
    mount -t tmpfs -o size=16m none /dev/shm
    ibv_devinfo -d "$device"
    fill_shm
    cd "$BATS_TEST_TMPDIR"
    run --separate-stderr timeout "${LIMIT:-120}" "$BUILD/tests/system/coherdma/emulation/peers" "$device" \
        "$(device_fact rxe GID_INDEX)" posted
    umount /dev/shm
    echo "$stderr"
    [[ $status == 0 ]]
    [[ $stderr == *'its keys cannot be published in /dev/shm: No space left on device'* ]]
}

@test "an ordinary user does not use a file of root" {
    shm=/dev/shm/coherdma-emulation-65534
    (umask 0 && : >"$shm")
    # That user may not be able to enter the build folder.
    mkdir /run/emulation_shm
    cp "$BUILD"/provider/libcoherdma-*.so /run/emulation_shm
    chmod 666 /dev/infiniband/uverbs*
    RDMAV_DRIVERS=/run/emulation_shm/libcoherdma-observers run -0 --separate-stderr timeout "${LIMIT:-120}" \
        setpriv --reuid 65534 --regid 65534 --clear-groups ibv_devinfo -d "$device"
    echo "$stderr"
    [[ $stderr == *"are not checked: $shm belongs to user 0, not to user 65534; as root: rm $shm"* ]]
}

# A FIFO as the log, in which there is no room: the owner of the memory stops in the middle of its first check.
fill_fifo() {
    mkfifo log
    exec {fifo}<>log
    /usr/bin/python3 -c 'import os
fd = os.open("log", os.O_WRONLY | os.O_NONBLOCK)
try:
    while True:
        os.write(fd, b"\n" * 4096)
except BlockingIOError:
    pass'
}
is_check_blocked() { # the thread that checks is in write()
    local task number
    while read -r task; do
        read -r number _ <"${task%/comm}/syscall" || continue
        [[ $number != "$write_number" ]] || return 0
    done < <(grep -lx coherdma-peers /proc/[0-9]*/task/[0-9]*/comm 2>/dev/null)
    return 1
}
@test "a check that takes longer than it takes to begin one is awaited, and those behind it are made" {
    local write_number=1 first number fifo reader program
    [[ $(uname -m) == x86_64 ]] || write_number=64
    program=$BUILD/tests/system/coherdma/emulation/synced
    number=$("$program" --list rxe | awk '$2 == "threads" && $3 == "server" && $4 == "read" { print $1 }')
    cd "$BATS_TEST_TMPDIR"
    fill_fifo
    COHERDMA_EMULATE_LOG=$PWD/log "$program" --without "$number" --only threads --rounds 8 "$device" \
        "$(device_fact rxe ADDRESS)" >out 2>&1 {fifo}>&- 3>&- &
    first=$!
    wait_until is_check_blocked
    sleep 1 # more than three times as long as a requester waits for the check to begin
    grep -v '^$' log >lines {fifo}>&- 3>&- &
    reader=$!
    wait "$first" && return 1
    exec {fifo}>&-
    wait "$reader"
    cat out
    grep -q '^ *32  unsynced-read ' out # 4 threads, 8 rounds
    run ! grep 'in time' out
}
