#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# SMB Direct: host 1 mounts a share of host 2, which has the kernel's server, ksmbd.
#
#     softrdma run --hosts 2 -- ./smb.sh         (needs cifs-utils, and ksmbd-tools 3.5 or newer)

set -e

on 2 sh -e <<'END'
mkdir -p /export /etc/ksmbd
mount -t tmpfs tmpfs /export
modprobe ksmbd
printf '[share]\npath = /export\nread only = no\n' >/etc/ksmbd/ksmbd.conf
ksmbd.adduser -a root -p password
ksmbd.mountd
END

mount_share() { mount -t cifs -o rdma,username=root,password=password "//$HOST2/share" /mnt; }
modprobe cifs
until mount_share; do sleep 0.5; done
grep -q ' cifs .*,rdma,' /proc/mounts

head -c 64M /dev/urandom >/tmp/data
cp /tmp/data /mnt/data
umount /mnt # so that it is not read from this host's cache
mount_share
echo "written: $(sha256sum </tmp/data)"
echo "stored:  $(on 2 sha256sum /export/data)"
echo "read:    $(sha256sum </mnt/data)"

umount /mnt
