"""`plimsoll lint --lsp`: a language server on standard input and output.

Findings are shown as the text is typed, with their severities; a fix is a code action.  pygls speaks the protocol;
nothing else of the linter needs it.
"""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.workspace import PositionCodec, TextDocument

from . import __version__, config
from .engine import Settings, lint_text
from .finding import Edit, Finding
from .source import LARGEST_BYTES, Unreadable

SettingsOf = Callable[[config.Config], Settings]  #: the command line's settings over those of a pyproject.toml

_SEVERITIES = {"error": types.DiagnosticSeverity.Error, "warning": types.DiagnosticSeverity.Warning, "info": types.DiagnosticSeverity.Information}


class Server:
    """The findings of each open file, as of its text now."""

    def __init__(self, settings_of: SettingsOf) -> None:
        self.spoken = LanguageServer("plimsoll lint", __version__)
        self.settings_of = settings_of
        self.found: dict[str, tuple[str, list[Finding]]] = {}  #: URI -> the text that was linted, its findings

    def settings(self, path: str) -> Settings:
        """Of the command line and the nearest pyproject.toml; without the latter where it cannot be read."""
        file = config.find(Path(path).parent)
        try:
            return self.settings_of(config.read(file) if file else config.Config())
        except config.BadConfig as why:
            self.spoken.window_show_message(types.ShowMessageParams(types.MessageType.Warning, f"plimsoll lint: {why}"))
            return self.settings_of(config.Config())

    def lint(self, uri: str) -> None:
        document = self.spoken.workspace.get_text_document(uri)
        text = document.source.replace("\r\n", "\n").replace("\r", "\n")
        findings: list[Finding] = []
        try:
            if len(text) <= LARGEST_BYTES:
                findings = lint_text(document.path or uri, text, self.settings(document.path or uri)).findings
        except Unreadable:
            if uri in self.found:
                return  # in the midst of a word: what was found last stays
        self.found[uri] = (text, findings)
        self.spoken.text_document_publish_diagnostics(types.PublishDiagnosticsParams(
            uri=uri, version=document.version, diagnostics=[diagnostic(document, f) for f in findings]))


def diagnostic(document: TextDocument, finding: Finding) -> types.Diagnostic:
    place = finding.place
    lines, codec = document.lines, document.position_codec
    start = codec.position_to_client_units(lines, types.Position(place.line - 1, place.column - 1))
    end = codec.position_to_client_units(lines, types.Position(place.end_line - 1, place.end_column - 1))
    cost = [f"such a mistake cost {finding.cost.text} in a program that was measured"] if finding.cost is not None and finding.cost.text else []
    return types.Diagnostic(types.Range(start, end), "\n".join([finding.title, *finding.evidence, *cost, *finding.fix]),
                            _SEVERITIES[finding.severity], code=finding.id, source="plimsoll")


def text_edit(text: str, codec: PositionCodec, edit: Edit) -> types.TextEdit:
    """Offsets in the whole text to the client's lines and columns."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def position(offset: int) -> types.Position:
        line = bisect_right(starts, offset) - 1
        return codec.position_to_client_units(lines, types.Position(line, offset - starts[line]))

    return types.TextEdit(types.Range(position(edit.start), position(edit.end)), edit.text)


def actions(server: Server, asked: types.CodeActionParams) -> list[types.CodeAction]:
    """The fixes of the findings in a range: those of --fix are preferred, the others say what they are."""
    text, findings = server.found.get(asked.text_document.uri, ("", []))
    document = server.spoken.workspace.get_text_document(asked.text_document.uri)
    if document.source.replace("\r\n", "\n").replace("\r", "\n") != text:
        return []  # it was changed since
    made = []
    for finding in findings:
        if finding.edits and finding.place.line - 1 <= asked.range.end.line and finding.place.end_line - 1 >= asked.range.start.line:
            edits = [text_edit(text, document.position_codec, e) for e in finding.edits]
            made.append(types.CodeAction(
                f"{finding.id}: fix" + ("" if finding.fix_is_safe else " (may change what the program does)"), kind=types.CodeActionKind.QuickFix,
                diagnostics=[diagnostic(document, finding)], is_preferred=finding.fix_is_safe, edit=types.WorkspaceEdit({asked.text_document.uri: edits})))
    return made


def serve(settings_of: SettingsOf) -> None:
    """Serve until the client ends it."""
    server = Server(settings_of)

    def close(given: types.DidCloseTextDocumentParams) -> None:
        server.found.pop(given.text_document.uri, None)
        server.spoken.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=given.text_document.uri, diagnostics=[]))

    def changed(given: types.DidOpenTextDocumentParams | types.DidChangeTextDocumentParams) -> None:
        server.lint(given.text_document.uri)

    def fixes(given: types.CodeActionParams) -> list[types.CodeAction]:
        return actions(server, given)

    server.spoken.feature(types.TEXT_DOCUMENT_DID_OPEN)(changed)
    server.spoken.feature(types.TEXT_DOCUMENT_DID_CHANGE)(changed)
    server.spoken.feature(types.TEXT_DOCUMENT_DID_CLOSE)(close)
    server.spoken.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions([types.CodeActionKind.QuickFix]))(fixes)
    server.spoken.start_io()
