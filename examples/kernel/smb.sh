#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# SMB Direct: host 1 mounts a share of host 2, which has the kernel's server, ksmbd.
#
#     softrdma run --in uml --hosts 2 -- ./smb.sh         (needs cifs-utils, and ksmbd-tools 3.5 or newer)

set -e
[ "$(uname -n)" = softrdma-1 ] || {
    echo "this is no host of the lab; type: softrdma run --in uml --hosts 2 -- $0" >&2
    exit 2
}

on 2 sh -e <<'END'
mkdir -p /export /etc/ksmbd
mount -t tmpfs tmpfs /export
modprobe ksmbd
printf '[share]\npath = /export\nread only = no\n' >/etc/ksmbd/ksmbd.conf
ksmbd.adduser -a root -p password
ksmbd.mountd
END

mount_share() {
    timeout 60 sh -c 'until mount -t cifs -o rdma,username=root,password=password "//$HOST2/share" /mnt; do sleep 0.5; done'
}
modprobe cifs
mount_share
grep -q ' cifs .*,rdma,' /proc/mounts

head -c 64M /dev/urandom >/tmp/data
cp /tmp/data /mnt/data
umount /mnt # so that it is not read from this host's cache
mount_share
written=$(sha256sum </tmp/data)
stored=$(on 2 sh -c 'sha256sum </export/data')
read=$(sha256sum </mnt/data)
echo "written: $written"
echo "stored:  $stored"
echo "read:    $read"
if [ "$written" != "$read" ] || [ "$written" != "$stored" ]; then
    echo "the data differ" >&2
    exit 1
fi

umount /mnt
