#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The rule "kernel" on kernels of Debian, in guests with one PCI device that has a driver, a root port. The
# guest's only process is kernel_rule_init, which prints "RESULT ...".

bats_require_minimum_version 1.5.0
root=$BATS_TEST_DIRNAME/../../..
existing=/0000:00:01.0 missing=/0000:00:1f.7

setup() { cd "$BATS_TEST_TMPDIR" || return; }

# build_init COMPILER: the program kernel_rule_init, statically linked.
build_init() {
    command -v "$1" >/dev/null || skip "no $1"
    local folder=$root/ibverbs-glue/coherency
    # infiniband/verbs.h is the same on each architecture.
    "$1" -std=c++20 -O2 -static -I"$root/ibverbs-glue" -I"$root/ibverbs-glue/include" -idirafter /usr/include \
        "$BATS_TEST_DIRNAME/kernel_rule_init.cpp" "$folder"/{architecture,files}.cpp "$folder"/kernel/*.cpp -o init
}

# find_kernel ARCH SERIES: its folder in $kernel. Status 77 of softrdma: not possible here.
find_kernel() {
    local status=0
    "$root/scripts/softrdma" kernel fetch "$2" --arch "$1" >messages 2>&1 || status=$?
    ((status != 77)) || skip "$(<messages)"
    ((status == 0)) || cat messages
    kernel=$("$root/scripts/softrdma" kernel list --json | jq -er --arg arch "$1" --arg series "$2." \
        '[.kernels[] | select(.for == "qemu" and .arch == $arch and (.release | startswith($series)))][0].path')
}

# boot QEMU CONSOLE ARGUMENT...: the lines of kernel_rule_init in $output.
boot() {
    local qemu=$1 console=$2 module
    shift 2
    command -v "$qemu" >/dev/null || skip "no $qemu"
    module=$(find "$kernel" -name 'ib_core.ko*')
    if [[ $module == *.xz ]]; then xz -dc "$module" >ib_core.ko; else cp "$module" .; fi
    mkdir -p dev proc sys
    printf '%s\n' init ib_core.ko dev proc sys | cpio -o -H newc --quiet >initrd
    "$qemu" -nodefaults -no-user-config -display none -no-reboot -serial file:console -m 512 -smp 1 \
        -device pcie-root-port -kernel "$kernel/vmlinuz" -initrd initrd \
        -append "console=$console quiet panic=-1 $guest_variable" "$@" </dev/null
    run -0 grep -a '^RESULT' console
    echo "$output"
    [[ $output == *'RESULT end'* ]]
}

arm64_machine=(-machine virt -cpu 'max,pauth-impdef=on')

# boot_arm64 ARGUMENT...
boot_arm64() {
    build_init aarch64-linux-gnu-g++
    find_kernel arm64 6.1
    boot qemu-system-aarch64 ttyAMA0 "${arm64_machine[@]}" "$@"
    [[ $output == *"$missing: unknown (/proc/kcore: "* ]]
    [[ $output == *'RESULT user '*': unknown (/proc/kcore: Permission denied): run as root'* ]]
}

@test "arm64: a device is coherent where the devicetree has dma-coherent" {
    boot_arm64
    [[ $output == *"$existing: coherent (/proc/kcore: dma_coherent = 1)"* ]]
}

@test "arm64: a device is non-coherent where the devicetree lacks dma-coherent" {
    qemu-system-aarch64 "${arm64_machine[@]/virt/virt,dumpdtb=virt.dtb}" -nodefaults -display none -m 512 -smp 1 \
        -device pcie-root-port
    # Another name for the property, and without the free space, with which it is too large for QEMU to load.
    python3 - <<'END'
import struct
with open("virt.dtb", "rb") as file:
    tree = file.read()
assert tree.count(b"\0dma-coherent\0") == 1
_, _, structs, strings, _, _, _, _, strings_size, structs_size = struct.unpack(">10I", tree[:40])
size = max(structs + structs_size, strings + strings_size)
tree = tree[:4] + struct.pack(">I", size) + tree[8:size]
with open("changed.dtb", "wb") as file:
    file.write(tree.replace(b"dma-coherent", b"dma-removed0"))
END
    boot_arm64 -dtb changed.dtb
    [[ $output == *"$existing: non-coherent (/proc/kcore: dma_coherent = 0)"* ]]
}

# boot_amd64 SERIES
boot_amd64() {
    build_init g++
    find_kernel amd64 "$1"
    boot qemu-system-x86_64 ttyS0 -machine q35 -cpu max
}

@test "amd64: Linux 6.1 has no dma_coherent" {
    boot_amd64 6.1
    [[ $output == *"$existing: coherent (/sys/kernel/btf/vmlinux: no struct device.dma_coherent)"* ]]
}

@test "amd64: Linux 7.2 has the flag in a bitmap, and does not use it" {
    boot_amd64 7.2
    [[ $output == *"$existing: coherent (/sys/kernel/btf/vmlinux: DEV_FLAG_DMA_COHERENT, "* ]]
}

# The types and the way to the device, which are the same on arm64. The kernel sets the flag for each device.
@test "amd64: the bitmap of Linux 7.2 is read as on arm64" {
    guest_variable=machine=aarch64
    boot_amd64 7.2
    [[ $output == *"$existing: coherent (/proc/kcore: dma_coherent = 1)"* ]]
    [[ $output == *"$missing: unknown (/proc/kcore: "* ]]
}
