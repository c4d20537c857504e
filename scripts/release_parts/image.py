# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Images for podman and docker: Debian 12 with softrdma, or with all packages of coherdma."""

import gzip
import json
import os
import shlex
import shutil
import tarfile
import time
from typing import Any, Dict, List, NamedTuple

from lab import VERSION
from lab.core import files, progress, subprocesses
from lab.core.errors import Unavailable
from lab.debian import packages

from . import bill, deb_packages, debian_status
from .material import SUMMARY, Material
from .prefix import make_prefix, write_tar

RELEASE = "bookworm"
DEBIAN_PACKAGES = (
    *("ibverbs-providers", "ibverbs-utils", "iproute2", "perftest", "python3", "rdmacm-utils"),
)
CLEANUP_SECONDS = 30  # of mmdebstrap, which unmounts and removes what it has made
USER, USER_ID = "rdma", "1000"  # Debian's rdma-core makes the group
# Files of the machine that makes the image. podman and docker make the first two.
MACHINE_FILES = ("etc/hostname", "etc/resolv.conf", "etc/apt/apt.conf.d/99mmdebstrap")
MEDIA_TYPE = "application/vnd.oci.image"
BLOBS = "blobs/sha256"


def make_softrdma_image(material: Material, work: str) -> List[str]:
    """An image with the archive's files, in /usr/local; and its bill of materials."""
    prefix = os.path.join(work, "local")
    make_prefix(material, prefix)
    with tarfile.open(prefix + ".tar", "w", format=tarfile.GNU_FORMAT) as tar:
        write_tar(tar, prefix, ".", material.seconds)
    root = os.path.join(work, "softrdma.tar")
    make_root(material, root, [f"tar-in {shlex.quote(prefix)}.tar /usr/local"])
    return write_image_and_bill(material, root, "softrdma", SUMMARY, has_archive=True)


def make_runtime_image(material: Material, work: str, folder: str) -> List[str]:
    """An image with coherdma's packages, without those to compile and to debug with; and its bill."""
    made = deb_packages.require_packages(material, folder, RELEASE)
    debs = [
        os.path.join(made, name)
        for name in sorted(os.listdir(made))
        if name.endswith(".deb") and "-dev_" not in name and "-dbgsym_" not in name
    ]
    root = os.path.join(work, "coherdma.tar")
    install = "apt-get install --yes --no-install-recommends /packages/*.deb"
    make_root(
        material,
        root,
        [
            'mkdir "$1/packages"',
            f"copy-in {shlex.join(debs)} /packages",
            f'chroot "$1" sh -c "{install}"',
            'rm -r "$1/packages"',
        ],
    )
    summary = "uDAPL, verbs and softrdma, to run programs"
    return write_image_and_bill(material, root, "coherdma", summary, has_archive=False)


def write_image_and_bill(
    material: Material, root: str, name: str, summary: str, has_archive: bool
) -> List[str]:
    debs = debian_status.read_packages(root)
    bill_path = bill.make_image_bill(material, os.path.dirname(root), name, debs, has_archive)
    return [write_image(material, root, name, summary), bill_path]


def make_root(material: Material, path: str, hooks: List[str]) -> None:
    """A tar file of Debian with a user, and what mmdebstrap's hooks add.

    The same packages and files give the same bytes.
    """
    program = subprocesses.require_program("mmdebstrap", "mmdebstrap", "an image")
    hooks = [
        *hooks,
        f'chroot "$1" useradd --create-home --uid {USER_ID} --gid {USER} {USER}',
        f'cd "$1" && rm -f {shlex.join(MACHINE_FILES)}',
    ]
    options = [f"--customize-hook={hook}" for hook in hooks]
    if packages.are_old_lists_permitted():
        options.append('--aptopt=Acquire::Check-Valid-Until "false"')
    with progress.Step(f"making a root of Debian, {RELEASE}", expected_seconds=60):
        subprocesses.run_long(
            [program, "--variant=minbase", "--skip=output/dev"]
            + [f"--include={','.join(DEBIAN_PACKAGES)}", *options, RELEASE, path],
            f"a root of Debian, {RELEASE}, cannot be made",
            error_class=Unavailable,
            cleanup_seconds=CLEANUP_SECONDS,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(material.seconds)},
        )


class Blob(NamedTuple):
    """A file of the layout that is named by its SHA-256."""

    digest: str
    size: int

    @property
    def path(self) -> str:
        return f"{BLOBS}/{self.digest}"

    def descriptor(self, kind: str) -> Dict[str, Any]:
        return {
            "mediaType": f"{MEDIA_TYPE}.{kind}",
            "digest": f"sha256:{self.digest}",
            "size": self.size,
        }


def write_image(material: Material, root: str, name: str, summary: str) -> str:
    """An OCI layout, in a tar file, of one layer: the root, which is removed.

    manifest.json is for docker before version 25, which does not read index.json.
    """
    layout = root + ".layout"
    os.makedirs(os.path.join(layout, BLOBS))
    tag = f"localhost/{name}:{VERSION}"
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(material.seconds))
    with progress.Step(f"compressing the image {tag}", expected_seconds=20):
        layer = add_blob(layout, compress(root))
    config = {
        "architecture": "amd64",
        "os": "linux",
        "created": created,
        "config": {
            "User": USER,
            "WorkingDir": f"/home/{USER}",
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Cmd": ["softrdma", "run", "--", "bash"],
            "Labels": {
                "org.opencontainers.image.title": name,
                "org.opencontainers.image.description": summary,
                "org.opencontainers.image.version": VERSION,
                "org.opencontainers.image.revision": material.commit,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{files.hash_file(root)}"]},
        "history": [{"created": created, "created_by": "scripts/release"}],
    }
    os.unlink(root)
    config_blob = add_json(layout, config)
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{MEDIA_TYPE}.manifest.v1+json",
        "config": config_blob.descriptor("config.v1+json"),
        "layers": [layer.descriptor("layer.v1.tar+gzip")],
    }
    manifest_descriptor = {
        **add_json(layout, manifest).descriptor("manifest.v1+json"),
        "annotations": {
            "io.containerd.image.name": tag,
            "org.opencontainers.image.ref.name": tag,
        },
    }
    for file_name, value in {
        "oci-layout": {"imageLayoutVersion": "1.0.0"},
        "index.json": {"schemaVersion": 2, "manifests": [manifest_descriptor]},
        "manifest.json": [{"Config": config_blob.path, "RepoTags": [tag], "Layers": [layer.path]}],
    }.items():
        write_json(os.path.join(layout, file_name), value)
    path = os.path.join(os.path.dirname(root), f"{name}-{VERSION}-image.oci.tar")
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        write_tar(tar, layout, ".", material.seconds)
    shutil.rmtree(layout)
    return path


def add_blob(layout: str, path: str) -> Blob:
    """Move the file into the layout."""
    blob = Blob(files.hash_file(path), os.path.getsize(path))
    os.replace(path, os.path.join(layout, blob.path))
    return blob


def add_json(layout: str, value: Any) -> Blob:
    path = os.path.join(layout, "blob")
    write_json(path, value)
    return add_blob(layout, path)


def write_json(path: str, value: Any) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)


def compress(path: str) -> str:
    """The path of the compressed file, which has neither the name nor a date in it."""
    compressed_path = path + ".gz"
    with open(path, "rb") as file, open(compressed_path, "wb") as raw, gzip.GzipFile(
        filename="", fileobj=raw, mode="wb", mtime=0
    ) as compressed:
        shutil.copyfileobj(file, compressed)
    return compressed_path
