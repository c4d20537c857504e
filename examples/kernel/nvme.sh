#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# NVMe over RDMA: host 2 exports 64 MiB of memory, host 1 uses it as its disk.
#
#     softrdma run --in uml --hosts 2 -- ./nvme.sh        (needs nvme-cli)

set -e
[ "$(uname -n)" = softrdma-1 ] || {
    echo "this is no host of the lab; type: softrdma run --in uml --hosts 2 -- $0" >&2
    exit 2
}

on 2 sh -e <<'END'
modprobe nvmet-rdma
modprobe brd rd_nr=1 rd_size=65536
mount -t configfs configfs /sys/kernel/config
cd /sys/kernel/config/nvmet
mkdir -p subsystems/disk/namespaces/1 ports/1
echo 1 >subsystems/disk/attr_allow_any_host
echo /dev/ram0 >subsystems/disk/namespaces/1/device_path
echo 1 >subsystems/disk/namespaces/1/enable
echo rdma >ports/1/addr_trtype
echo ipv4 >ports/1/addr_adrfam
echo $SOFTRDMA_ADDRESS >ports/1/addr_traddr
echo 4420 >ports/1/addr_trsvcid
ln -s "$PWD/subsystems/disk" ports/1/subsystems
END

modprobe nvme-rdma
nvme connect -t rdma -a "$HOST2" -s 4420 -n disk
timeout 60 sh -c 'until [ -b /dev/nvme0n1 ]; do sleep 0.1; done'

head -c 64M /dev/urandom >/tmp/data
dd if=/tmp/data of=/dev/nvme0n1 bs=1M oflag=direct status=none
written=$(sha256sum </tmp/data)
stored=$(on 2 sh -c 'sha256sum </dev/ram0')
read=$(dd if=/dev/nvme0n1 bs=1M iflag=direct status=none | sha256sum)
echo "written: $written"
echo "stored:  $stored"
echo "read:    $read"
if [ "$written" != "$read" ] || [ "$written" != "$stored" ]; then
    echo "the data differ" >&2
    exit 1
fi

nvme disconnect -n disk
