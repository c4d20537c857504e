# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The packages that dpkg has installed in a root, of which an image is made."""

import re
import tarfile
from typing import List, NamedTuple

from lab.core.errors import LabError

STATUS = "./var/lib/dpkg/status"


class SourcePackage(NamedTuple):
    name: str
    version: str


class DebPackage(NamedTuple):
    name: str
    version: str
    arch: str
    source: SourcePackage
    built_using: List[SourcePackage]  # of which it has parts, such as a static library


def read_packages(root: str) -> List[DebPackage]:
    """Of a tar file of the root, sorted."""
    with tarfile.open(root) as tar:
        member = next((member for member in tar if member.name == STATUS), None)
        file = tar.extractfile(member) if member else None
        if not file:
            raise LabError(f"{root} has no {STATUS}, which names its packages")
        return parse_status(file.read().decode())


def parse_status(text: str) -> List[DebPackage]:
    paragraphs = [
        dict(re.findall(r"^([A-Za-z-]+): *(.*)$", paragraph, re.MULTILINE))
        for paragraph in text.split("\n\n")
    ]
    return sorted(
        DebPackage(
            name=fields["Package"],
            version=fields["Version"],
            arch=fields["Architecture"],
            source=parse_source(fields.get("Source", fields["Package"]), fields["Version"]),
            built_using=[
                SourcePackage(*source)
                for source in re.findall(r"(\S+) \(= (\S+)\)", fields.get("Built-Using", ""))
            ],
        )
        for fields in paragraphs
        if fields.get("Status", "").endswith(" installed")
    )


def parse_source(field: str, version: str) -> SourcePackage:
    """The field has the version if that is not the version of the package."""
    name, _, own_version = field.partition(" ")
    return SourcePackage(name, own_version.strip("()") or version)
