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
    for shell in /bin/dash /no/such/shell /usr/sbin/nologin; do
        start_on_terminal "SHELL=$shell '$program' run --in uml -q"
        wait_until is_ready_or_ended "$pid" grep -qs '[>#$] ' out
        # shellcheck disable=SC2016 # the shell in the guest expands it
        echo 'echo "it is $0, $(ls /sys/class/infiniband)"; exit 7' >&9
        expect_status 7
        grep "it is $([[ $shell == /bin/dash ]] && echo "$shell" || echo bash), rxe0" out
    done
    run -2 softrdma run --in uml </dev/null
    [[ ${#lines[@]} == 1 && $output == *"a command is missing"* ]]
}

@test "run --kernel PATH: a program, whatever its manifest; its build folder tells what it lacks" {
    mkdir build
    cp "$(softrdma kernel path)" build/linux
    # shellcheck disable=SC2016 # the shell in the guest expands it
    run -0 softrdma run --driver both --kernel build/linux -- sh -c 'echo "lacks $(echo $SOFTRDMA_MISSING_PATCHES | wc -w)"; ls /sys/class/infiniband'
    [[ $output == *"may lack "[1-9]*" of the fixes"*README.md* && $output == *"lacks "[1-9]* && $output == *rxe0*siw0* ]]
    # The configuration of the lab is enough, and its options are named if they are missing.
    config=$BATS_TEST_DIRNAME/../../../scripts/lab/kernel/uml.config
    echo 'CONFIG_X86_64=y' >build/.config # of another kernel
    run -0 softrdma run -q --kernel build/linux -- true
    { echo CONFIG_UML=y && cat "$config"; } >build/.config # as make writes it
    run -0 softrdma run --kernel ./build -- true
    [[ $output != *without* ]]
    sed -i 's/CONFIG_RDMA_SIW=y/CONFIG_RDMA_SIW=m/; /CONFIG_VETH=/d; /CONFIG_UML_NET_VECTOR=/d' build/.config
    run -0 softrdma run --kernel ./build -- true
    [[ $output == *"without options"*": VETH, UML_NET_VECTOR"* ]]
    run -77 softrdma run --driver siw --kernel ./build -- true
    [[ ${#lines[@]} == 1 && $output == *"CONFIG_RDMA_SIW (it is built as a module); "*"cat $(realpath "$config") >>"* ]]
    run -77 softrdma run --hosts 2 --kernel ./build -- true
    [[ $output == *"without CONFIG_UML_NET_VECTOR; "* ]]
}

@test "run --kernel PATH that is no user-mode kernel: status 2, the reason, one line" {
    mkdir -p empty tree/arch/um
    touch tree/arch/um/Kconfig
    echo text >text
    cp "$(softrdma kernel path)" linux
    chmod -x linux
    printf '\x7fELF\x01\x01%-1024s' '' >program32
    printf '\x7fELF\x02' >short_file
    mkfifo pipe
    { head -c 514 /dev/zero && printf 'HdrS%-512s' ''; } >bzImage
    while IFS='|' read -r path reason; do
        run -2 softrdma run --kernel "$path" -- true
        [[ ${#lines[@]} == 1 && $output == *"$reason"* ]] || {
            echo "$path: $output"
            return 1
        }
    done <<'END'
./nothing|no such file
empty/|has no program linux
tree/|softrdma kernel build --source tree/ --name NAME
./text|no ELF file
./short_file|no ELF file
./pipe|no file
./bzImage|a kernel for a machine
./program32|32 bits
/bin/true|no kernel of user mode
nobodys-name|softrdma kernel build --source TREE --name nobodys-name
END
    # Root executes a file if any of its bits is set.
    run -2 softrdma run --kernel ./linux -- true
    [[ $output == *"chmod +x "* ]]
    run -2 softrdma run --in qemu --kernel ./linux -- true
    [[ $output == *"omit --in qemu"* ]]
}

@test "run --append, --cpus: the guest's kernel has them; what softrdma sets itself is refused" {
    run -0 softrdma run --in uml -q --cpus 1 --append 'loglevel=7 test.word="a b"' --append later -- sh -c 'nproc; cat /proc/cmdline'
    [[ ${lines[0]} == 1 && $output == *' loglevel=7 test.word="a b" later '* ]]
    run -0 softrdma run --in uml -q --cpus 3 -- sh -c 'nproc; grep -c ^processor /proc/cpuinfo'
    [[ $output == $'3\n3' ]]
    run -77 softrdma run --in uml --cpus 9 -- true
    [[ $output == *"up to 8 processors"* ]]
    for word in '"rootflags=/x"' mem=1G ncpus=4 init=/bin/sh root=x ro con0=null vec0:x --help 'fine uml_dir=/' 'open="' "x=$(printf %02047d 0)"; do
        run -2 softrdma run --in uml --append="$word" -- true
        [[ ${#lines[@]} == 1 && $output == *"--append "* ]]
    done
    softrdma run --in uml -q --hosts 3 --driver both --append "x=$(printf %02046d 0)" -- true
    for arguments in '--cpus 0' '--cpus 65' --json '--gdb --in qemu' --kernel=; do
        # shellcheck disable=SC2086 # words
        run -2 softrdma run $arguments -- true
        [[ ${#lines[@]} == 1 ]]
    done
}

@test "kernel build VERSION: a name or nothing is none" {
    for version in name ''; do
        run -2 softrdma kernel build "$version"
        [[ ${#lines[@]} == 1 && $output == *"expected a series such as 7.2; "* ]]
    done
}

@test "run --dry-run prints the command lines, starts nothing and leaves nothing" {
    kernel=$(softrdma kernel path)
    run -0 --separate-stderr softrdma run --in uml --dry-run --append loglevel=7 -- touch "$PWD/touched"
    [[ ${#lines[@]} == 1 && $output == "$kernel mem=2048M "*" loglevel=7 "* ]]
    words=()
    eval "words=($output)" # quoted for a shell
    [[ ${words[0]} == "$kernel" && " ${words[*]} " == *' init="'* ]]
    run -0 --separate-stderr softrdma run --in uml --hosts 2 --dry-run --json --write . -- touch "$PWD/touched"
    [[ $(jq -r '"\(.in) \(.commands | length) \(.command[0])"' <<<"$output") == 'uml 2 touch' ]]
    # Not even the port of --peer is used, by which a run may be waiting.
    (umask 077 && softrdma key key)
    /usr/bin/python3 -c 'import socket, subprocess, sys
listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
listener.bind(("", 0))
port = str(listener.getsockname()[1])
sys.exit(subprocess.call([*sys.argv[1:], "--port", port, "--", "true"]))' "$program" run --in uml --dry-run --as 1 --peer 127.0.0.9 --key key --driver siw
    [[ ! -e touched ]] && is_nothing_left
}

@test "run --gdb with a kernel without symbols: status 77, and the command to type" {
    run -77 softrdma run --gdb -- true
    [[ ${#lines[@]} == 1 && $output == *"no symbols"*"softrdma kernel build --source TREE"* ]]
}

# The tests below build kernels of the pinned source, which is not patched, but for a line that rxe prints.
# make_tree: unpacks it to $tree.
make_tree() {
    tree=$BATS_FILE_TMPDIR/tree
    export SOFTRDMA_CACHE=$BATS_FILE_TMPDIR/cache PATH=/usr/lib/ccache:$PATH
    [[ ! -e $tree/Makefile ]] || return 0
    mkdir -p "$tree"
    PYTHONPATH=${program%/*} /usr/bin/python3 -c 'import sys; from lab.kernel import pinned_kernel
pinned_kernel.download(pinned_kernel.read_pin(), sys.argv[1])' "$BATS_FILE_TMPDIR"
    dpkg-deb --fsys-tarfile "$BATS_FILE_TMPDIR"/linux-source-*.deb | tar -xO --wildcards './usr/src/*.tar.xz' |
        tar -C "$tree" -xJ --no-same-owner --strip-components=1 --exclude='*/drivers/gpu/drm/amd/include/*'
    sed -i 's/pr_info("loaded\\n");/pr_info("changed\\n");/' "$tree/drivers/infiniband/sw/rxe/rxe.c"
}
# expect_rping KERNEL TEXT: in the kernel, rxe has printed the text, and rping verifies messages over both drivers.
expect_rping() {
    # shellcheck disable=SC2016 # the shell in the guest expands it
    run -0 softrdma run --driver both --kernel "$1" -- sh -ec 'dmesg | grep "rdma_rxe: "
        for address in $SOFTRDMA_RXE_ADDRESS $SOFTRDMA_SIW_ADDRESS; do
            rping -s -a $address -C 5 & sleep 1; rping -c -V -a $address -C 5; wait
        done; echo done'
    [[ $output == *"rdma_rxe: $2"*done* && $output == *" lacks "[1-9]*" of the fixes"* && $output != *ptrace* ]]
}

# bats test_tags=build
@test "a kernel that was built by hand runs by its path" {
    make_tree
    make -C "$tree" ARCH=um O="$PWD/hand" -s KCONFIG_ALLCONFIG="$BATS_TEST_DIRNAME/../../../scripts/lab/kernel/uml.config" allnoconfig
    make -C "$tree" ARCH=um O="$PWD/hand" -s -j"$(nproc)" linux
    expect_rping "$PWD/hand" changed
    expect_rping "$PWD/hand/linux" changed
    softrdma run -q --kernel "$PWD/hand" --append loglevel=7 --console console -- true
    grep 'rdma_rxe: changed' console

    # A program alone does not tell which drivers it has.
    sed -i '/CONFIG_RDMA_SIW/d' hand/.config
    make -C hand ARCH=um -s olddefconfig linux
    cp hand/linux alone
    run -1 softrdma run --driver siw --kernel ./alone -- true
    [[ $output == *"is the kernel built with CONFIG_RDMA_SIW=y?" ]]

    # What the message says repairs a kernel with too few options.
    sed -i '/CONFIG_RDMA_RXE/d' hand/.config
    run -77 softrdma run --kernel "$PWD/hand" -- true
    [[ $output == *"without CONFIG_RDMA_RXE; "* ]]
    eval "${output##*build again: }"
    expect_rping "$PWD/hand" changed
}

# bats test_tags=build
@test "kernel build --source TREE builds in the cache, and again what has changed; run finds it by its name" {
    make_tree
    find "$tree" -printf '%p %T@ %s\n' | sort >before
    softrdma kernel build --source "$tree" --name own
    find "$tree" -printf '%p %T@ %s\n' | sort | diff before -
    expect_rping own changed
    run -0 softrdma kernel list
    [[ $output == *"own "*"uml "*"$tree"* && $output == *"own lacks RDMA-"* ]]
    run -2 softrdma kernel build --source "$tree" --output x
    run -2 softrdma kernel build --name other
    run -2 softrdma run --kernel other -- true
    [[ $output == *"with a name: own"* ]]

    sed -i 's/"changed/"changed again/' "$tree/drivers/infiniband/sw/rxe/rxe.c"
    SECONDS=0
    softrdma kernel build --source "$tree" --name own
    ((SECONDS < 120)) # a whole build takes ten minutes
    expect_rping own 'changed again'

    # The fixes that are in the tree are known.
    patch=$(ls -d "$BATS_TEST_DIRNAME"/../../../scripts/lab/patches/*/0001-*)
    before=$(softrdma kernel list --json | jq '.kernels[0].missing_patches | length')
    git -C "$BATS_FILE_TMPDIR" apply --directory=tree "$(tail -n 1 <<<"$patch")"
    [[ $(softrdma kernel list --json | jq '.kernels[0].missing_patches | length') == $((before - 1)) ]]
}

# bats test_tags=build
@test "run --gdb: a debugger that connects as softrdma prints stops in rxe_poll_cq" {
    command -v gdb || skip 'gdb is not installed'
    make_tree
    softrdma kernel build --source "$tree" --name own
    # shellcheck disable=SC2016 # the shell in the guest expands it
    start_softrdma run -q --gdb --kernel own -- sh -c 'rping -s -a $SOFTRDMA_ADDRESS -C 3 & sleep 1; rping -c -a $SOFTRDMA_ADDRESS -C 3 && echo verified'
    wait_until is_ready_or_ended "$pid" grep -q ^gdb err
    eval "$(grep ^gdb err) -q -batch -ex 'break rxe_poll_cq' -ex continue -ex delete -ex detach" >gdb.out 2>&1
    cat gdb.out
    grep 'hit Breakpoint 1, rxe_poll_cq (ibcq=0x' gdb.out # with debug information
    expect_status 0 # it goes on without the debugger
    grep verified out
}

# bats test_tags=build
@test "kernel remove NAME removes a kernel of a tree" {
    export SOFTRDMA_CACHE=$BATS_FILE_TMPDIR/cache
    softrdma kernel remove own
    [[ ! -e $SOFTRDMA_CACHE/custom/own ]]
    run -2 softrdma run --kernel own -- true
}
