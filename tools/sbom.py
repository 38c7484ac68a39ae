#!/usr/bin/env python3
"""sbom.py VERSION ARTIFACT...: a CycloneDX 1.6 bill of materials of a release, as JSON: Plimsoll, its artifacts with their hashes,
and each library that is compiled into them, in the version and from the source that tools/portable.sh compiled.

Time: $SOURCE_DATE_EPOCH.
"""
import datetime
import glob
import hashlib
import json
import os
import re
import subprocess
import sys
import uuid

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = os.path.join(TOP, "build", "wheel")
# Debian's source package, licence of what is compiled of it (source: its debian/copyright).  xz 5.4's liblzma is public domain.
LIBRARIES = [
    ("libdeflate", {"id": "MIT"}),
    ("libyaml", {"id": "MIT"}),
    ("libzstd", {"id": "BSD-3-Clause"}),
    ("xxhash", {"id": "BSD-2-Clause"}),
    ("xz-utils", {"name": "public domain"}),
    ("zlib", {"id": "Zlib"}),
]
# What zig links into every program: its own helpers, and the C library's start-up code.
FROM_ZIG = [("compiler-rt", {"id": "MIT"}), ("glibc start-up code", {"name": "LGPL-2.1-or-later with the exception for linking"})]


def sha256(path):
    with open(path, "rb") as f:
        return [{"alg": "SHA-256", "content": hashlib.sha256(f.read()).hexdigest()}]


def only(pattern):
    found = glob.glob(os.path.join(WORK, pattern))
    if len(found) != 1:
        sys.exit(f"sbom: {len(found)} files {pattern} in {WORK}, expected one: rm -r {WORK}, then make dist")
    return found[0]


def library(package, licence):
    """A library that Debian's source package PACKAGE has, as its .dsc describes it."""
    with open(only(f"src/{package}_*.dsc"), encoding="utf-8") as f:
        dsc = f.read()
    version = re.search(r"^Version: (\S+)$", dsc, re.M)[1]
    page = re.search(r"^Homepage: (\S+)$", dsc, re.M)[1]
    sources = re.search(r"^Checksums-Sha256:\n((?: .*\n)+)", dsc, re.M)[1].split("\n")
    purl = f"pkg:deb/debian/{package}@{version.replace(':', '%3A').replace('+', '%2B')}?arch=source"
    return {
        "type": "library", "bom-ref": purl, "name": package, "version": version, "purl": purl, "licenses": [{"license": licence}],
        "externalReferences": [{"type": "website", "url": page}] + [
            {"type": "source-distribution", "url": name.replace("+", "%2B"), "hashes": [{"alg": "SHA-256", "content": digest}]}
            for digest, _, name in (line.split() for line in sources if line) if not name.endswith(".asc")],
    }


def others():
    """What does not come from Debian: parts of zig, and what the viewer has of others."""
    zig = subprocess.run([os.path.join(WORK, "venv/bin/python3"), "-m", "ziglang", "version"], capture_output=True, text=True, check=True)
    for name, licence in FROM_ZIG:
        version = zig.stdout.strip() if name == "compiler-rt" else "2.28"
        yield {"type": "library", "bom-ref": name.replace(" ", "-"), "name": name, "version": version, "licenses": [{"license": licence}],
               "description": f"from zig {zig.stdout.strip()}"}
    with open(os.path.join(TOP, "ui", "package.json"), encoding="utf-8") as f:
        versions = json.load(f)["devDependencies"]
    for name in ("fzstd", "uplot"):
        package = f"pkg:npm/{name}@{versions[name]}"
        yield {"type": "library", "bom-ref": package, "name": name, "version": versions[name], "purl": package, "licenses": [{"license": {"id": "MIT"}}]}


def main():
    version, *artifacts = sys.argv[1:]
    when = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    libraries = [library(*row) for row in LIBRARIES] + list(others())
    files = [{"type": "file", "bom-ref": os.path.basename(a), "name": os.path.basename(a), "hashes": sha256(a)} for a in sorted(artifacts)]
    own = f"pkg:pypi/plimsoll-gpu@{version}"
    bom = {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {
            "timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": own, "name": "plimsoll", "version": version, "purl": own,
                          "licenses": [{"license": {"id": "MIT"}}]}},
        "components": libraries + files,
        "dependencies": [{"ref": own, "dependsOn": [c["bom-ref"] for c in libraries]}],
    }
    # The same content has the same number.
    bom["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bom))}"
    json.dump(bom, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
