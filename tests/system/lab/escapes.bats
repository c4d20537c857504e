#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# A hostile command, which is root in its guest, tries to change files of the host outside --write. $IN is the kind of
# guest: uml or qemu. Tests with the tag qemu run in both. unit.lab.confinement tries what only the guest's kernel could.

bats_require_minimum_version 1.8.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"
source "$BATS_TEST_DIRNAME/../lib/caller.bash"

# A folder for all users: a softrdma that is installed with its kernel, so that an ordinary user can run it.
setup_file() {
    shared=$(mktemp -d "/tmp/escapes.$IN.XXXXXX")
    export shared
    chmod 755 "$shared"
    mkdir -p "$shared"/usr/{bin,share/softrdma,lib/softrdma/uml}
    cp "$BATS_TEST_DIRNAME/../../../scripts/softrdma" "$shared/usr/bin"
    cp -r "$BATS_TEST_DIRNAME/../../../scripts/lab" "$shared/usr/share/softrdma"
    [[ $IN != uml ]] || cp -r "$(dirname "$("$BATS_TEST_DIRNAME/../../../scripts/softrdma" kernel path)")" "$shared/usr/lib/softrdma/uml/kernel"
    # unit.lab.confinement, for other users and in a container.
    mkdir -p "$shared/tests/unit/lab"
    cp "$BATS_TEST_DIRNAME/../../unit/lab/confinement_test.py" "$shared/tests/unit/lab"
    ln -s usr/share/softrdma "$shared/scripts"
    chmod -R a+rX "$shared"
}
teardown_file() { rm -rf "${shared:?}"; }

# prepare USER: an empty folder for --write, and a folder with files of the user, as a home folder is.
prepare() {
    folder=$(mktemp -d "$shared/run.XXXXXX")
    home=$folder/home write=$folder/write
    mkdir -p "$home/folder" "$write"
    echo secret >"$home/file"
    cp "$home/file" "$home/folder/file"
    touch -d 2001-02-03 "$home/file" "$home/folder/file" "$home/folder"
    chown -R "$1" "$folder"
    snapshot >"$folder.before"
}
# snapshot: all that could change in the home folder but its access times.
snapshot() { find "$home" -printf '%P %y %m %u %g %s %T@ %n %l\n' | sort && cat "$home/file" "$home/folder/file"; }
expect_no_change() {
    snapshot | diff "$folder.before" - || return 1
    local offenses
    offenses=$(find "$write" \( -perm /6000 -o -type b -o -type c \) -printf '%M %p\n')
    [[ -z $offenses ]] || { echo "$offenses" && return 1; }
}

ordinary_user=65534
as_root() { "$@"; }
as_user() { setpriv --reuid "$ordinary_user" --regid "$ordinary_user" --clear-groups "$@"; }
in_container() { # COMMAND...: as root of a container with podman's seccomp filter, without the right to mount
    podman --cgroup-manager cgroupfs --runtime "$(<"$shared/runtime")" run --rm --network none --ulimit nofile=1024:1024 \
        --ulimit nproc=1024:1024 --volume "$folder:$folder" -w / --rootfs /:O "$@"
}
require_podman() {
    local runtime
    command -v podman >/dev/null || skip 'podman is not installed'
    for runtime in crun runc; do # runc supports cgroups v1
        echo $runtime >"$shared/runtime"
        folder=$shared in_container true >"$runtime" 2>&1 && return
    done
    skip "podman cannot run a container here: $(tail -n 1 crun)"
}

# attack CALLER... OPTION... -- COMMAND...: the command in a guest; CALLER: as_root, as_user or in_container.
attack() {
    local caller=()
    while [[ $1 != --* ]]; do
        caller+=("$1")
        shift
    done
    # The environment of a container is its own.
    "${caller[@]}" /usr/bin/env HOME="$folder" TMPDIR="${RUN_PARENT:-$folder}" SOFTRDMA_CACHE="${SOFTRDMA_CACHE:-$HOME/.cache/softrdma}" \
        "$shared/usr/bin/softrdma" run --in "$IN" -q --write "$write" "$@" 3>&-
}

# What a command of a user-mode kernel could do to the host by hostfs. It prints what succeeds.
write_by_hostfs() {
    cat >"$folder/by_hostfs" <<'END'
home=$1 mounted=$2
try() { ! eval "$2" 2>/dev/null || echo "escaped: $1"; }
mount -t hostfs none "$mounted" -o "$home" || exit
[ "$(cat "$mounted/file")" = secret ] || exit # reading is permitted
try 'a mode' 'chmod 777 "$mounted/file"'
try 'an owner' 'chown 12:12 "$mounted/file"'
try 'a time' 'touch -d 2020-01-01 "$mounted/folder/file"'
try 'writing' 'echo x >"$mounted/file"'
try 'appending' 'echo x >>"$mounted/folder/file"'
try 'truncating' 'python3 -c "import os, sys; os.truncate(sys.argv[1], 0)" "$mounted/file"'
try 'a new file' 'echo x >"$mounted/new"'
try 'a new folder' 'mkdir "$mounted/new-folder"'
try 'a link' 'ln -s file "$mounted/link"'
try 'a hard link' 'ln "$mounted/file" "$mounted/hard"'
try 'a node' 'mknod "$mounted/node" c 1 3'
try 'removing' 'rm -f "$mounted/file"'
try 'removing a folder' 'rm -rf "$mounted/folder"'
try 'renaming' 'mv "$mounted/file" "$mounted/other"'
umount "$mounted"
mount -t hostfs none "$mounted" -o "$home/.." # from a folder above
try 'writing from above' 'echo x >"$mounted/home/file"'
umount "$mounted"
mount -t hostfs none "$mounted" -o /proc
[ -e "$mounted/self/mem" ] || exit
try 'the memory of the kernel' '(exec 4<>"$mounted/self/mem")'
umount "$mounted"
mount -t hostfs none "$mounted" -o /dev
try 'a folder of the machine' 'echo x >"$mounted/shm/escapes.$$"'
echo finished
END
}

expect_escape_fails() { # CALLER...
    write_by_hostfs
    cd "$folder" || return
    attack "$@" -- sh "$folder/by_hostfs" "$home" /mnt >out 2>err || { cat out err && return 1; }
    [[ $(<out) == finished ]] || { cat out err && return 1; }
    expect_no_change
}

@test "hostfs that is mounted elsewhere changes nothing, as root" {
    [[ $IN == uml ]] || skip 'QEMU has no hostfs'
    prepare root
    expect_escape_fails as_root
}

@test "hostfs that is mounted elsewhere changes nothing, as an ordinary user" {
    [[ $IN == uml ]] || skip 'QEMU has no hostfs'
    [[ $(id -u) == 0 ]] || skip 'only root becomes another user'
    prepare "$ordinary_user"
    expect_escape_fails as_user
}

@test "hostfs that is mounted elsewhere changes nothing, in a container" {
    [[ $IN == uml ]] || skip 'QEMU has no hostfs'
    require_podman
    prepare root
    expect_escape_fails in_container
}

@test "hostfs that is mounted elsewhere changes nothing without Landlock, as root" {
    [[ $IN == uml ]] || skip 'QEMU has no hostfs'
    [[ $(id -u) == 0 ]] || skip 'only root can mount'
    prepare root
    expect_escape_fails without landlock
}
without() { "$BATS_TEST_DIRNAME/../lib/without" "$@"; }

@test "a machine that cannot confine guests runs them, and says so" {
    [[ $IN == uml ]] || skip 'one kind of guest is enough'
    prepare root
    run -0 without landlock,namespaces "$program" run --in uml --write "$write" -- sh -c 'echo written >"$1/file"' - "$write"
    [[ $output == *'does not confine a guest fully: it has no Landlock and no mount namespace (Operation not permitted)'* ]]
    [[ $(<"$write/file") == written ]]
}

# bats test_tags=qemu
@test "temporary files of the run in a folder of --write lead nowhere else" {
    prepare root
    head -c 20000000 /dev/zero >"$home/file"
    snapshot >"$folder.before"
    cat >links <<'END'
cd "$1" || exit
for run in softrdma.*; do
    for name in console qemu log spool job.json guest/console guest/spool guest/job.json; do
        mv "$run/$name" "$run/$name.old" 2>/dev/null
        ln -s "$2/folder" "$run/$name" 2>/dev/null || ln -s "$2/file" "$run/$name" 2>/dev/null
    done
    rm -f "$run/console" "$run/guest/console"
    ln -s "$2/file" "$run/console"
    ln -s "$2/file" "$run/guest/console" 2>/dev/null
done
head -c 100000 /dev/zero >/dev/console
cat >/dev/null
END
    # More than 512 bytes of input, which go through the spool folder.
    head -c 100000 /dev/zero | RUN_PARENT=$write attack as_root -- sh links "$write" "$home" >out 2>err || true # what it writes counts
    expect_no_change
}

confined_process() { # CALLER
    "$1" /usr/bin/python3 -B "$shared/tests/unit/lab/confinement_test.py" >out 2>&1 || { cat out && return 1; }
    grep '^OK' out
}

@test "a process that took over the guest's kernel reaches nothing, as an ordinary user and in a container" {
    [[ $IN == uml ]] || skip 'QEMU is confined in the same way'
    [[ $(id -u) == 0 ]] || skip 'only root becomes another user'
    folder=$shared
    confined_process as_user
    require_podman
    confined_process in_container
}

# Each host has its kernel. Host 2 replaces a folder by a link again and again while host 1 makes files in the folder:
# the kernel of host 1 may find a folder, and Linux the link.
@test "a link that replaces a folder does not lead out of --write" {
    [[ $IN == uml ]] || skip 'QEMU guests have no second host'
    prepare root
    cat >race.py <<'END'
import contextlib, os, sys
os.chdir(sys.argv[1])
for count in range(20000 if sys.argv[2] == "write" else 10000000):
    with contextlib.suppress(OSError):
        if sys.argv[2] == "write":
            os.close(os.open(f"folder/{count}", os.O_CREAT | os.O_WRONLY))
        else:
            for old, new in (("folder", "moved"), ("link", "folder"), ("folder", "link"), ("moved", "folder")):
                os.rename(old, new)
END
    # shellcheck disable=SC2016 # expanded on the hosts
    attack as_root --hosts 2 -- sh -ec '
        cd "$1"
        mkdir folder
        ln -s "$2/folder" link
        on 2 python3 "$3" "$1" replace &
        python3 "$3" "$1" write' - "$write" "$home" "$PWD/race.py"
    [[ $(find "$write/folder" "$write/moved" -type f 2>/dev/null | wc -l) -gt 100 ]] # it had its chance
    expect_no_change
}

@test "frames that a command sends in place of the agent end the run with a message" {
    [[ $IN == uml ]] || skip 'one kind of guest is enough'
    prepare root
    for frame in 'x\0\0\0\1\377\377\377\377' 'x\0\0\0\1\0\0\0\1y' 'c\0\0\0\1\0\0\0\2[]' 'o\0\0\0\7\0\0\0\0'; do
        # shellcheck disable=SC2016 # expanded in the guest
        run -1 attack as_root -- sh -c 'printf "$1" >/dev/ttyS0; sleep infinity' - "$frame"
        [[ $output == *'the guest sent what its agent does not send'* && $output != *Traceback* ]]
    done
}

# bats test_tags=qemu
@test "setuid files and device nodes cannot be made" {
    prepare root
    cat >nodes <<'END'
cd "$1" || exit
echo '#!/bin/sh' >program
chmod 755 program || exit # other modes can be set
[ "$(stat -c %a program)" = 755 ] || exit
chmod u+s program && echo 'escaped: setuid'
chmod 2755 program && echo 'escaped: setgid'
# The guest's kernel may create it without the bit.
python3 -c 'import os; os.close(os.open("created", os.O_CREAT | os.O_WRONLY, 0o4755))'
install -m 4755 program installed && echo 'escaped: installed'
mknod character c 1 3 && echo 'escaped: character device'
mknod block b 7 0 && echo 'escaped: block device'
ln -s /etc/passwd link
echo finished
END
    attack as_root -- sh nodes "$write" >out 2>err || { cat out err && return 1; }
    [[ $(<out) == finished ]] || { cat out err && return 1; }
    expect_no_change
}

# bats test_tags=qemu
@test "the shared folders of QEMU are read-only, except those of --write, as root and as an ordinary user" {
    [[ $IN == qemu ]] || skip 'user mode has no shares'
    cat >shares <<'END'
home=$1 write=$2
[ "$(cat "$home/file")" = secret ] || exit # reading is permitted
echo kept >"$write/kept" || exit
[ ! -e "$home/../root_only" ] || ! cat "$home/../root_only" || echo 'escaped: reading'
mkdir /share
for tag in root write0; do
    mount -t 9p -o trans=virtio,version=9p2000.L,rw "$tag" /share 2>/dev/null || continue
    (echo x >"/share$home/file") 2>/dev/null && echo "escaped: $tag"
    umount /share
done
for target in / "$home"; do mount -o remount,rw "$target" 2>/dev/null; done
chmod 777 "$home/file" # in the overlay
rm -rf "$home/folder"
echo finished
END
    prepare root
    attack as_root -- sh shares "$home" "$write" >out 2>err || { cat out err && return 1; }
    [[ $(<out) == finished && $(<"$write/kept") == kept ]] || { cat out err && return 1; }
    expect_no_change
    [[ $(id -u) == 0 ]] || skip 'only root becomes another user'
    prepare "$ordinary_user"
    (umask 077 && echo secret >"$folder/root_only")
    use_own_cache kernels
    chown -R "$ordinary_user" "$BATS_TEST_TMPDIR"
    chmod 755 "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" "$BATS_TEST_TMPDIR"
    attack as_user -- sh shares "$home" "$write" >out 2>err || { cat out err && return 1; }
    [[ $(<out) == finished && $(<"$write/kept") == kept ]] || { cat out err && return 1; }
    expect_no_change
}

# bats test_tags=qemu
@test "modes, owners and times in folders of --write are kept" {
    prepare root
    cat >attributes <<'END'
cd "$1" || exit
printf 'int main() { return 3; }' | gcc -x c -o program - || exit
./program
[ $? = 3 ] || exit
mkdir -m 700 private && touch -d '2001-02-03 04:05:06 UTC' private || exit
chown 12:34 program && chmod 640 program || exit
cp -p program private/copy && mv private/copy . && tar -cf archive program && tar -xpf archive || exit
END
    attack as_root -- sh attributes "$write"
    [[ $(stat -c '%a %u %g' "$write/program" "$write/copy") == $'640 12 34\n640 12 34' ]]
    [[ $(stat -c %a "$write/private") == 700 ]]
}

@test "the output of a guest's kernel does not fill the disk" {
    [[ $IN == uml ]] || skip 'a serial line of QEMU takes minutes for it'
    prepare root
    cat >flood <<'END'
for count in 1 2 3 4; do head -c 20000000 /dev/zero | tr '\0' x >/dev/console; done
echo >/dev/console
END
    attack as_root --console "$folder/console" -- sh flood
    size=$(stat -c %s "$folder/console")
    ((size < 45000000)) || { echo "$size bytes" && return 1; }
    grep -qa 'the output before this was dropped' "$folder/console"
}
