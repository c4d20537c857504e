# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The bill of materials, in SPDX 2.3."""

import json
import os
import time
from typing import Any, Dict
from urllib.parse import quote

from lab import VERSION
from lab.kernel.linked_libraries import Library

from .material import Material

OWN_LICENSE = "BSD-2-Clause OR GPL-2.0-only"
KERNEL_LICENSE = "GPL-2.0-only WITH Linux-syscall-note"
LIBC_LICENSE = "LGPL-2.1-or-later"
LIBGCC_LICENSE = "GPL-3.0-or-later WITH GCC-exception-3.1"
DEBIAN = "Organization: Debian"


def make_bill(material: Material, work: str) -> str:
    """The bill of materials, in SPDX 2.3."""
    pin = material.pin

    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"softrdma-{VERSION}",
        "documentNamespace": f"https://spdx.org/spdxdocs/softrdma-{VERSION}-{material.commit}",
        "creationInfo": {
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(material.seconds)),
            "creators": ["Tool: coherdma-scripts-release"],
        },
        "packages": [
            package(
                "softrdma",
                OWN_LICENSE,
                name="softrdma",
                versionInfo=VERSION,
                sourceInfo=f"commit {material.commit}",
                supplier="Organization: the coherdma authors",
            ),
            package(
                "linux",
                KERNEL_LICENSE,
                name="linux",
                versionInfo=pin.version,
                sourceInfo=f"Debian's {pin.package}, configured and patched by softrdma, compiled by {material.compiler}",
                supplier=DEBIAN,
                checksums=[{"algorithm": "SHA256", "checksumValue": pin.sha256}],
                externalRefs=[debian_purl(pin.package, pin.version, "all")],
            ),
            library("glibc", LIBC_LICENSE, material.libc),
            library("libgcc", LIBGCC_LICENSE, material.libgcc),
        ],
        "relationships": [
            relationship("DOCUMENT", "DESCRIBES", "softrdma"),
            relationship("softrdma", "CONTAINS", "linux"),
            relationship("linux", "STATIC_LINK", "glibc"),
            relationship("linux", "STATIC_LINK", "libgcc"),
        ],
    }
    path = os.path.join(work, f"softrdma-{VERSION}.spdx.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=2)
        file.write("\n")
    return path


def package(identifier: str, license_text: str, **fields: Any) -> Dict[str, Any]:
    return {
        "SPDXID": f"SPDXRef-{identifier}",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "copyrightText": "NOASSERTION",
        "licenseConcluded": license_text,
        "licenseDeclared": license_text,
        **fields,
    }


def library(name: str, license_text: str, facts: Library) -> Dict[str, Any]:
    """A library that is linked with the kernel."""
    return package(
        name,
        license_text,
        name=name,
        versionInfo=facts["version"],
        sourceInfo=f"Debian's {facts['package']}, of the source package {facts['source']}",
        supplier=DEBIAN,
        externalRefs=[debian_purl(facts["source"], facts["version"], "source")],
    )


def debian_purl(name: str, version: str, arch: str) -> Dict[str, str]:
    return {
        "referenceCategory": "PACKAGE-MANAGER",
        "referenceType": "purl",
        "referenceLocator": f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={arch}",
    }


def relationship(element: str, kind: str, related: str) -> Dict[str, str]:
    return {
        "spdxElementId": f"SPDXRef-{element}",
        "relationshipType": kind,
        "relatedSpdxElement": f"SPDXRef-{related}",
    }
