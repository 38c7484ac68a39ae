"""A page, unpacked as docs/formats/page.md says."""
import base64
import hashlib
import json
import re
import zlib


def sections_of(html):
    """The sections of a page by their ids, and its text without them, which nothing from a file can be in."""
    sections = {}

    def take(m):
        sections[m[1]] = zlib.decompress(base64.b64decode(m[2], validate=True), -15)
        return ""
    rest = re.sub(r'<script type="application/octet-stream" id="(plim-(?:\d+-(?:head|columns)|answer-(?:text|result)))">([A-Za-z0-9+/=]*)</script>\n',
                  take, html)
    return sections, rest


def columns_of(head, packed):
    """Every column as a list of numbers."""
    out, end = {}, 0
    for name, c in head["columns"].items():
        n, k, at = c["rows"], c["bytes"], c["at"]
        assert at == end, f"{name} does not begin where the one before ends"
        end = at + n * k
        v = [0] * n
        for plane in range(k):
            for i, byte in enumerate(packed[at + plane * n:at + (plane + 1) * n]):
                v[i] |= byte << (8 * plane)
        if c.get("delta"):
            sum_, mask = 0, (1 << (8 * k)) - 1
            for i in range(n):
                v[i] = sum_ = (sum_ + v[i]) & mask
        elif "plus" in c:
            v = [a + b for a, b in zip(out[c["plus"]], v)]
        elif "after" in c:
            v = [a + b - 1 if b else 0 for a, b in zip(out[c["after"]], v)]
        out[name] = v
    assert end == len(packed), f"{len(packed) - end} bytes behind the last column"
    return out


class Part:
    """One device of one recording."""

    def __init__(self, sections, number):
        self.head = json.loads(sections[f"plim-{number}-head"])
        self.columns = columns_of(self.head, sections[f"plim-{number}-columns"])
        self.device = self.head["report"]["devices"][0]
        assert len(self.head["report"]["devices"]) == 1 and self.head["format"] == "page/2", self.head["format"]

    def rows(self, table, names):
        n = max((len(v) for k, v in self.columns.items() if k.startswith(table + ".")), default=0)
        get = [self.columns.get(f"{table}.{name}", [0] * n) for name in names]
        return list(zip(*get))

    def frame(self, index):
        s = self.head["strings"]
        file, name, line = (self.columns.get(f"frames.{k}", [0] * (index + 1))[index] for k in ("file", "name", "line"))
        return s[file], s[name], line

    def stack(self, index):
        first = self.columns["stacks.first"]
        frames = self.columns.get("stacks.frames", [0] * first[-1])
        return [self.frame(f) for f in frames[first[index]:first[index + 1]]]

    def shown(self):
        """Of each finding: its rows of allocs."""
        first = self.columns.get("shown.first", [0] * (len(self.device["findings"]) + 1))
        rows = self.columns.get("shown.rows", [])
        assert len(first) == len(self.device["findings"]) + 1 and first[-1] == len(rows), "shown"
        return [rows[a:b] for a, b in zip(first, first[1:])]

    def mispainted(self):
        """Findings whose rows are not what they speak of: not so many, not in order, or not its bytes, asked for or of
        blocks.  What could be saved is a part of what is painted; of a staircase one stack's part is."""
        sizes, leaks = self.rows("allocs", ["size", "block"]), {leak["finding"]: leak for leak in self.device["leaks"]}
        for i, (finding, mine) in enumerate(zip(self.device["findings"], self.shown())):
            if not mine:
                continue
            sums, bytes_ = [sum(sizes[row][k] for row in mine) for k in (0, 1)], finding["bytes"]
            if finding["id"] in ("duplicate_weights", "foreach_temporaries"):
                right = bytes_ <= sums[1]
            else:
                right = (leaks[i]["part_bytes"] if i in leaks and leaks[i]["loop"] else bytes_) in sums
            if not right or mine != sorted(set(mine)) or min(len(mine), 4096) != len(finding["allocations"]):
                yield f"{finding['id']} of {bytes_} bytes paints {len(mine)} rows of {sums}"

    def has(self, text):
        """Is it anywhere in the part?"""
        return text in json.dumps(self.head, ensure_ascii=False)


def read(html):
    """The parts of a page, and its text without them."""
    sections, rest = sections_of(html)
    return [Part(sections, i) for i in range(sum(s.endswith("-head") for s in sections))], rest


def policy_of(rest):
    """The hashes that the policy allows, and those of the script and the style that are there."""
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', rest)[1]
    allowed = re.findall(r"(\w+)-src 'sha256-([^']*)'", policy)
    found = [("script" if tag == "script" else "style", base64.b64encode(hashlib.sha256(text.encode()).digest()).decode())
             for tag, text in re.findall(r"<(script|style)>(.*?)</\1>", rest, flags=re.S)]
    return policy, sorted(allowed), sorted(found)
