"""The command: options, files, exit codes (0 nothing found, 1 found, 2 usage, 3 a file could not be read, 4 this machine cannot)."""
from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import shutil
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NoReturn

from . import __version__, baseline, config, fixes, join, output, redact
from .catalogue import BY_ID, RETIRED
from .engine import Result, Settings, lint_data
from .finding import SEVERITIES
from .program import followed
from .source import LARGEST_BYTES, LARGEST_NOTEBOOK

GARBAGE = 500_000  #: objects between two collections, about 75 MB; Python's own rhythm takes a third of the CPU time
CONFIDENCES = {"high": 0.9, "medium": 0.7, "low": 0.5}
SKIPPED = frozenset(".git .hg .svn .tox .nox .venv venv env node_modules __pycache__ build dist .mypy_cache .ruff_cache .pytest_cache site-packages .eggs".split())
DONE, FOUND, USAGE, INPUT, MACHINE = 0, 1, 2, 3, 4


def say(text: str) -> None:
    clean = "".join(c if c.isprintable() else "?" for c in text)
    print(f"plimsoll lint: {clean}", file=sys.stderr)

# (heading, ((names, what it takes, its value in help, help), ...)): a literal, of which tools/results makes the help, man page and
# completion of the program `plimsoll lint`, too.  The value of a choice: VALUE DEFAULT and its words.
OPTIONS: tuple[tuple[str, tuple[tuple[str, str, str, str], ...]], ...] = (
    ("", (
        ("-j --json", "flag", "", "print JSON (schema lint/1) instead of text"),
        ("--format", "choice", "FORM text text json sarif github", "what is printed; github: annotations, by itself where GITHUB_ACTIONS is set"),
        ("--select", "list", "CODES", "only these rules, by prefix: PLM1,PLM701 (PLM: all, also those that are off)"),
        ("--extend-select", "list", "CODES", "these too"),
        ("--ignore", "list", "CODES", "not these"),
        ("--exclude", "list", "PATTERN", "leave out files and folders whose name or path fits"),
        ("--fail-on", "choice", "SEVERITY warning error warning info never", "lightest finding that makes the exit code 1"),
        ("--confidence", "choice", "LEVEL medium high medium low", "show findings at least so sure"),
    )),
    ("A code base that exists", (
        ("--baseline", "text", "FILE", "leave out findings that the file has"),
        ("--write-baseline", "text", "FILE", "write all findings there, and exit 0"),
        ("--diff", "text", "REF", "only findings on lines that differ from this commit"),
    )),
    ("Fixing", (
        ("--fix", "flag", "", "show what can be fixed safely as a diff, and do it after a yes"),
        ("--unsafe-fixes", "flag", "", "with --fix: also what may change what the program does"),
        ("--yes", "flag", "", "with --fix: do not ask"),
    )),
    ("With a recording, or a log", (
        ("--recording", "list", "FILE", "rank findings by what a recording of this program measured"),
        ("--log", "list", "FILE", "findings in the lines of a log's tracebacks"),
        ("--joined-only", "flag", "", "only what the recording or the log points at"),
        ("--plimsoll", "text", "PROGRAM", "the program that reads them (this one)"),
    )),
    ("Rules", (
        ("--explain", "text", "RULE", "cause, cost and examples of one rule"),
        ("--rules", "flag", "", "list all rules"),
    )),
    ("Where settings come from, and how to show it", (
        ("--config", "text", "FILE", "a pyproject.toml (the nearest one)"),
        ("--no-config", "flag", "", "read no pyproject.toml"),
        ("--stdin-filename", "text", "PATH", "name of standard input"),
        ("--lsp", "flag", "", "serve an editor on standard input and output (needs pygls)"),
        ("--redact", "flag", "", "no names of files or of the program, and none of its lines; says what it kept"),
        ("-w --width", "columns", "columns", "of the text (the terminal's, or 80)"),
        ("--no-color", "flag", "", "no colours (also NO_COLOR)"),
    )),
)


class Parser(argparse.ArgumentParser):
    """One line instead of the usage."""

    def error(self, message: str) -> NoReturn:
        raise Usage(f"{message}; see '{self.prog} --help'")


def parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="plimsoll lint", description="Find mistakes that cost GPU memory in Python source, before the first run. Files and notebooks are parsed, never run.",
        epilog="Exit codes: 0 nothing found, 1 found (--fail-on), 2 usage, 3 a file cannot be read or parsed, 4 this machine cannot.")
    add = made.add_argument
    add("paths", nargs="*", metavar="PATH", help="files, notebooks and folders; - reads standard input")
    for _, rows in OPTIONS:
        for names, kind, value, text in rows:
            if kind == "choice":
                text = f"{text} ({value.split()[1]})"
            kinds: dict[str, dict[str, Any]] = {
                "flag": {"action": "store_true"}, "text": {"metavar": value}, "list": {"metavar": value, "action": "append", "default": []},
                "choice": {"choices": value.split()[2:]}, "columns": {"metavar": value.upper(), "type": int}}
            add(*names.split(), help=text, **kinds[kind])
    made.set_defaults(plimsoll=os.environ.get("PLIMSOLL", "plimsoll"), stdin_filename="-")
    add("-V", "--version", action="version", version=f"plimsoll lint {__version__}")
    return made


class Usage(Exception):
    """A command line, or a configuration, that cannot be followed: one line."""


def codes(values: list[str], where: str) -> tuple[str, ...]:
    found = tuple(c.strip().upper() for v in values for c in v.replace(",", " ").split())
    for code in found:
        if code not in RETIRED and not any(rule.startswith(code) for rule in BY_ID):
            raise Usage(f"{where}: no rule begins with '{code}' (plimsoll lint --rules lists them)")
    return found


def files_of(path: Path, exclude: list[str]) -> Iterator[Path]:
    """The Python files and notebooks of a folder, in order of name."""
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(f for f in folders if f not in SKIPPED and not excluded(os.path.join(folder, f), exclude))
        for name in sorted(names):
            if name.endswith((".py", ".ipynb")) and not excluded(os.path.join(folder, name), exclude):
                yield Path(folder, name)


def excluded(path: str, patterns: list[str]) -> bool:
    path = path.replace(os.sep, "/")
    path = path[2:] if path.startswith("./") else path
    return any(fnmatch(path, p) or fnmatch(path.rpartition("/")[2], p) or fnmatch(path, f"*/{p}") or fnmatch(path, f"{p.rstrip('/')}/*") for p in patterns)


def settings_of(options: argparse.Namespace, found: config.Config) -> Settings:
    confidence = options.confidence or found.confidence or "medium"
    if confidence not in CONFIDENCES:
        raise Usage(f"{found.path}: confidence '{confidence}' is none of {', '.join(CONFIDENCES)}")
    where = found.path or "configuration"
    return Settings(
        select=codes(options.select, "--select") or codes(found.select, where),
        extend_select=codes(options.extend_select, "--extend-select") + codes(found.extend_select, where),
        ignore=codes(options.ignore, "--ignore") + codes(found.ignore, where), confidence=CONFIDENCES[confidence],
        per_file_ignores=tuple((p, codes(c, where)) for p, c in found.per_file_ignores.items()))


@contextlib.contextmanager
def collected_by_hand() -> Iterator[None]:
    """No garbage is collected but by `tidy`: a tree of a file is large, and nearly all of it lives as long as the file is linted."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def tidy() -> None:
    if gc.get_count()[0] > GARBAGE:
        gc.collect()


@collected_by_hand()
def lint_paths(paths: list[str], exclude: list[str], settings: Settings, stdin_name: str, *, every: bool = False) -> tuple[output.Report, list[Result]]:
    """Lint files and folders.  What cannot be read is named in the report; the others are still linted.

    The results hold the parsed source of files with findings; with `every`, of all files."""
    report, results, named = output.Report(), [], set()
    files = followed([p for p in paths if os.path.isdir(p)])

    def one(name: str, data: bytes) -> Result:
        tidy()
        result = lint_data(name, data, settings, named=name in named, files=files)
        if not result.findings and not every:
            result.source = None
        return result

    for given in paths:
        if given == "-":
            named.add(stdin_name)
            results.append(one(stdin_name, sys.stdin.buffer.read(LARGEST_NOTEBOOK + 1)))
            continue
        path = Path(given)
        if not path.exists():
            report.errors.append((given, 0, "no such file or folder"))
            continue
        listed = list(files_of(path, exclude)) if path.is_dir() else [path]
        if not listed:
            say(f"no Python file in '{given}'")
        for file in listed:
            try:
                if not file.is_file():  # a pipe, a socket, a link to nothing
                    if file is path:
                        report.errors.append((given, 0, "no regular file (- reads standard input)"))
                    continue
                if file is path:
                    named.add(str(file))
                results.append(one(str(file), data_of(file)))
            except OSError as why:
                report.errors.append((str(file), 0, f"cannot be read: {why.strerror}"))
    again = files.to_tell()
    for i, result in enumerate(results):  # now that it is known how other files call their functions
        if os.path.abspath(result.path) in again and not result.error and ("-" not in paths or result.path != stdin_name):
            results[i] = one(result.path, data_of(Path(result.path)))
    for result in results:
        report.add(result)
    return report, [r for r in results if r.source is not None and (r.findings or every)]


def data_of(file: Path) -> bytes:
    with open(file, "rb") as opened:
        return opened.read(LARGEST_NOTEBOOK + 1 if file.suffix == ".ipynb" else LARGEST_BYTES + 1)


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "es" if noun.endswith("x") else "s")


def mend(results: list[Result], settings: Settings, unsafe: bool, yes: bool) -> list[str]:
    """Show every fix as a diff; write them after a yes.  Returns the files that were written."""
    changes = []
    for result in results:
        if result.source is None or result.source.cells or result.path == "-":
            continue
        fixed = fixes.fix(result.path, result.source.text, result.findings, settings, unsafe)
        if fixed.made:
            changes.append(fixed)
            sys.stdout.write(fixed.diff)
    if not changes:
        return []
    sys.stdout.flush()
    count = sum(len(c.made) for c in changes)
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            say(f"{counted(count, 'fix')} shown, none made: --yes makes {'it' if count == 1 else 'them'}")
            return []
        sys.stderr.write(f"Make {counted(count, 'change')} in {counted(len(changes), 'file')}? [y/N] ")
        sys.stderr.flush()
        if not sys.stdin.readline().strip().lower().startswith("y"):
            return []
    for change in changes:
        fixes.write(change.path, change.after)
    say(f"made {counted(count, 'change')} in {counted(len(changes), 'file')}")
    return [c.path for c in changes]


def show(report: output.Report, form: str, width: int, colour: bool) -> None:
    if form == "json":
        print(json.dumps(output.as_json(report), indent=1))
    elif form == "sarif":
        print(json.dumps(output.as_sarif(report), indent=1))
    elif form == "github":
        sys.stdout.write(output.as_github(report))
    else:
        sys.stdout.write(output.as_text(report, width, colour))
    if form != "json":
        for path, line, why in report.errors:
            say(f"{path}{f':{line}' if line else ''}: {why}")


def serve(options: argparse.Namespace) -> int:
    settings_of(options, config.Config())  # a wrong option is reported before an editor waits
    try:
        from . import lsp
    except ImportError as why:
        say(f"--lsp needs pygls 2 (no module '{why.name}'): pip install pygls")
        return MACHINE

    def settings(found: config.Config) -> Settings:
        try:
            return settings_of(options, config.Config() if options.no_config else found)
        except Usage as why:
            raise config.BadConfig(str(why)) from None

    lsp.serve(settings)
    return DONE


def explained(given: str, width: int) -> str:
    """What --explain prints of a rule."""
    rule = given.upper()
    if rule in RETIRED:
        return f"{rule} is retired and finds nothing: {RETIRED[rule]}.\n"
    if rule not in BY_ID:
        raise Usage(f"--explain: there is no rule '{given}' (plimsoll lint --rules lists them)")
    return output.explain(rule, min(width, 100))


def config_of(options: argparse.Namespace, first: str) -> config.Config:
    """The configuration that is named, or the nearest one of the first path."""
    if options.no_config:
        return config.Config()
    if options.config:
        return config.read(Path(options.config))
    path = Path(first)
    file = config.find(path.parent if path.is_file() else Path("." if first == "-" else first))
    return config.read(file) if file else config.Config()


def say_retired(settings: Settings) -> None:
    chosen = {*settings.select, *settings.extend_select, *settings.ignore, *(c for _, codes_ in settings.per_file_ignores for c in codes_)}
    for code in sorted(chosen & RETIRED.keys()):
        say(f"{code} is retired and finds nothing: {RETIRED[code]}")


def fail_on_of(options: argparse.Namespace, found: config.Config) -> str:
    fail_on: str = options.fail_on or found.fail_on or "warning"
    if fail_on not in (*SEVERITIES, "never"):
        raise Usage(f"{found.path}: fail-on '{fail_on}' is none of {', '.join(SEVERITIES)}, never")
    return fail_on


def join_measured(report: output.Report, options: argparse.Namespace, paths: list[str], exclude: list[str]) -> None:
    """Join the findings with the recordings and logs that are given.  All rules may explain a measurement, also those that are not shown without one."""
    widest = Settings(select=("PLM",), confidence=CONFIDENCES["low"])
    _, everything = lint_paths([p for p in paths if p != "-"], exclude, widest, options.stdin_filename, every=True)
    recordings = [join.read_recording(p, options.plimsoll) for p in options.recording] + [join.read_log(p, options.plimsoll) for p in options.log]
    join.join(report, everything, recordings, options.joined_only)


def leave_out_known(report: output.Report, options: argparse.Namespace, found: config.Config) -> None:
    """Leave out the findings of the baseline that is given or configured."""
    known = options.baseline or (str(Path(found.path).parent / found.baseline) if found.baseline else "")
    if known:
        fresh = baseline.new(report.findings, baseline.read(known))
        report.in_baseline = len(report.findings) - len(fresh)
        report.findings = fresh


def form_of(options: argparse.Namespace) -> str:
    """What to print: as it is asked for; without a word, annotations in GitHub's actions, else text."""
    if options.format:
        return str(options.format)
    if options.json:
        return "json"
    annotates = os.environ.get("GITHUB_ACTIONS") == "true" and not sys.stdout.isatty() and not options.redact
    return "github" if annotates else "text"


def code_of(report: output.Report, fail_on: str) -> int:
    """The exit code for what was found and what could not be read."""
    if report.errors:
        return INPUT
    failing = () if fail_on == "never" else SEVERITIES[:SEVERITIES.index(fail_on) + 1]
    return FOUND if any(f.severity in failing for f in report.findings) else DONE


def lint_command(options: argparse.Namespace, width: int) -> int:
    """Lint the paths, print what is found, and fix it if that is asked for."""
    paths = options.paths or ["."]
    found = config_of(options, paths[0])
    settings = settings_of(options, found)
    say_retired(settings)
    fail_on = fail_on_of(options, found)
    changed = baseline.changed(options.diff) if options.diff else None
    exclude = options.exclude + found.exclude
    report, results = lint_paths(paths, exclude, settings, options.stdin_filename)
    if options.recording or options.log:
        join_measured(report, options, paths, exclude)
    if options.write_baseline:
        baseline.write(options.write_baseline, report.findings)
        say(f"{options.write_baseline}: {counted(len(report.findings), 'finding')}")
        return INPUT if report.errors else DONE
    leave_out_known(report, options, found)
    if changed is not None:
        report.findings = [f for f in report.findings if baseline.touched(f, changed)]
    if options.fix:
        kept = {id(f) for f in report.findings}
        for result in results:
            result.findings = [f for f in result.findings if id(f) in kept]
        if mend(results, settings, options.unsafe_fixes, options.yes):
            report.findings = lint_paths(paths, exclude, settings, options.stdin_filename)[0].findings
    if options.redact:
        report = redact.redacted(report)
    show(report, form_of(options), min(max(width, 40), 500), sys.stdout.isatty() and not options.no_color and "NO_COLOR" not in os.environ)
    return code_of(report, fail_on)


def run(options: argparse.Namespace) -> int:
    if options.rules:
        sys.stdout.write(output.list_rules())
        return DONE
    width = options.width or (shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80)
    if options.explain:
        sys.stdout.write(explained(options.explain, width))
        return DONE
    if options.lsp:
        return serve(options)
    if options.redact and (options.fix or options.write_baseline or options.format in ("sarif", "github")):
        raise Usage("--redact is for text and JSON; not with --fix, --write-baseline, --format sarif or github, whose reader needs the names")
    return lint_command(options, width)


def command() -> None:
    """The script plimsoll-lint."""
    sys.exit(main())


def main(arguments: list[str] | None = None) -> int:
    try:
        return run(parser().parse_args(arguments))
    except (Usage, config.BadConfig) as why:
        say(str(why))
        return USAGE
    except (baseline.Unusable, join.Unusable) as why:
        say(str(why))
        return INPUT
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (what is left in the buffer goes nowhere)
        return INPUT
    except OSError as why:
        say(f"{why.filename or ''}: {why.strerror}")
        return INPUT
    except KeyboardInterrupt:
        return 130
    except MemoryError:
        say("out of memory")
        return MACHINE
