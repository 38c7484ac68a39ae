#!/usr/bin/env python3
"""widths.py PLIMSOLL DATA: no line of a report, or of why, is wider than was asked for, save for a word that must stay whole."""
import glob
import os
import subprocess
import sys

plimsoll, data = sys.argv[1:3]
wrong = []
paths = sorted(glob.glob(os.path.join(data, "**", "*.pickle*"), recursive=True))
logs = sorted(glob.glob(os.path.join(data, "..", "messages", "*.txt")) + glob.glob(os.path.join(data, "oom", "*.txt")))
for path in paths + logs:
    for width in (40, 60, 80, 120):
        for locale in ("C.UTF-8", "C") if width == 40 else ("C.UTF-8",):
            done = subprocess.run([plimsoll, "why" if path in logs else "report", path, "--width", str(width)], capture_output=True, timeout=120,
                                  env=dict(os.environ, LC_ALL=locale))
            for line in done.stdout.decode().splitlines():
                if len(line) > width and len(line.split()) > 1:
                    wrong.append(f"{os.path.basename(path)} in {width}: {line}")
if len(paths) < 20 or len(logs) < 80:
    wrong.append(f"{data} has {len(paths)} recordings, {len(logs)} logs")
print("\n".join(wrong) or f"widths: {len(paths)} reports and {len(logs)} logs fit")
sys.exit(bool(wrong))
