"""SampleCache over the samples of vision-language models: pictures with their questions, and what else data sets give."""
import importlib.util
import os
import sys
import tempfile
import unittest

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: there is no PyTorch here; tools/venv.sh makes an environment with one", file=sys.stderr)
    sys.exit(77)

import torch  # noqa: E402

from plimsoll.data import SampleCache, StaleCacheError  # noqa: E402
from plimsoll.errors import ArgumentError, FormatError, UnsupportedError  # noqa: E402

numpy = __import__("numpy") if importlib.util.find_spec("numpy") else None
Image = importlib.import_module("PIL.Image") if importlib.util.find_spec("PIL") else None
WORDS = ["", "a", "what is on the picture?", "ÄÖ 図 \U0001f600", "\ud800 half a pair", "nul \0 inside"]


class Questions:
    """A picture and what is asked about it."""

    def __init__(self, n=40):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i >= self.n:
            raise IndexError(i)
        return torch.full((3, 8, 8), float(i)), WORDS[i % len(WORDS)] * (i // 6)


class Everything(Questions):
    def __getitem__(self, i):
        sample = {"image": torch.full((2, 2), i), "question": f"question {i}", "raw": bytes(range(i % 7)), "mask": None, "answer": i}
        if numpy is not None:
            sample["array"] = numpy.full((2, 3), i, numpy.int16)
        return sample


class Pictures(Questions):
    mode = "RGB"

    def __getitem__(self, i):
        if i >= self.n:
            raise IndexError(i)
        size = 5 + i % 3, 4
        channels = len(Image.new(self.mode, (1, 1)).tobytes())
        return Image.frombytes(self.mode, size, bytes((i + k) % 251 for k in range(size[0] * size[1] * channels))), f"picture {i}"


class Samples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "a.samples")

    def test_pictures_and_questions(self):
        # A text was refused: UnsupportedError, "is a builtins.str".
        source = Questions()
        for workers in (0, 2):
            cache = SampleCache(source, self.path, workers=workers)
            for i in range(len(source)):
                self.assertEqual(cache[i][1], source[i][1])
                self.assertTrue(torch.equal(cache[i][0], source[i][0]))
            os.remove(self.path)

    def test_batches_are_those_of_a_data_loader(self):
        source = Everything(23)
        cache = SampleCache(source, self.path)
        without = [{name: one for name, one in source[i].items() if name != "mask"} for i in range(len(source))]
        wanted = list(torch.utils.data.DataLoader(without, batch_size=4))
        for batches in (cache.batches(4), [cache.batches(4).collate_fn([cache[i] for i in range(at, min(at + 4, 23))]) for at in range(0, 23, 4)]):
            seen = list(batches)
            self.assertEqual(len(seen), len(wanted))
            for one, other in zip(seen, wanted):
                self.assertIsNone(one.pop("mask"))
                self.assertEqual(list(one), list(other))
                for name in other:
                    if isinstance(other[name], list):
                        self.assertEqual(one[name], other[name])
                    else:
                        self.assertTrue(torch.equal(one[name], other[name]), name)
        shuffled = [x for batch in cache.batches(5, shuffle=3) for x in zip(batch["answer"].tolist(), batch["question"])]
        self.assertEqual(sorted(shuffled), [(i, f"question {i}") for i in range(23)])

    def test_texts_of_a_batch_for_a_gpu_come_from_the_file(self):
        cache = SampleCache(Everything(9), self.path)
        kinds = {i: kind for i, kind in cache.batches(2)._texts.items()}
        self.assertEqual(sorted(kinds.values()), ["bytes", "text"])
        for number in range(9):
            self.assertEqual(sorted(cache._samples.rows_of_bytes(number, kinds).values(), key=str),
                             sorted([bytes(range(number % 7)), f"question {number}"], key=str))

    def test_a_stale_text_is_found(self):
        SampleCache(Questions(), self.path, lambda sample: (sample[0], sample[1] + "!"), fingerprint="one")
        with self.assertRaisesRegex(StaleCacheError, r"'\[1\]' is uint8 \[\d+\] and uint8 \[\d+\]"):
            SampleCache(Questions(), self.path, lambda sample: (sample[0], sample[1] + "??"), fingerprint="one")
        with self.assertRaisesRegex(StaleCacheError, r"'\[1\]' differs in 1 of"):
            SampleCache(Questions(), self.path, lambda sample: (sample[0], sample[1] + "?"), fingerprint="one")

    def test_a_none_that_comes_and_goes_is_refused(self):
        with self.assertRaisesRegex(ArgumentError, "sample 1 is another tree"):
            SampleCache([(1, None), (1, "x")], self.path)

    @unittest.skipIf(Image is None, "there is no Pillow here")
    def test_pictures_of_pil(self):
        for mode in ("L", "LA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB", "I", "F", "I;16"):
            with self.subTest(mode):
                source = Pictures()
                source.mode = mode
                cache = SampleCache(source, self.path)
                for i in range(len(source)):
                    picture, text = cache[i]
                    wanted, words = source[i]
                    self.assertEqual((picture.mode, picture.size, picture.tobytes(), text), (mode, wanted.size, wanted.tobytes(), words))
                pictures, texts = next(iter(cache.batches(3)))
                self.assertEqual([tuple(one.shape[:2]) for one in pictures], [(4, 5), (4, 6), (4, 7)])
                self.assertEqual(texts, ["picture 0", "picture 1", "picture 2"])
                again, _ = cache.batches(3).collate_fn([cache[i] for i in range(3)])
                self.assertTrue(all(torch.equal(a, b) or mode == "F" for a, b in zip(pictures, again)))
                os.remove(self.path)
        source = Pictures()
        source.mode = "P"
        with self.assertRaisesRegex(UnsupportedError, r"picture of mode P; x.convert\('RGB'\)"):
            SampleCache(source, self.path)

    @unittest.skipIf(Image is None, "there is no Pillow here")
    def test_another_mode_is_stale(self):
        SampleCache(Pictures(), self.path, lambda sample: sample[0].convert("L"), fingerprint="one")
        with self.assertRaisesRegex(StaleCacheError, "its tree"):
            SampleCache(Pictures(), self.path, lambda sample: sample[0].convert("RGB"), fingerprint="one")

    def test_a_file_whose_tree_lies_is_refused(self):
        SampleCache([(torch.zeros(3, dtype=torch.int32), 1)] * 3, self.path, fingerprint="one")
        for kind in ("pil:L", "text", "bytes"):
            cache = SampleCache.__new__(SampleCache)
            cache._open(self.path, "never")
            cache._node["tuple"][0]["leaf"] = kind
            with self.assertRaises(FormatError):
                cache[0]


if __name__ == "__main__":
    unittest.main()
