#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# SRP: host 2 exports 64 MiB of memory, host 1 uses it as its disk.
#
#     softrdma run --in uml --hosts 2 -- ./srp.sh

set -e
[ "$(uname -n)" = softrdma-1 ] || {
    echo "this is no host of the lab; type: softrdma run --in uml --hosts 2 -- $0" >&2
    exit 2
}
case $SOFTRDMA_DEVICE in siw*) echo "SRP is not for siw; type: softrdma run --driver rxe ..." >&2 && exit 1 ;; esac

# The target's port is named after the second half of its GID. ib_srpt names an initiator that comes by rdma_cm after
# the address that it connects to, not after its own.
on 2 sh -e <<'END'
modprobe ib_srpt
mount -t configfs configfs /sys/kernel/config
mkdir /sys/kernel/config/target/srpt
cd /sys/kernel/config/target
port=srpt/$(cut -c 21- "/sys/class/infiniband/$SOFTRDMA_DEVICE/ports/1/gids/0")
group=$port/${port#srpt/}
mkdir -p core/rd_mcp_0/disk "$group/lun/lun_0" "$group/acls/$SOFTRDMA_ADDRESS/lun_0"
echo rd_pages=16384 >core/rd_mcp_0/disk/control
echo 1 >core/rd_mcp_0/disk/enable
ln -s "$PWD/core/rd_mcp_0/disk" "$group/lun/lun_0"
ln -s "$PWD/$group/lun/lun_0" "$group/acls/$SOFTRDMA_ADDRESS/lun_0"
echo 5555 >srpt/discovery_auth/rdma_cm_port
echo 1 >"$group/enable"
END

modprobe -a ib_srp sd_mod
guid=$(on 2 sed s/0x// /sys/module/ib_srpt/parameters/srpt_service_guid)
echo "id_ext=$guid,ioc_guid=$guid,dest=$HOST2:5555" >"/sys/class/infiniband_srp/srp-$SOFTRDMA_DEVICE-1/add_target"
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
