#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# iSER: host 2 exports 64 MiB of memory by iSCSI over RDMA, host 1 uses it as its disk.
#
#     softrdma run --in uml --hosts 2 -- ./iser.sh        (needs open-iscsi)

set -e
[ "$(uname -n)" = softrdma-1 ] || {
    echo "this is no host of the lab; type: softrdma run --in uml --hosts 2 -- $0" >&2
    exit 2
}
case $SOFTRDMA_DEVICE in siw*) echo "iSER has no target on siw; type: softrdma run --driver rxe ..." >&2 && exit 1 ;; esac
target=iqn.2026-11.lab:disk

on 2 sh -e -s "$target" <<'END'
modprobe ib_isert
mount -t configfs configfs /sys/kernel/config
cd /sys/kernel/config/target
mkdir -p core/rd_mcp_0/disk "iscsi/$1/tpgt_1/lun/lun_0" "iscsi/$1/tpgt_1/np/$SOFTRDMA_ADDRESS:3260"
echo rd_pages=16384 >core/rd_mcp_0/disk/control
echo 1 >core/rd_mcp_0/disk/enable
ln -s "$PWD/core/rd_mcp_0/disk" "iscsi/$1/tpgt_1/lun/lun_0"
cd "iscsi/$1/tpgt_1"
echo 1 >"np/$SOFTRDMA_ADDRESS:3260/iser"
echo 0 >attrib/authentication
echo 1 >attrib/generate_node_acls # any initiator may connect,
echo 0 >attrib/demo_mode_write_protect # and write
echo 1 >enable
END

modprobe -a ib_iser sd_mod
mkdir -p /run/lock/iscsi
mount -t tmpfs tmpfs /etc/iscsi # root alone can read this machine's
echo "node.startup = manual" >/etc/iscsi/iscsid.conf
echo InitiatorName=iqn.2026-11.lab:host1 >/etc/iscsi/initiatorname.iscsi
iscsid
iscsiadm -m node -T "$target" -p "$HOST2" -o new
iscsiadm -m node -T "$target" -p "$HOST2" -o update -n iface.transport_name -v iser
iscsiadm -m node -T "$target" -p "$HOST2" --login
iscsiadm -m session | grep '^iser:'
timeout 60 sh -c 'until [ -b /dev/sda ]; do sleep 0.1; done'

head -c 64M /dev/urandom >/tmp/data
dd if=/tmp/data of=/dev/sda bs=1M oflag=direct status=none
written=$(sha256sum </tmp/data)
read=$(dd if=/dev/sda bs=1M iflag=direct status=none | sha256sum)
echo "written: $written"
echo "read:    $read"
if [ "$written" != "$read" ]; then
    echo "the data differ" >&2
    exit 1
fi

iscsiadm -m node -T "$target" -p "$HOST2" --logout
