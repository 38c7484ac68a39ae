"""The page's sections, packed from plain lists: what src/recordings/page does in C, for tests of the viewer alone (docs/formats/page.md)."""
import base64
import json
import pathlib
import zlib
import hashlib

UI = pathlib.Path(__file__).resolve().parents[2] / "ui" / "dist"


def planes(values, width):
    rows = b"".join(v.to_bytes(8, "little") for v in values)
    return b"".join(rows[plane::8] for plane in range(width))


class Columns:
    def __init__(self):
        self.head = {}
        self.bytes = b""

    def add(self, name, values, delta=False, after=None):
        """`after`: (name, values): a value of None never comes."""
        values = list(values)
        if after:
            values = [0 if v is None else v - b + 1 for v, b in zip(values, after[1])]
        width = max(1, (max(values, default=0).bit_length() + 7) // 8)
        entry = {"at": len(self.bytes), "rows": len(values), "bytes": width}
        if delta:
            entry["delta"] = True
            mask = (1 << 8 * width) - 1
            values = [(v - before) & mask for v, before in zip(values, [0] + values[:-1])]
        if after:
            entry["after"] = after[0]
        self.head[name] = entry
        self.bytes += planes(values, width)


def section(name, data):
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    packed = deflate.compress(data) + deflate.flush()
    return f'<script type="application/octet-stream" id="{name}">{base64.b64encode(packed).decode()}</script>\n'


def digest(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def page(recordings, answer=None):
    """recordings: [(head, Columns)]; answer: (text, result) of the command that made the page"""
    style = (UI / "viewer.css").read_text()
    script = (UI / "viewer.js").read_text()
    body = ""
    for at, (head, columns) in enumerate(recordings):
        head = dict(head, columns=columns.head)
        body += section(f"plim-{at}-head", json.dumps(head).encode())
        body += section(f"plim-{at}-columns", columns.bytes)
    if answer:
        body += section("plim-answer-text", answer[0].encode())
        body += section("plim-answer-result", json.dumps(answer[1]).encode())
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f'script-src {digest(script)}; style-src {digest(style)}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><title>plimsoll</title>'
        f"<style>{style}</style></head><body>\n{body}<script>{script}</script></body></html>\n"
    )
