"""The package as such: lazy, and of one mind with the C library's headers."""
import ctypes
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["PLIMSOLL_SOURCE"]


def python(code: str, **env: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True,
                          env=dict(os.environ, **env)).stdout.strip()


class Package(unittest.TestCase):
    def test_import_loads_nothing(self):
        loaded = set(python("import sys; before = set(sys.modules); import plimsoll; "
                            "print(*sorted(set(sys.modules) - before))").split())
        self.assertIn("plimsoll", loaded)
        self.assertEqual({name for name in loaded if name.startswith("plimsoll.")}, set())
        self.assertEqual(loaded & {"typing", "ctypes", "torch", "numpy", "json", "subprocess", "threading", "dataclasses"}, set())

    def test_import_time(self):
        # Ceiling 50 ms (aim 15) of processor time, or on a machine that is slow just now what `import inspect` takes there.
        def least(module: str) -> float:
            return min(float(python(f"import time; t = time.process_time(); import {module}; print(time.process_time() - t)"))
                       for _ in range(3))

        self.assertLess(least("plimsoll"), max(0.050, least("inspect")))

    def test_checkout_without_a_build_says_make(self):
        # What the build makes of the headers is not in git; the linter needs none of it.
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(SOURCE, "python/plimsoll"), os.path.join(folder, "plimsoll"),
                            ignore=shutil.ignore_patterns("_abi.py", "_results.py", "__pycache__"))
            for code in ("import plimsoll; plimsoll.report('x')", "from plimsoll.verbs import report", "import plimsoll.data",
                         "import plimsoll; plimsoll.doctor()", "from plimsoll.training import EarlyStopping"):
                said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                                      env=dict(os.environ, PYTHONPATH=folder)).stderr.splitlines()[-1]
                self.assertEqual(said, f"ImportError: '{folder}/plimsoll' is not built: run `make` in this checkout of Plimsoll", code)
            python("import plimsoll.lint.cli", PYTHONPATH=folder)

    def test_an_editable_install_finds_its_library(self):
        # meson-python serves _abi.py from the build folder, in which the library lies, too.
        from unittest import mock

        from plimsoll import _abi, _native

        with tempfile.TemporaryDirectory() as folder, mock.patch.object(_abi, "__file__", folder + "/_abi.py"), \
                mock.patch.dict(os.environ):
            os.environ.pop("PLIMSOLL_LIBRARY", None)
            self.assertNotIn(folder + "/libplimsoll.so", _native.places())
            open(folder + "/libplimsoll.so", "wb").close()
            self.assertIn(folder + "/libplimsoll.so", _native.places())

    def test_full_disk_is_no_missing_file(self):
        # A full disk raised NotFoundError.
        import errno

        from plimsoll import _abi, _native
        from plimsoll.errors import NotFoundError, StorageError

        for number in (errno.ENOSPC, errno.EFBIG, errno.EROFS, errno.EDQUOT):
            with self.assertRaises(StorageError) as caught:
                _native.check(-3, _abi.plim_err(native=number, message=b"cannot get room"))
            self.assertEqual(caught.exception.errno, number)
            self.assertIsInstance(caught.exception, OSError)
            self.assertNotIsInstance(caught.exception, NotFoundError)
        with self.assertRaises(NotFoundError):
            _native.check(-3, _abi.plim_err(native=errno.ENOENT, message=b"cannot open"))

    def test_every_name_is_there(self):
        import plimsoll

        for name, home in plimsoll._WHERE.items():
            module = importlib.import_module("plimsoll." + home)
            self.assertTrue(name == home or hasattr(module, name), name)
            self.assertIs(getattr(plimsoll, name), module if name == home else getattr(module, name))
        with self.assertRaises(AttributeError):
            plimsoll.no_such_name

    def test_version_is_the_library_s(self):
        import plimsoll
        from plimsoll import _native
        from plimsoll.lint import __version__ as of_lint

        self.assertEqual(_native.load().plim_version().decode(), plimsoll.__version__)
        self.assertEqual(of_lint, plimsoll.__version__)

    def test_layout_is_the_compiler_s(self):
        # tests/abi.txt is what the C compiler says; offsets and sizes of the ctypes structs must be the same.
        from plimsoll import _abi

        structs = 0
        with open(os.path.join(SOURCE, "tests/abi.txt")) as f:
            for line in f:
                words = line.split()
                if not line.startswith("struct ") or len(words) not in (3, 4) or not words[-1].isdigit():
                    continue
                name, _, member = words[1].partition(".")
                struct = getattr(_abi, name, None)
                if not isinstance(struct, type):
                    continue
                if member:
                    field = getattr(struct, member)
                    self.assertEqual([field.offset, field.size], [int(words[2]), int(words[3])], line)
                else:
                    structs += 1
                    self.assertEqual(ctypes.sizeof(struct), int(words[2]), line)
        self.assertGreater(structs, 10)

    def test_every_function_of_the_headers_is_in_the_library(self):
        from plimsoll import _abi, _native

        library = _native.load()
        self.assertEqual([name for name in _abi.PROTOTYPES if not hasattr(library, name)], [])

    def test_until_it_is_published_documents_say_pip_install_dot(self):
        # The name plimsoll on the index is someone else's: whoever followed such a line would run a stranger's code.
        found = []
        for folder in ("", "docs", "examples", "cli", "python", "tools", "samples"):
            for at, folders, names in os.walk(os.path.join(SOURCE, folder)):
                folders[:] = [] if not folder else [name for name in folders if name != "tests"]
                for name in names:
                    with open(os.path.join(at, name), encoding="utf-8", errors="replace") as f:
                        if re.search(r"pip3? install (-\S+ )*[\"']?plimsoll", f.read()):
                            found.append(os.path.relpath(os.path.join(at, name), SOURCE))
        self.assertEqual(found, [])

    def test_a_library_of_another_version_is_refused(self):
        out = python("import plimsoll._version as a; a.__version__ = '9.9'; import plimsoll\n"
                     "try: plimsoll.here()\nexcept plimsoll.PlimsollError as e: print(e)")
        self.assertIn("this package is 9.9", out)

    def test_a_missing_library_says_what_to_do(self):
        out = python("import plimsoll\ntry: plimsoll.here()\nexcept plimsoll.PlimsollError as e: print(e)",
                     PLIMSOLL_LIBRARY="/nowhere.so")
        self.assertIn("pip install .", out)


if __name__ == "__main__":
    unittest.main()
