#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# NFS over RDMA: host 1 mounts a folder of host 2.
#
#     softrdma run --in uml --hosts 2 -- ./nfs.sh         (needs nfs-common, nfs-kernel-server)

set -e
[ "$(uname -n)" = softrdma-1 ] || {
    echo "this is no host of the lab; type: softrdma run --in uml --hosts 2 -- $0" >&2
    exit 2
}

# A client must not open files before the grace period has ended, which is at least 10 seconds. rpc.nfsd keeps its output open.
on 2 sh -e <<'END'
mkdir -p /export
mount -t tmpfs tmpfs /export
modprobe nfsd
mount -t nfsd nfsd /proc/fs/nfsd
exportfs -o rw,no_root_squash,insecure,fsid=0 '*:/export'
rpc.mountd --no-nfs-version 3
rpc.nfsd --no-nfs-version 3 --grace-time 10 --lease-time 10 --rdma=20049 4 >/dev/null 2>&1
END

mount_export() { timeout 60 sh -c 'until mount -t nfs4 -o rdma,port=20049 "$HOST2:/" /mnt; do sleep 0.5; done'; }
mount_export
grep -q ' nfs4 .*proto=rdma' /proc/mounts

head -c 64M /dev/urandom >/tmp/data
cp /tmp/data /mnt/data
umount /mnt # so that it is not read from this host's cache
mount_export
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
