"""wheel_program.py PROGRAM LIBRARY OLDER OTHER: `plimsoll` of a wheel finds the library of its version, however it was installed.

LIBRARY is of the program's version, OLDER of another one, OTHER no library of a wheel.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM, LIBRARY, OLDER, OTHER = map(os.path.abspath, sys.argv[1:])
FOLDER = ".plimsoll_gpu.mesonpy.libs"


class Installed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = os.path.realpath(folder.name)
        self.program = self.put(PROGRAM, "bin", "plimsoll")

    def put(self, what, *place):
        path = os.path.join(self.root, *place)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return shutil.copy(what, path)

    def run_it(self, program=None, **env):
        return subprocess.run([program or self.program, "a b", ""], capture_output=True, text=True, env=env, cwd="/")

    def works(self, **how):
        done = self.run_it(**how)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "a b\n\n", ""))

    def test_schemes(self):
        for place in ("lib/python3.10/site-packages", "lib64/python3.14/site-packages", "lib/python3.13t/site-packages",
                      "lib/python3/dist-packages", "lib/pypy3.11/site-packages", "."):  # ".": pip install --target
            with self.subTest(place):
                path = self.put(LIBRARY, place, FOLDER, "libplimsoll.so")
                self.works()
                os.remove(path)

    def test_a_link_to_it(self):  # of pipx and uv
        self.put(LIBRARY, "lib/python3.12/site-packages", FOLDER, "libplimsoll.so")
        link = os.path.join(self.root, "elsewhere")
        os.symlink(self.program, link)
        self.works(program=link)

    def test_of_several_that_of_its_version(self):
        self.put(OLDER, "lib/python3.10/site-packages", FOLDER, "libplimsoll.so")
        self.put(LIBRARY, "lib/python3.12/site-packages", FOLDER, "libplimsoll.so")
        self.put(OTHER, "lib/python3.13/site-packages", FOLDER, "libplimsoll.so")
        self.works()
        self.works(PLIMSOLL_LIBRARY=OTHER)  # what Python was given
        self.works(PLIMSOLL_LIBRARY="/nowhere")

    def test_none(self):
        done = self.run_it()
        self.assertEqual((done.returncode, done.stdout), (4, ""))
        self.assertEqual(done.stderr, f"plimsoll: there is no libplimsoll.so in a package folder near '{self.program}'; install the wheel "
                                      "again, or set PLIMSOLL_LIBRARY to its libplimsoll.so\n")
        self.works(PLIMSOLL_LIBRARY=LIBRARY)
        old = self.put(OLDER, "lib/python3.10/site-packages", FOLDER, "libplimsoll.so")
        self.assertRegex(self.run_it().stderr, r"^plimsoll: '.*/libplimsoll\.so' is not of the wheel of Plimsoll \d")
        with open(old, "w") as f:
            f.write("no library")
        done = self.run_it()
        self.assertEqual(done.returncode, 4)
        self.assertRegex(done.stderr, r"^plimsoll: .*libplimsoll.so: .*; install the wheel again")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
