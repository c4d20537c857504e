#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# NFS over RDMA: host 1 mounts a folder of host 2.
#
#     softrdma run --hosts 2 -- ./nfs.sh         (needs nfs-common, nfs-kernel-server)

set -e

# A client must not open files before the grace period has ended, which is at least 10 seconds. rpc.nfsd keeps its output open.
on 2 sh -e <<'END'
mkdir /export
mount -t tmpfs tmpfs /export
modprobe nfsd
mount -t nfsd nfsd /proc/fs/nfsd
exportfs -o rw,no_root_squash,insecure,fsid=0 '*:/export'
rpc.mountd --no-nfs-version 3
rpc.nfsd --no-nfs-version 3 --grace-time 10 --lease-time 10 --rdma=20049 4 >/dev/null 2>&1
END

mount_export() { mount -t nfs4 -o rdma,port=20049 "$HOST2:/" /mnt; }
until mount_export; do sleep 0.5; done
grep -q ' nfs4 .*proto=rdma' /proc/mounts

head -c 64M /dev/urandom >/tmp/data
cp /tmp/data /mnt/data
umount /mnt # so that it is not read from this host's cache
mount_export
echo "written: $(sha256sum </tmp/data)"
echo "stored:  $(on 2 sha256sum /export/data)"
echo "read:    $(sha256sum </mnt/data)"

umount /mnt
