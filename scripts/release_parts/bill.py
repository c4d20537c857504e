# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Bills of materials, in SPDX 2.3: of softrdma, and of an image, with Debian's packages in it."""

import json
import os
import re
import time
from typing import Any, Dict, List
from urllib.parse import quote

from lab import VERSION
from lab.kernel.linked_libraries import Library

from .debian_status import DebPackage, SourcePackage
from .material import Material

OWN_LICENSE = "BSD-2-Clause OR GPL-2.0-only"
KERNEL_LICENSE = "GPL-2.0-only WITH Linux-syscall-note"
LIBC_LICENSE = "LGPL-2.1-or-later"
LIBGCC_LICENSE = "GPL-3.0-or-later WITH GCC-exception-3.1"
AUTHORS = "Organization: the coherdma authors"
DEBIAN = "Organization: Debian"
SOURCE_PACKAGE = "coherdma"  # of the packages that are not Debian's
SNAPSHOT = "https://snapshot.debian.org/package"  # keeps all sources that Debian has had


def make_bill(material: Material, work: str) -> str:
    """Of softrdma."""
    relationships = [relationship("DOCUMENT", "DESCRIBES", "softrdma"), *softrdma_relationships()]
    return write_bill(
        material, work, f"softrdma-{VERSION}", softrdma_packages(material), relationships
    )


def make_image_bill(
    material: Material, work: str, name: str, debs: List[DebPackage], has_archive: bool
) -> str:
    """Of an image. has_archive: it has softrdma beside the packages."""
    image = package(
        "image",
        "NOASSERTION",
        name=name,
        versionInfo=VERSION,
        sourceInfo=f"commit {material.commit}",
        supplier=AUTHORS,
    )
    sources = sorted({source for deb in debs for source in deb.built_using})
    packages = [image, *map(source_package, sources)]
    packages += [deb_package(material, deb) for deb in debs]
    relationships = [relationship("DOCUMENT", "DESCRIBES", "image")]
    for deb in debs:
        relationships.append(relationship("image", "CONTAINS", deb_id(deb.name)))
        for source in deb.built_using:
            relationships.append(
                relationship(deb_id(deb.name), "GENERATED_FROM", source_id(source))
            )
    if has_archive:
        packages += softrdma_packages(material)
        relationships.append(relationship("image", "CONTAINS", "softrdma"))
        relationships += softrdma_relationships()
    return write_bill(material, work, f"{name}-{VERSION}-image", packages, relationships)


def softrdma_packages(material: Material) -> List[Dict[str, Any]]:
    pin = material.pin
    return [
        package(
            "softrdma",
            OWN_LICENSE,
            name="softrdma",
            versionInfo=VERSION,
            sourceInfo=f"commit {material.commit}",
            supplier=AUTHORS,
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
    ]


def softrdma_relationships() -> List[Dict[str, str]]:
    return [
        relationship("softrdma", "CONTAINS", "linux"),
        relationship("linux", "STATIC_LINK", "glibc"),
        relationship("linux", "STATIC_LINK", "libgcc"),
    ]


def write_bill(
    material: Material,
    work: str,
    name: str,
    packages: List[Dict[str, Any]],
    relationships: List[Dict[str, str]],
) -> str:
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{material.commit}",
        "creationInfo": {
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(material.seconds)),
            "creators": ["Tool: coherdma-scripts-release"],
        },
        "packages": packages,
        "relationships": relationships,
    }
    path = os.path.join(work, f"{name}.spdx.json")
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
        downloadLocation=snapshot_location(facts["source"], facts["version"]),
        sourceInfo=f"Debian's {facts['package']}, of the source package {facts['source']}",
        supplier=DEBIAN,
        externalRefs=[debian_purl(facts["source"], facts["version"], "source")],
    )


def deb_package(material: Material, deb: DebPackage) -> Dict[str, Any]:
    """A package of dpkg in an image, with the place of its source."""
    is_own = deb.source.name == SOURCE_PACKAGE
    fields: Dict[str, Any] = {
        "name": deb.name,
        "versionInfo": deb.version,
        "sourceInfo": f"the source package {deb.source.name} {deb.source.version}"
        + (f", of commit {material.commit}" if is_own else ""),
        "supplier": AUTHORS if is_own else DEBIAN,
    }
    if not is_own:
        fields["downloadLocation"] = snapshot_location(*deb.source)
        fields["externalRefs"] = [debian_purl(deb.name, deb.version, deb.arch)]
    return package(deb_id(deb.name), "NOASSERTION", **fields)


def source_package(source: SourcePackage) -> Dict[str, Any]:
    """A source package that a package in an image has parts of."""
    return package(
        source_id(source),
        "NOASSERTION",
        name=source.name,
        versionInfo=source.version,
        downloadLocation=snapshot_location(*source),
        supplier=DEBIAN,
        externalRefs=[debian_purl(source.name, source.version, "source")],
    )


def snapshot_location(source: str, version: str) -> str:
    return f"{SNAPSHOT}/{quote(source, safe='')}/{quote(version, safe='')}/"


def deb_id(name: str) -> str:
    return "deb-" + identifier_of(name)


def source_id(source: SourcePackage) -> str:
    return f"source-{identifier_of(source.name)}-{identifier_of(source.version)}"


def identifier_of(text: str) -> str:
    """SPDX permits letters, digits, dots and hyphens."""
    return re.sub(r"[^A-Za-z0-9.-]", lambda match: f"-{ord(match.group()):x}-", text)


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
