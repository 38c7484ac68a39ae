#!/usr/bin/env python3
"""How many seeded mistakes `plimsoll lint` finds: lint_mutations.py FOLDER... [--count 200] [--seed 24] [--missed]

Walks folders of training code (someone else's: fetch what you like), looks for places where one change makes a known
mistake, makes it, lints the changed text, and asks whether a rule for it speaks that did not speak before.  Places are
chosen by their text alone, not by what the linter understands, and evenly over the kinds of change.
"""
from __future__ import annotations

import argparse
import ast
import os
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
from plimsoll.lint import engine, source  # noqa: E402

EVERY = engine.Settings()  # as shipped: rules that are off do not count


@dataclass
class Site:
    kind: str
    path: str
    line: int
    before: str
    after: str
    rules: tuple[str, ...]


class File:
    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.source = source.parse(path, text)
        self.text = self.source.text
        self.tree = self.source.tree
        self.parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node

    def around(self, node: ast.AST, *kinds: type) -> ast.AST | None:
        at = self.parents.get(node)
        while at is not None and not isinstance(at, kinds):
            if isinstance(at, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                return at if isinstance(at, kinds) else None
            at = self.parents.get(at)
        return at

    def function(self, node: ast.AST) -> ast.AST:
        at = self.parents.get(node)
        while at is not None and not isinstance(at, (ast.FunctionDef, ast.AsyncFunctionDef)):
            at = self.parents.get(at)
        return at or self.tree

    def says(self, node: ast.AST, pattern: str) -> bool:
        return re.search(pattern, self.source.segment(node)) is not None if hasattr(node, "lineno") else re.search(pattern, self.text) is not None

    def replaced(self, *edits: tuple[int, int, str]) -> str:
        text = self.text
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def without(self, stmt: ast.stmt) -> tuple[int, int, str]:
        return self.source.start(stmt), self.source.end(stmt), "pass"


def calls(file: File, *attrs: str) -> Iterator[ast.Call]:
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Call) and (isinstance(node.func, ast.Attribute) and node.func.attr in attrs or isinstance(node.func, ast.Name) and node.func.id in attrs):
            yield node


def statement(file: File, call: ast.Call) -> ast.Expr | None:
    parent = file.parents.get(call)
    return parent if isinstance(parent, ast.Expr) else None


def loader_loops(file: File, node: ast.AST) -> list[ast.For]:
    return [n for n in ast.walk(node) if isinstance(n, ast.For) and "loader" in file.source.segment(n.iter)]


def no_grad(file: File) -> Iterator[Site]:
    """`with torch.no_grad():` around evaluation becomes `if True:`; a decorator goes."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.With) and len(node.items) == 1 and re.fullmatch(r"torch\.(no_grad|inference_mode)\(\)", file.source.segment(node.items[0].context_expr)):
            loops = loader_loops(file, node) or [n for n in [file.around(node, ast.For)] if isinstance(n, ast.For) and "loader" in file.source.segment(n.iter)]
            if not loops or any(file.says(l, r"\.backward\(|\.step\(\)") for l in loops) or not any(file.says(l, r"\b(self\.)?(model|net|\w+_model|network)\(") for l in loops):
                continue
            start = file.source.start(node)
            end = file.source.start(node.body[0])
            head = file.text[start:end]
            yield Site("no_grad removed", file.path, node.lineno, "", file.replaced((start, start + head.index(":") + 1, "if True:")), ("PLM110", "PLM101", "PLM103"))
        elif isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if re.fullmatch(r"torch\.(no_grad|inference_mode)\(\)", file.source.segment(decorator)) and len(node.decorator_list) == 1:
                    loops = loader_loops(file, node)
                    if loops and not file.says(node, r"\.backward\(|no_grad\(\):") and any(file.says(l, r"\b(self\.)?(model|net|\w+_model|network)\(") for l in loops):
                        start = file.source.start(decorator) - 1
                        yield Site("no_grad removed", file.path, node.lineno, "", file.replaced((start, file.source.end(decorator), "# ")), ("PLM110", "PLM101", "PLM103"))


def in_training(file: File, node: ast.AST) -> ast.For | None:
    loop = file.around(node, ast.For, ast.While)
    return loop if isinstance(loop, ast.For) and file.says(loop, r"\.backward\(") and file.says(loop, r"\.step\(") else None


def item_dropped(file: File) -> Iterator[Site]:
    """`total += loss.item()` loses its .item()."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute) and (
                node.value.func.attr == "item" and isinstance(node.value.func.value, ast.Name) and "loss" in node.value.func.value.id):
            loop = in_training(file, node)
            if loop is not None and not re.search(rf"^\s+{re.escape(file.source.segment(node.target))} = ", "\n".join(file.source.segment(s) for s in loop.body), re.MULTILINE):
                yield Site("item() dropped", file.path, node.lineno, "", file.replaced((file.source.end(node.value.func.value), file.source.end(node.value), "")), ("PLM101", "PLM102"))


def detach_dropped(file: File) -> Iterator[Site]:
    """A list in a training or evaluation loop gets the tensor itself."""
    for call in calls(file, "append"):
        if len(call.args) != 1 or statement(file, call) is None or file.around(call, ast.For) is None:
            continue
        at = call.args[0]
        while isinstance(at, ast.Call) and isinstance(at.func, ast.Attribute) and at.func.attr in ("item", "detach", "cpu", "numpy") and not at.args:
            at = at.func.value
        loop = file.around(call, ast.For)
        quiet = file.around(call, ast.With)
        if "loss" in getattr(at, "id", "") and (isinstance(quiet, ast.With) and "no_grad" in file.source.segment(quiet.items[0].context_expr) or any(
                "no_grad" in file.source.segment(d) or "inference" in file.source.segment(d) for d in getattr(file.function(call), "decorator_list", []))):
            continue  # a scalar without a graph: no mistake
        if at is call.args[0] or not isinstance(at, ast.Name) or not re.search(r"loss|output|logit|pred", at.id):
            continue
        if isinstance(loop, ast.For) and "loader" in file.source.segment(loop.iter) and file.says(loop, r"\b(self\.)?(model|net|\w+_model|network)\(") and not file.says(
                loop, rf"\b{at.id} = .*(argmax|\.max\(|numpy|\.cpu\(|\.item\(|tolist|>|==|round)"):
            yield Site("detach() or cpu() dropped", file.path, call.lineno, "", file.replaced((file.source.end(at), file.source.end(call.args[0]), "")),
                       ("PLM101", "PLM102", "PLM103", "PLM111"))


def zero_grad_dropped(file: File) -> Iterator[Site]:
    for call in calls(file, "zero_grad"):
        stmt = statement(file, call)
        if stmt is not None and in_training(file, call) is not None and len(re.findall(r"zero_grad", file.text)) == 1 and not re.search(r"deepspeed|\.grad = None", file.text):
            yield Site("zero_grad() dropped", file.path, call.lineno, "", file.replaced(file.without(stmt)), ("PLM801",))


def zero_grad_misplaced(file: File) -> Iterator[Site]:
    """zero_grad() between backward and step."""
    for call in calls(file, "zero_grad"):
        stmt = statement(file, call)
        if stmt is None or in_training(file, call) is None:
            continue
        body = next((b for p in [file.parents[stmt]] for b in (getattr(p, "body", []), getattr(p, "orelse", [])) if stmt in b), [])
        name = file.source.segment(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        backward = next((s for s in body if re.match(r"\w+\.backward\(", file.source.segment(s))), None)
        step = next((s for s in body if file.source.segment(s).startswith(f"{name}.step(")), None)
        if backward is None or step is None or not body.index(backward) < body.index(step) or body.index(stmt) > body.index(backward):
            continue
        start = file.source.start(step)
        indent = file.text[file.text.rindex("\n", 0, start) + 1:start]
        if not indent.strip():
            yield Site("zero_grad() before step()", file.path, call.lineno, "", file.replaced(file.without(stmt), (start, start, f"{file.source.segment(stmt)}\n{indent}")), ("PLM802",))


def loader_moved(file: File) -> Iterator[Site]:
    """A DataLoader's assignment moves into the loop over epochs."""
    for call in calls(file, "DataLoader"):
        stmt = file.parents.get(call)
        if not isinstance(stmt, ast.Assign) or not isinstance(stmt.targets[0], ast.Name) or not call.args and not any(k.arg == "dataset" for k in call.keywords):
            continue
        parent = file.parents[stmt]
        for body in (getattr(parent, "body", []), getattr(parent, "orelse", [])):
            if stmt not in body:
                continue
            loop = next((s for s in body[body.index(stmt) + 1:] if isinstance(s, ast.For) and re.search("epoch", file.source.segment(s.target)) and file.says(s, r"\.backward\(")), None)
            first = loop.body[0] if loop is not None else None
            if first is None or not re.search(rf"\b{stmt.targets[0].id}\b", file.source.segment(loop)):
                continue
            start = file.source.start(first)
            indent = file.text[file.text.rindex("\n", 0, start) + 1:start]
            if not indent.strip():
                yield Site("loader made each epoch", file.path, stmt.lineno, "", file.replaced(file.without(stmt), (start, start, f"{file.source.segment(stmt)}\n{indent}")), ("PLM202",))


def unscale_dropped(file: File) -> Iterator[Site]:
    for call in calls(file, "unscale_"):
        stmt = statement(file, call)
        if stmt is not None and file.says(file.function(call), r"torch\.nn\.utils\.clip_grad_norm_|nn\.utils\.clip_grad_norm_") and len(re.findall(r"\.unscale_\(", file.text)) == 1 and (
                file.says(file.function(call), r"\.scale\(.*\)\.backward\(")):
            yield Site("unscale_() dropped", file.path, call.lineno, "", file.replaced(file.without(stmt)), ("PLM302",))


def set_epoch_dropped(file: File) -> Iterator[Site]:
    found = list(calls(file, "set_epoch"))
    if len(found) == 1 and statement(file, found[0]) is not None and re.search(r"DistributedSampler\(", file.text) and not re.search(r"accelerate|lightning|colossalai|deepspeed", file.text):
        stmt = statement(file, found[0])
        assert stmt is not None
        yield Site("set_epoch() dropped", file.path, stmt.lineno, "", file.replaced(file.without(stmt)), ("PLM502",))


def move_discarded(file: File) -> Iterator[Site]:
    """`x = x.to(device)` of an element of the batch becomes `x.to(device)`."""
    for call in calls(file, "to", "cuda"):
        stmt = file.parents.get(call)
        loop = file.around(call, ast.For)
        if isinstance(stmt, ast.Assign) and isinstance(stmt.targets[0], ast.Name) and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and (
                call.func.value.id == stmt.targets[0].id) and isinstance(loop, ast.For) and "loader" in file.source.segment(loop.iter):
            elements = [t for t in ast.walk(loop.target) if isinstance(t, ast.Tuple) and any(isinstance(e, ast.Name) and e.id == stmt.targets[0].id for e in t.elts)]
            if elements and "enumerate" in file.source.segment(loop.iter) and loop.target is elements[0]:
                continue  # (i, batch): a batch object may well move in place
            if elements and not (len(elements[0].elts) == 2 and file.source.segment(loop.iter).startswith("enumerate") and elements[0] is loop.target) and loop.body[0].lineno + 3 >= stmt.lineno:
                yield Site("move discarded", file.path, stmt.lineno, "", file.replaced((file.source.start(stmt), file.source.start(call), "")), ("PLM701",))


def cache_emptied(file: File) -> Iterator[Site]:
    for call in calls(file, "step"):
        stmt = statement(file, call)
        if stmt is not None and re.match(r"(self\.)?(optimizer|opt|optim)\.step\(\)$", file.source.segment(stmt)) and in_training(file, call) is not None and file.parents[stmt] is in_training(file, call):
            loop = in_training(file, call)
            assert loop is not None
            if not re.search("epoch", file.source.segment(loop.target)) and not file.says(loop, "empty_cache|memory_allocated"):
                end = file.source.end(stmt)
                yield Site("empty_cache() each step", file.path, stmt.lineno, "", file.replaced((end, end, "; torch.cuda.empty_cache()")), ("PLM204",))


def copy_dropped(file: File) -> Iterator[Site]:
    for call in calls(file, "deepcopy"):
        if len(call.args) == 1 and isinstance(file.parents.get(call), ast.Assign) and re.search(r"(model|net)\w*\.state_dict\(\)$", file.source.segment(call.args[0])):
            if re.search(r"load_state_dict|torch\.save", file.text):
                yield Site("copy of state_dict() dropped", file.path, call.lineno, "", file.replaced((file.source.start(call), file.source.end(call), file.source.segment(call.args[0]))), ("PLM403",))


def list_unregistered(file: File) -> Iterator[Site]:
    for call in calls(file, "ModuleList"):
        stmt = file.parents.get(call)
        if isinstance(stmt, ast.Assign) and file.source.segment(stmt.targets[0]).startswith("self.") and len(call.args) == 1 and isinstance(call.args[0], (ast.List, ast.ListComp)):
            function = file.function(call)
            if isinstance(function, ast.FunctionDef) and function.name == "__init__" and re.search(r"nn\.(Linear|Conv|Embedding|LayerNorm|LSTM|BatchNorm)", file.source.segment(call)):
                yield Site("ModuleList dropped", file.path, call.lineno, "", file.replaced((file.source.start(call), file.source.end(call), file.source.segment(call.args[0]))), ("PLM704",))


def graph_retained(file: File) -> Iterator[Site]:
    for call in calls(file, "backward"):
        stmt = statement(file, call)
        if stmt is not None and not call.args and not call.keywords and re.fullmatch(r"loss\.backward\(\)", file.source.segment(call)) and in_training(file, call) is not None:
            loop = in_training(file, call)
            assert loop is not None
            if len(re.findall(r"\.backward\(|autograd\.grad", file.source.segment(loop))) == 1:
                yield Site("retain_graph=True added", file.path, call.lineno, "", file.replaced((file.source.end(call) - 1, file.source.end(call) - 1, "retain_graph=True")), ("PLM105",))


def not_called(file: File) -> Iterator[Site]:
    for call in calls(file, "eval"):
        stmt = statement(file, call)
        if stmt is not None and not call.args and re.fullmatch(r"(self\.)?(model|net|encoder|decoder|netG|unet)\.eval\(\)", file.source.segment(call)):
            yield Site("eval not called", file.path, call.lineno, "", file.replaced((file.source.end(call) - 2, file.source.end(call), "")), ("PLM804",))


def one_sided(file: File) -> Iterator[Site]:
    for call in calls(file, "barrier"):
        stmt = statement(file, call)
        if stmt is not None and re.fullmatch(r"(torch\.distributed|dist)\.barrier\(\)", file.source.segment(call)) and not file.says(file.function(call), r"rank") and (
                len(re.findall(r"barrier|all_reduce|all_gather|broadcast", file.source.segment(file.function(call)) if hasattr(file.function(call), "lineno") else file.text)) == 1):
            start = file.source.start(stmt)
            base = file.source.segment(call).removesuffix(".barrier()")
            yield Site("barrier on one rank", file.path, call.lineno, "", file.replaced((start, start, f"if {base}.get_rank() == 0: ")), ("PLM501",))


def softmax_added(file: File) -> Iterator[Site]:
    for call in calls(file, "cross_entropy"):
        if call.args and isinstance(call.args[0], (ast.Name, ast.Call)) and file.source.segment(call.func) in ("F.cross_entropy", "nn.functional.cross_entropy") and in_training(file, call):
            first = call.args[0]
            yield Site("softmax before cross_entropy", file.path, call.lineno, "", file.replaced((file.source.start(first), file.source.end(first), f"F.softmax({file.source.segment(first)}, dim=-1)")
                                                                                                   if "F." in file.source.segment(call.func) else (0, 0, "")), ("PLM805",))


def scaler_skipped(file: File) -> Iterator[Site]:
    for call in calls(file, "step"):
        stmt = statement(file, call)
        if stmt is not None and isinstance(call.func, ast.Attribute) and re.search(r"scaler$", file.source.segment(call.func.value)) and len(call.args) == 1 and (
                in_training(file, call) is not None and "GradScaler(" in file.text and len(re.findall(r"scaler\.step\(", file.text)) == 1 and "unscale_" not in file.text):
            yield Site("scaler.step() skipped", file.path, call.lineno, "", file.replaced((file.source.start(call), file.source.end(call), f"{file.source.segment(call.args[0])}.step()")), ("PLM304",))


def keyword_of(call: ast.Call, name: str) -> ast.keyword | None:
    return next((k for k in call.keywords if k.arg == name), None)


def loaders(file: File) -> Iterator[ast.Call]:
    for call in calls(file, "DataLoader"):
        if call.args and not any(isinstance(a, ast.Starred) for a in call.args) and all(k.arg for k in call.keywords) and "torch.utils.data" in file.text:
            yield call


def added(file: File, call: ast.Call, text: str) -> str:
    last = max([*call.args, *(k.value for k in call.keywords)], key=file.source.end)
    return file.replaced((file.source.end(last), file.source.end(last), text))


def sampler_shuffled(file: File) -> Iterator[Site]:
    """A loader with a sampler also gets shuffle=True."""
    for call in loaders(file):
        sampler = keyword_of(call, "sampler")
        if sampler is not None and isinstance(sampler.value, (ast.Name, ast.Call)) and keyword_of(call, "shuffle") is None and len(call.args) <= 2:
            yield Site("shuffle beside a sampler", file.path, call.lineno, "", added(file, call, ", shuffle=True"), ("PLM208",))


def workers_missing(file: File) -> Iterator[Site]:
    """A loader without workers gets persistent_workers=True."""
    for call in loaders(file):
        workers = keyword_of(call, "num_workers")
        if len(call.args) <= 5 and (workers is None or isinstance(workers.value, ast.Constant) and workers.value.value == 0) and keyword_of(call, "persistent_workers") is None:
            yield Site("persistent_workers without workers", file.path, call.lineno, "", added(file, call, ", persistent_workers=True"), ("PLM208",))


def map_location_dropped(file: File) -> Iterator[Site]:
    """`m.load_state_dict(torch.load(path, map_location=...))` loses its map_location."""
    for call in calls(file, "load"):
        keyword, outer = keyword_of(call, "map_location"), file.parents.get(call)
        if keyword is None or file.source.segment(call.func) != "torch.load" or not (isinstance(outer, ast.Call) and re.search(
                r"(model|net\w*|self|optimizer)\.load_state_dict$", file.source.segment(outer.func))):
            continue
        start = file.source.offset(keyword.lineno, keyword.col_offset)
        before = file.text[:start].rstrip()
        if before.endswith(","):
            yield Site("map_location dropped", file.path, call.lineno, "", file.replaced((len(before) - 1, file.source.end(keyword.value), "")), ("PLM401",))


def scheduler_first(file: File) -> Iterator[Site]:
    """scheduler.step() moves in front of optimizer.step()."""
    for call in calls(file, "step"):
        stmt = statement(file, call)
        if stmt is None or call.args or call.keywords or not re.fullmatch(r"(self\.)?(lr_)?scheduler\.step\(\)", file.source.segment(stmt)) or "_scheduler." not in file.text:
            continue
        parent = file.parents[stmt]
        for body in (getattr(parent, "body", []), getattr(parent, "orelse", [])):
            if isinstance(body, list) and stmt in body:
                step = next((s for s in body[:body.index(stmt)] if re.fullmatch(r"(self\.)?(optimizer|opt|optim)\.step\(\)", file.source.segment(s))), None)
                if step is not None:
                    start = file.source.start(step)
                    indent = file.text[file.text.rindex("\n", 0, start) + 1:start]
                    yield Site("scheduler before optimizer", file.path, stmt.lineno, "", file.replaced(file.without(stmt), (start, start, f"{file.source.segment(stmt)}\n{indent}")), ("PLM803",))


def backward_in_autocast(file: File) -> Iterator[Site]:
    """The backward pass that follows a `with autocast` moves into it."""
    for node in ast.walk(file.tree):
        for body in (getattr(node, "body", []), getattr(node, "orelse", [])):
            for first, second in zip(body, body[1:]) if isinstance(body, list) else ():
                if isinstance(first, ast.With) and len(first.items) == 1 and re.search(r"autocast\(", file.source.segment(first.items[0].context_expr)) and isinstance(
                        second, ast.Expr) and re.search(r"\.backward\(\)$", file.source.segment(second)):
                    at = file.source.end(first.body[-1])
                    inner = file.source.start(first.body[-1])
                    indent = file.text[file.text.rindex("\n", 0, inner) + 1:inner]
                    if not indent.strip():
                        yield Site("backward under autocast", file.path, second.lineno, "", file.replaced((at, at, f"\n{indent}{file.source.segment(second)}"), file.without(second)), ("PLM301",))


def made_on_cpu(file: File) -> Iterator[Site]:
    """`torch.zeros(..., device=d)` in a forward pass becomes `torch.zeros(...).to(d)`."""
    for call in calls(file, "zeros", "ones", "arange", "full", "empty"):
        keyword, function = keyword_of(call, "device"), file.function(call)
        if keyword is None or not file.source.segment(call.func).startswith("torch.") or getattr(function, "name", "") != "forward":
            continue
        start = file.source.offset(keyword.lineno, keyword.col_offset)
        before = file.text[:start].rstrip()
        if before.endswith(","):
            end = file.source.end(call)
            yield Site("made on the CPU", file.path, call.lineno, "", file.replaced((len(before) - 1, file.source.end(keyword.value), ""), (end, end, f".to({file.source.segment(keyword.value)})")), ("PLM206",))


def zero_grad_late(file: File) -> Iterator[Site]:
    """zero_grad() at the head of the iteration moves to the line before backward()."""
    for call in calls(file, "zero_grad"):
        stmt, loop = statement(file, call), in_training(file, call)
        if stmt is None or loop is None or file.parents[stmt] is not loop or len(re.findall(r"zero_grad|\.backward\(", file.source.segment(loop))) != 2:
            continue
        backward = next((s for s in loop.body if re.fullmatch(r"\w*loss\.backward\(\)", file.source.segment(s))), None)
        if backward is None or loop.body.index(stmt) > 2 or not loop.body.index(stmt) + 1 < loop.body.index(backward) or not any(
                re.search(r"= (self\.)?(model|net|network)\(", file.source.segment(s)) for s in loop.body[loop.body.index(stmt) + 1:loop.body.index(backward)]):
            continue
        start = file.source.start(backward)
        indent = file.text[file.text.rindex("\n", 0, start) + 1:start]
        yield Site("zero_grad() after forward", file.path, call.lineno, "", file.replaced(file.without(stmt), (start, start, f"{file.source.segment(stmt)}\n{indent}")), ("PLM116",))


def anomaly_left_on(file: File) -> Iterator[Site]:
    """A script that trains switches anomaly detection on behind its imports."""
    imports = [s for s in file.tree.body if isinstance(s, ast.Import) and any(a.name == "torch" and not a.asname for a in s.names)]
    if imports and '__name__ == "__main__"' in file.text.replace("'", '"') and re.search(r"\.backward\(", file.text) and "anomaly" not in file.text and "debug" not in file.path:
        end = file.source.end(imports[-1])
        yield Site("anomaly detection left on", file.path, imports[-1].lineno, "", file.replaced((end, end, "; torch.autograd.set_detect_anomaly(True)")), ("PLM210",))


MUTATIONS = (sampler_shuffled, workers_missing, map_location_dropped, scheduler_first, backward_in_autocast, made_on_cpu, zero_grad_late, anomaly_left_on,
             no_grad, item_dropped, detach_dropped, zero_grad_dropped, zero_grad_misplaced, loader_moved, unscale_dropped, set_epoch_dropped, move_discarded,
             cache_emptied, copy_dropped, list_unregistered, graph_retained, not_called, one_sided, softmax_added, scaler_skipped)


def sites(folders: list[str]) -> Iterator[Site]:
    for folder in folders:
        for where, inside, files in os.walk(folder):
            inside[:] = sorted(d for d in inside if d not in ("tests", "test", ".git"))
            for name in sorted(files):
                path = os.path.join(where, name)
                if not name.endswith(".py") or name.startswith("test_") or os.path.islink(path):
                    continue
                data = Path(path).read_bytes()
                if b"torch" not in data or not any(w in data for w in (b".backward(", b"no_grad", b"ModuleList", b"deepcopy", b"barrier", b".eval(", b"DataLoader(", b"device=", b"torch.load(")):
                    continue
                try:
                    file = File(path, source.decode(data))
                except (source.Unreadable, RecursionError):
                    continue
                for mutation in MUTATIONS:
                    for site in mutation(file):
                        site.before = file.text
                        yield site


def found(site: Site) -> bool:
    before = engine.lint_text(site.path, site.before, EVERY).findings
    after = engine.lint_text(site.path, site.after, EVERY).findings
    return any(sum(f.id == rule for f in after) > sum(f.id == rule for f in before) for rule in site.rules)


def chosen(all_sites: list[Site], count: int, seed: int) -> list[Site]:
    """Evenly over kinds: the rarest kinds first, all of them if need be; at most two of a kind in one file."""
    rng = random.Random(seed)
    kinds: dict[str, list[Site]] = {}
    for site in all_sites:
        kinds.setdefault(site.kind, []).append(site)
    picked: list[Site] = []
    left = len(kinds)
    for _, group in sorted(kinds.items(), key=lambda kv: (len(kv[1]), kv[0])):
        share = (count - len(picked) + left - 1) // left
        left -= 1
        rng.shuffle(group)
        seen: dict[str, int] = {}
        mine: list[Site] = []
        for site in group:
            if seen.get(site.path, 0) < 2 and len(mine) < share:
                seen[site.path] = seen.get(site.path, 0) + 1
                mine.append(site)
        picked += mine
    return picked


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=24)
    parser.add_argument("--missed", action="store_true", help="name the places that were missed")
    options = parser.parse_args()
    table: dict[str, list[int]] = {}
    for site in chosen(list(sites(options.folders)), options.count, options.seed):
        try:
            ast.parse(site.after)
        except SyntaxError:
            continue
        row = table.setdefault(site.kind, [0, 0])
        row[0] += 1
        if found(site):
            row[1] += 1
        elif options.missed:
            print(f"missed: {site.path}:{site.line} {site.kind} {'/'.join(site.rules)}")
    for kind, (made, hit) in sorted(table.items()):
        print(f"| {kind} | {made} | {hit} |")
    made, hit = (sum(r[i] for r in table.values()) for i in (0, 1))
    print(f"| all | {made} | {hit} ({100 * hit / max(made, 1):.0f} %) |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
