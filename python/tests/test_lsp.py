"""The language server, asked by pygls' own client over pipes; without pygls, what it says."""
import asyncio
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = os.environ.get("PLIMSOLL_SOURCE") or str(Path(__file__).resolve().parents[2])
SERVER = [sys.executable, "-m", "plimsoll.lint", "--lsp"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.path.join(SOURCE, "python")}
TEXT = """import torch
from torch import nn
model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
kept = []  # é𝄞
for x, y in loader:
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    "𝄞"; kept.append(loss)
"""


class Without(unittest.TestCase):
    def test_one_line_says_what_to_install(self):
        hidden = "import sys; sys.modules['pygls'] = None; from plimsoll.lint.cli import main; sys.exit(main(['--lsp']))"
        done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, env=ENVIRONMENT, check=False)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (4, 1), done.stderr)
        self.assertIn("pip install pygls", done.stderr)

    def test_a_wrong_option_is_told_at_once(self):
        done = subprocess.run([*SERVER, "--select", "PLM999"], capture_output=True, text=True, env=ENVIRONMENT, check=False)
        self.assertEqual(done.returncode, 2)


@unittest.skipUnless(importlib.util.find_spec("pygls"), "pygls is not installed")
class Served(unittest.TestCase):
    def talk(self, steps, *options):
        """Runs a client's steps against a server of its own; every message of findings is put into a queue."""
        from lsprotocol import types
        from pygls.lsp.client import LanguageClient

        async def run():
            client, told = LanguageClient("test", "0"), asyncio.Queue()

            @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
            def _(found):
                told.put_nowait(found)

            await client.start_io(*SERVER, *options, env=ENVIRONMENT)
            await client.initialize_async(types.InitializeParams(capabilities=types.ClientCapabilities()))
            client.initialized(types.InitializedParams())
            try:
                return await asyncio.wait_for(steps(client, told, types), 120)
            finally:
                await client.shutdown_async(None)
                client.exit(None)
                await client.stop()

        return asyncio.run(run())

    async def open(self, client, told, types, text, uri="file:///tmp/train.py"):
        client.text_document_did_open(types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "python", 1, text)))
        return await told.get()

    def test_findings_as_one_types_and_a_fix(self):
        async def steps(client, told, types):
            uri = "file:///tmp/train.py"
            first = await self.open(client, told, types, TEXT)
            found = first.diagnostics
            self.assertEqual([(d.code, d.severity) for d in found], [("PLM102", types.DiagnosticSeverity.Information)])
            # Columns are UTF-16 units: the character before takes two.
            self.assertEqual((found[0].range.start.line, found[0].range.start.character), (10, 10))
            asked = types.CodeActionParams(types.TextDocumentIdentifier(uri), found[0].range, types.CodeActionContext(diagnostics=found))
            action = (await client.text_document_code_action_async(asked))[0]
            self.assertTrue(action.is_preferred)
            (edit,) = action.edit.changes[uri]
            self.assertEqual((edit.new_text, edit.range.start.line, edit.range.start.character), (".detach()", 10, len('    "xx"; kept.append(loss')))

            async def change(text, version):
                client.text_document_did_change(types.DidChangeTextDocumentParams(
                    types.VersionedTextDocumentIdentifier(version=version, uri=uri), [types.TextDocumentContentChangeWholeDocument(text)]))
                return await told.get()

            broken = TEXT + "def "
            client.text_document_did_change(types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(version=2, uri=uri), [types.TextDocumentContentChangeWholeDocument(broken)]))
            # Half a line is no news: the next message is of the text after it.
            mended = await change(TEXT.replace("append(loss)", "append(loss.detach())"), 3)
            self.assertEqual((mended.version, len(mended.diagnostics)), (3, 0))
            back = await change(TEXT, 4)
            self.assertEqual(len(back.diagnostics), 1)
            client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))
            self.assertEqual(len((await told.get()).diagnostics), 0)

        self.talk(steps)

    def test_settings_of_the_project_and_of_the_command_line(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "pyproject.toml").write_text('[tool.plimsoll.lint]\nignore = ["PLM102"]\n')
            uri = Path(folder, "train.py").as_uri()

            async def steps(client, told, types):
                return len((await self.open(client, told, types, TEXT, uri)).diagnostics)

            self.assertEqual(self.talk(steps), 0)
            self.assertEqual(self.talk(steps, "--no-config"), 1)
            Path(folder, "pyproject.toml").write_text('[tool.plimsoll.lint]\nignore = ["PLM999"]\n')
            self.assertEqual(self.talk(steps), 1)  # a configuration that cannot be followed is said, and left out
            self.assertEqual(self.talk(steps, "--no-config", "--ignore", "PLM1"), 0)


if __name__ == "__main__":
    unittest.main()
