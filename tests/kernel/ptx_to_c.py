#!/usr/bin/env python3
"""ptx_to_c.py KERNEL.ptx: the PTX as C, a statement an instruction, so that it runs where there is no GPU.

Registers are variables, memory is memory; run.c gives each thread a stack of its own and has `barrier` and `shuffle`,
which fail where threads that must meet do not.  An instruction that is not known here is an error.
"""
import re
import sys

TYPES = {"pred": "bool", "f32": "float", "f64": "double", **{s + n: f"{'' if s == 's' else 'u'}int{n}_t" for s in "sub" for n in ("8", "16", "32", "64")}}
COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
UNORDERED = {"geu": "<", "gtu": "<=", "ltu": ">=", "leu": ">", "neu": "=="}  # not this
ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>"}
FUNCTIONS = {("max", "f32"): "fmaxf", ("abs", "f32"): "fabsf", ("abs", "f64"): "fabs", ("fma", "f32"): "fmaf", ("fma", "f64"): "fma",
             ("sqrt", "f64"): "sqrt"}


def value(text, kind):
    if text.startswith("%"):
        return {"%tid.x": "tid()", "%ctaid.x": "ctaid()"}.get(text) or text[1:]
    if text.startswith("0f"):
        return f"of_bits32(0x{text[2:]}u)"
    if text.startswith("0d"):
        return f"of_bits64(0x{text[2:]}ull)"
    if re.fullmatch(r"-?\d+", text):
        return f"(({TYPES[kind]}){text}ll)"
    return f"(uint64_t)(uintptr_t){text}"


def place(text):
    base, _, offset = text.strip("[] ").partition("+")
    return f"((char *)(uintptr_t)({value(base, 'u64')}) + {offset or 0})"


def operands(text):
    return [part.strip() for part in re.findall(r"\{[^}]*\}|[^,{}]+", text) if part.strip()]


def moved(to, source, kind):
    """By its bits: between registers of integers and of floats."""
    return f"{{ {TYPES[kind]} t_ = 0; COPY(t_, {source}); COPY({to}, t_); }}"


def access(words, args):
    kind = words[-1]
    load = words[0] == "ld"
    registers = [r.strip() for r in args[0 if load else 1].strip("{}").split(",")]
    at = place(args[1 if load else 0])
    out = []
    for i, register in enumerate(registers):
        there = f"{at} + {i} * sizeof({TYPES[kind]})"
        out.append(f"LOAD({TYPES[kind]}, {register[1:]}, {there});" if load else f"STORE({TYPES[kind]}, {value(register, kind)}, {there});")
    return " ".join(out)


def convert(words, args):
    to, source = words[-2:]
    a = value(args[1], source)
    if source == "f16":
        return f"{args[0][1:]} = of_half({a});"
    if to == "f16":
        return f"{args[0][1:]} = to_half({a});"
    return f"{args[0][1:]} = ({TYPES[to]})({TYPES[source]}){a};"


def statement(op, args, line):
    words = op.split(".")
    name, kind = words[0], words[-1]
    if name in ("ld", "st"):
        return access(words, args)
    if name == "cvt":
        return convert(words, args)
    if name == "bra":
        return f"goto {args[0].lstrip('$')};"
    if name == "ret":
        return "return;"
    if op == "bar.sync":
        return f"barrier({line});"
    if op == "shfl.sync.down.b32":
        return f"{args[0][1:]} = shuffle({value(args[1], 'u32')}, {value(args[2], 'u32')}, {line});"
    if name == "membar":
        return ";"
    to = args[0].lstrip("%")
    given = [value(a, kind) for a in args[1:]]
    if name == "atom":
        return f"{to} = atomic_add({place(args[1])}, {given[1]});"
    if name in ("cvta", "mov"):
        if kind == "pred":
            return f"{to} = {given[0]} != 0;"
        literal = not args[1].startswith("%") or "." in args[1]
        return f"{to} = {given[0]};" if literal and name == "mov" and to[0] != "f" or name == "cvta" else (
            f"{{ {TYPES[kind]} l_ = {given[0]}; {moved(to, 'l_', kind)} }}" if literal else moved(to, given[0], kind))
    if name == "setp":
        how, c = words[1], TYPES[kind]
        a, b = (f"({c}){x}" for x in given)
        return f"{to} = {a} {COMPARE[how]} {b};" if how in COMPARE else f"{to} = !({a} {UNORDERED[how]} {b});"
    if name == "selp":
        return f"{to} = {value(args[3], 'pred')} ? {given[0]} : {given[1]};"
    if (name, kind) in FUNCTIONS:
        return f"{to} = {FUNCTIONS[name, kind]}({', '.join(given)});"
    if name == "mul" and words[1] == "wide":
        return f"{to} = (uint64_t)(uint32_t){given[0]} * (uint32_t){given[1]};"
    if name == "bfe":
        return f"{to} = {given[0]} >> {given[1]} & ((1u << {given[2]}) - 1);"
    if name == "min":
        return f"{to} = {given[0]} < {given[1]} ? {given[0]} : {given[1]};"
    if name in ("neg", "not"):
        return f"{to} = ({TYPES[kind]}){'-' if name == 'neg' else '~'}{given[0]};"
    if name in ARITHMETIC:
        return f"{to} = ({TYPES[kind]})(({TYPES[kind]}){given[0]} {ARITHMETIC[name]} ({TYPES[kind]}){given[1]});"
    raise SystemExit(f"line {line}: '{op}' is not known")


def head(text):
    """Of a function: its C declaration, and what its parameters are called."""
    names = re.findall(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?", text)
    if ".entry" in text:
        name = re.search(r"\.entry\s+(\w+)", text).group(1)
        at, rows = 0, []
        for kind, parameter, _ in names:
            size = 4 if kind in ("u32", "f32", "b32") else 8
            at = -(-at // size) * size
            rows.append(f"char *{parameter} = args + {at}; (void){parameter};")
            at += size
        rows.append(f"*bytes_of_arguments() = {at};")
        return f"void {name}(char *args)", rows
    name = re.search(r"\.func\s*(?:\([^)]*\))?\s*([\w$]+)", text).group(1)
    return f"static void {name}({', '.join('char *' + parameter for _, parameter, _ in names)})", []


def main():
    out, text, body, shared, shapes = ['#include "kernel_ptx.h"'], "", False, [], []
    for number, line in enumerate(open(sys.argv[1], encoding="ascii"), 1):
        line = line.split("//")[0].strip()
        if not line or re.match(r"\.(version|target|address_size)", line):
            continue
        if not body and line.startswith(".shared"):
            shared.append(line)
        if not body and not line.startswith("{"):
            text = line if line.startswith((".visible .entry", ".func")) else text + " " + line
            if line.startswith(".shared"):
                text = ""
            continue
        if not body:
            declared, rows = head(text)
            shapes.append(declared + ";")
            out += [declared, "{", *rows]
            body, depth, text, waiting = True, 1, "", ""
            continue
        if line == "{":
            depth += 1
            out.append("{")
            continue
        if line == "}":
            depth -= 1
            out.append("; }")
            body = depth > 0
            continue
        if re.fullmatch(r"\$?[\w$]+:", line):
            out.append(line.lstrip("$") + ";")
            continue
        waiting = (waiting + " " + line).strip()
        if not waiting.endswith(";"):
            continue
        line, waiting = waiting.rstrip(";").strip(), ""
        if line.startswith(".reg"):
            kind, name, _, n = re.match(r"\.reg \.(\w+)\s+%(\w+)(<(\d+)>)?", line + " ").groups() if "%" in line else ("", "", "", None)
            if name:
                names = [f"{name}{i}" for i in range(int(n))] if n else [name]
                out.append("".join(f"{TYPES[kind]} {x} = 0; (void){x};" for x in names))
        elif line.startswith((".shared", ".local", ".param")):
            if line.startswith(".shared"):
                shared.append(line)
            else:
                found = re.match(r"\.\w+\s+(?:\.align (\d+)\s+)?\.b8\s+(\w+)\[(\d+)\]", line)
                out.append(f"_Alignas(8) char {found.group(2)}[{found.group(3)}];")
        elif line.startswith("call"):
            given = [p.strip() for p in re.sub(r"call\.uni|[()]", " ", line).split(",")]
            out.append(f"{given[1]}({', '.join([given[0]] + given[2:])});")
        else:
            guard, op, rest = re.match(r"(?:@(!?%\w+)\s+)?([\w.]+)\s*(.*)", line).groups()
            said = statement(op, operands(rest), number)
            out.append(f"if ({guard.replace('%', '')}) {{ {said} }}" if guard else said)
    tops = []
    for line in shared:
        found = re.match(r"\.shared \.align \d+ \.(\w+)\s+([\w$]+)(?:\[(\d+)\])?", line)
        tops.append(f"_Alignas(8) static char {found.group(2)}[{found.group(3) or 8}];")
    print("\n".join([out[0], *tops, *shapes, *out[1:]]))


main()
