#!/usr/bin/env python3
"""rows.py DATA [DATA ...]: the tables of data/*.rows as C, to standard output.

A file of rows has one row per line; its cells are separated by tabs (several count as one).  A line that begins with # is a
comment.  Lines that begin with @ say what becomes of the rows:

    @include "diagnose/advice.h"        what the C needs
    @read FILE                          the @ lines of a file next to this one
    @columns STRUCT                     the columns of its tables follow; without it those of all tables
    @column NAME KIND [PREFIX [FIRST]]  a column: they stand in this order
    @rest                               from here on a cell says its column: NAME=VALUE
    @under NAME MEMBER PREFIX           NAME.X=VALUE is X of that member: a number, or an enumerator with PREFIX
    @cells NAME X=VALUE X=VALUE         a name for several such, in cells NAME of that @under: under=NAME
    @key NAME [NAME]                    no two rows of a table have the same cells there
    @set NAME MEMBER|MEMBER             a name for several members, in cells of sets
    @text NAME WORDS                    a name for words that several cells have, written $NAME there
    @value TYPE NAME COLUMN SET         a set that C code uses, too
    @extern NAME                        a table that another file has
    @table STRUCT NAME [static] [count COUNT] [end] [sorted] [by PREFIX]
                                        rows below go here; COUNT is their number, "end" adds a row of zeros, "sorted"
                                        wants their keys in the order of bytes; "by": a
                                        cell in front is the enumerator, without PREFIX, whose place the row has
    @source WORDS                       where the rows below are from; a row without a source is an error

The kinds of columns, and what stands in their cells ("-": nothing, the member stays 0):

    text            words ("": none, but not nothing) with the escapes of C (\\040: a space at an end, \\043: a # in front), where " needs no backslash
    name PREFIX     one enumerator, without its prefix
    set PREFIX      enumerators, a bit each: A|B, or !A|B for all others; with FIRST the bits count from there
    flag            the column's name alone, in a cell behind @rest; elsewhere 1
    number [UNIT]   a number, of that unit in C
    table           the name of another table of the file
    member STRUCT   the offset of a member of that struct
    note            words for the reader: the C has no such member

The compiler checks names and types: its errors have the line of the row, because the C says where each is from.
"""
import os
import re
import sys

KINDS = {"text": 0, "name": 1, "set": 1, "flag": 0, "number": None, "table": 0, "member": 1, "note": 0}
NAME = re.compile(r"[A-Za-z_]\w*")


class RowsError(Exception):
    pass


def c_text(words):
    if words == '""':
        return words
    return '"' + re.sub(r'(?<!\\)"', r'\\"', words) + '"'


class Column:
    def __init__(self, name, kind, prefix="", first=""):
        if kind not in KINDS or KINDS[kind] not in (None, int(bool(prefix))):
            raise RowsError(f"column {name}: '{kind}' is not a kind, or lacks its prefix")
        # text.keys>towers[MODEL_TEXT].keys: what the file calls it, and what C does
        self.name, _, member = name.partition(">")
        self.member = member or self.name
        self.kind, self.prefix, self.first = kind, prefix, first


class Layout:
    """The columns of a struct's tables."""

    def __init__(self):
        self.columns, self.rest, self.key, self.under = [], None, [], {}


class Table:
    """Rows as C."""

    def __init__(self, struct, name, words):
        self.struct, self.name = struct, name
        self.static, self.end, self.sorted = "static" in words, "end" in words, "sorted" in words
        self.count = words[words.index("count") + 1] if "count" in words else ""
        self.by = words[words.index("by") + 1] if "by" in words else ""
        self.lines, self.seen = [], {}
        self.rows = []  # each {column: cell}, for other programs

    def code(self, external):
        head = f"{'static ' if self.static else ''}const struct {self.struct} {self.name}[]"
        tail = ["\t{ 0 },"] if self.end else []
        count = [f"const size_t {self.count} = {len(self.rows)};"] if self.count else []
        return [head + " = {"] + self.lines + tail + ["};", f'#line 1 "{external}"'] + count


class File:
    def __init__(self, path):
        self.path, self.layouts, self.layout = path, {}, Layout()
        self.sets, self.texts, self.bundles, self.externs, self.used = {}, {}, {}, set(), set()
        self.tables, self.includes, self.values = {}, [], []
        self.table, self.source = None, ""

    def set_of(self, column, cell):
        """A|B as C.  The names of sets stand for their members."""
        names = []
        for word in cell.lstrip("!").split("|"):
            self.used.add(word)
            names += self.sets.get(word, [word])
        if len(set(names)) != len(names):
            raise RowsError(f"{column.name}={cell}: a member is there twice")
        less = f" - {column.first}" if column.first else ""
        bits = " | ".join(f"1ULL << ({column.prefix}{n}{less})" for n in names)
        return f"~({bits})" if cell.startswith("!") else bits

    def words_of(self, cell):
        if cell.startswith("$"):
            if cell[1:] not in self.texts:
                raise RowsError(f"'{cell}': no @text has this name")
            self.used.add(cell[1:])
            return self.texts[cell[1:]]
        return cell

    def value(self, column, cell):
        if column.kind == "text":
            return c_text(self.words_of(cell))
        if column.kind == "set":
            return self.set_of(column, cell)
        if column.kind == "table":
            if cell not in self.tables and cell not in self.externs:
                raise RowsError(f"'{cell}': no table above has this name")
            self.used.add(cell)
            return cell
        if column.kind == "member":
            return f"offsetof(struct {column.prefix}, {cell})"
        number = f"{cell} * {column.prefix}" if column.prefix else cell
        return {"name": column.prefix + cell, "number": number, "flag": "1"}[column.kind]

    def below(self, name, value):
        """The C of NAME.X=VALUE, or of all cells that NAME=BUNDLE stands for."""
        under, _, member = name.partition(".")
        place, prefix = self.layout.under[under]
        if not member:
            self.used.add(value)
            return [made for cell in self.bundles[value] for made in self.below(f"{under}.{cell[0]}", cell[1])]
        return [f".{place}.{member} = {prefix + value if value[:1].isupper() else value}"]

    def cells(self, line):
        """(column, cell) of a row; the column is a text if it is below an @under."""
        layout = self.layout
        cells = re.split(r"\t+", line.rstrip("\t"))
        places = layout.columns if layout.rest is None else layout.columns[:layout.rest]
        named = {c.name: c for c in layout.columns[len(places):]}
        if len(cells) > len(places) and layout.rest is None:
            raise RowsError(f"{len(cells)} cells, and {len(places)} columns")
        yield from zip(places, cells)
        for cell in cells[len(places):]:
            name, _, value = cell.partition("=")
            if name not in named and name.partition(".")[0] in layout.under:
                yield name, value
            elif name not in named:
                raise RowsError(f"'{name}' is not a column, or is there twice")
            else:
                yield named.pop(name), value

    def row(self, line, at):
        if not self.table:
            raise RowsError("a row before any @table")
        if not self.source:
            raise RowsError("a row without a source: @source above it says where it is from")
        place = ""
        if self.table.by:
            name, _, line = line.partition("\t")
            place = f"[{self.table.by}{name}] = "
        cells = [(c, cell) for c, cell in self.cells(line) if cell != "-"]
        named = {c if isinstance(c, str) else c.name: cell for c, cell in cells}
        key = tuple(cell for name, cell in named.items() if name in self.layout.key) or line
        if key in self.table.seen:
            raise RowsError(f"the same as line {self.table.seen[key]}: {' '.join(key)}")
        if self.table.sorted and self.table.seen and key < next(reversed(self.table.seen)):
            raise RowsError(f"out of order: {' '.join(key)}")
        self.table.seen[key] = at
        self.table.rows.append(named)
        members = []
        for column, cell in cells:
            if isinstance(column, str):
                members += self.below(column, cell)
            elif column.kind != "note":
                members.append(f".{column.member} = {self.value(column, cell)}")
        self.table.lines += [f'#line {at} "{self.path}"', f"\t{place}{{ {', '.join(members) or '0'} }},"]

    def say(self, word, line):
        words = line.split()
        if word == "include":
            self.includes.append(line)
        elif word == "read":
            other = File(os.path.join(os.path.dirname(self.path), line)).read_lines()
            self.layouts.update(other.layouts)
            self.includes += other.includes
            self.texts.update(other.texts)
            self.sets.update(other.sets)
            self.bundles.update(other.bundles)
            self.externs |= other.externs
            self.used |= other.texts.keys() | other.sets.keys() | other.bundles.keys()
        elif word == "columns":
            self.layout = self.layouts[line] = Layout()
        elif word == "column":
            self.layout.columns.append(Column(*words))
        elif word == "rest":
            self.layout.rest = len(self.layout.columns)
        elif word == "under":
            self.layout.under[words[0]] = words[1:]
        elif word == "cells":
            self.bundles[words[0]] = [w.split("=", 1) for w in words[1:]]
        elif word == "extern":
            self.externs.update(words)
        elif word == "key":
            self.layout.key = words
        elif word == "set":
            self.sets[words[0]] = [n for m in words[1].split("|") for n in self.sets.get(m, [m])]
            self.used.update(words[1].split("|"))
        elif word == "text":
            name, text = line.split(None, 1)
            self.texts[name] = text
        elif word == "value":
            column = next(c for c in self.layout.columns if c.name == words[2])
            self.values.append(f"const {words[0]} {words[1]} = {self.set_of(column, words[3])};")
        elif word == "table":
            if words[1] in self.tables:
                raise RowsError(f"table {words[1]} is there twice")
            self.layout = self.layouts.get(words[0], self.layout)
            self.table = self.tables[words[1]] = Table(words[0], words[1], words[2:])
        elif word == "source":
            self.source = line
        else:
            raise RowsError(f"'@{word}' is not known")

    def read_lines(self):
        with open(self.path, encoding="utf-8") as f:
            for at, line in enumerate(f.read().split("\n"), 1):
                try:
                    if line.startswith("@"):
                        word, _, rest = line[1:].partition(" ")
                        self.say(word, rest.strip())
                    elif line.strip() and not line.startswith("#"):
                        self.row(line, at)
                except (RowsError, KeyError, IndexError, StopIteration, ValueError, TypeError) as e:
                    raise RowsError(f"{self.path}:{at}: {e}") from None
        return self

    def read(self):
        self.read_lines()
        tables = {t.name for t in self.tables.values() if t.static}
        idle = (self.sets.keys() | self.texts.keys() | self.bundles.keys() | tables) - self.used
        if idle:
            raise RowsError(f"{self.path}: nothing uses {', '.join(sorted(idle))}")
        return self

    def code(self):
        lines = [f"/* Made by tools/rows.py of {os.path.basename(self.path)}. */"]
        lines += [f"#include {i}" for i in self.includes] + ["#include <stddef.h>", ""]
        for table in self.tables.values():
            lines += table.code("rows") + [""]
        return lines + self.values


def main():
    try:
        print("\n".join(line for path in sys.argv[1:] for line in File(path).read().code()))
    except (RowsError, OSError) as e:
        sys.exit(f"rows.py: {e}")


if __name__ == "__main__":
    main()
