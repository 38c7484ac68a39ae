#!/usr/bin/env python3
"""embed.py NAME INPUT OUTPUT: a data file as a C array.

Declare it where it is used:
    extern const unsigned char NAME[];    /* a 0 stands after the last byte */
    extern const size_t NAME_bytes;       /* without that 0 */
    extern const char NAME_sha256[];      /* of these bytes, base64, as a Content-Security-Policy wants it */
"""
import base64
import hashlib
import sys


def main():
    name, source, target = sys.argv[1:]
    with open(source, "rb") as f:
        data = f.read()
    digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
    rows = [",".join(map(str, data[i:i + 24])) + "," for i in range(0, len(data), 24)]
    with open(target, "w", encoding="ascii") as f:
        f.write("#include <stddef.h>\n\n"
                f"extern const unsigned char {name}[];\n"
                f"extern const size_t {name}_bytes;\n"
                f"extern const char {name}_sha256[];\n\n"
                f"const unsigned char {name}[] = {{\n" + "\n".join(rows) + "\n0\n};\n"
                f"const size_t {name}_bytes = {len(data)};\n"
                f"const char {name}_sha256[] = \"{digest}\";\n")


main()
