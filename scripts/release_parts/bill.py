# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The bill of materials, in SPDX 2.3."""

import json
import os
import time
from typing import Any, Dict

from lab import VERSION

from .material import Material


def make_bill(material: Material, work: str) -> str:
    """The bill of materials, in SPDX 2.3."""
    pin = material.pin

    def package(identifier: str, **fields: Any) -> Dict[str, Any]:
        common = {
            "SPDXID": f"SPDXRef-{identifier}",
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False,
            "copyrightText": "NOASSERTION",
        }
        return {**common, **fields}

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
                name="softrdma",
                versionInfo=VERSION,
                sourceInfo=f"commit {material.commit}",
                licenseConcluded="BSD-2-Clause OR GPL-2.0-only",
                licenseDeclared="BSD-2-Clause OR GPL-2.0-only",
            ),
            package(
                "linux",
                name="linux",
                versionInfo=pin.version,
                sourceInfo=f"Debian's {pin.package}, configured and patched by softrdma; statically linked",
                licenseConcluded="GPL-2.0-only WITH Linux-syscall-note",
                licenseDeclared="GPL-2.0-only WITH Linux-syscall-note",
                checksums=[{"algorithm": "SHA256", "checksumValue": pin.sha256}],
            ),
            package(
                "glibc",
                name="glibc",
                versionInfo=material.libc,
                sourceInfo="Debian's libc6-dev, linked with linux",
                licenseConcluded="LGPL-2.1-or-later",
                licenseDeclared="LGPL-2.1-or-later",
            ),
        ],
        "relationships": [
            relationship("DOCUMENT", "DESCRIBES", "softrdma"),
            relationship("softrdma", "CONTAINS", "linux"),
            relationship("linux", "STATIC_LINK", "glibc"),
        ],
    }
    path = os.path.join(work, f"softrdma-{VERSION}.spdx.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=2)
        file.write("\n")
    return path


def relationship(element: str, kind: str, related: str) -> Dict[str, str]:
    return {
        "spdxElementId": f"SPDXRef-{element}",
        "relationshipType": kind,
        "relatedSpdxElement": f"SPDXRef-{related}",
    }
