"""precision_test() answers yes or no, and dropout does not make the answer: both runs drop the same values."""
import importlib.util
import random
import sys
import unittest

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: there is no PyTorch here; tools/venv.sh makes an environment with one", file=sys.stderr)
    sys.exit(77)

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from plimsoll.errors import ArgumentError  # noqa: E402
from plimsoll.gradients import precision_test  # noqa: E402


def texture(x):
    """The function of the guides."""
    return (x.sin() * 3).cumsum(-1)


class Precision(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.batch = torch.randn(4, 64)

    def test_yes_or_no_with_the_largest_and_the_mean_difference(self):
        result = precision_test(texture, self.batch, atol=1e-3)
        self.assertFalse(result)
        self.assertIs(result.ok, False)
        wanted, low = texture(self.batch), texture(self.batch.bfloat16()).float()
        [output] = result.outputs
        self.assertAlmostEqual(output.largest, float((wanted - low).abs().max()), places=6)
        self.assertAlmostEqual(output.mean, float((wanted - low).abs().mean()), places=6)
        self.assertEqual((output.values, output.outside), (256, int(((wanted - low).abs() > 1e-3).sum())))
        self.assertTrue(str(result).startswith(f"no: {output.outside} of 256 values are not within 0.001 + 0 * |value| of float32"))
        self.assertIn(f"differs by {output.largest:.3g} at most, {output.mean:.3g} on average", str(result))
        self.assertTrue(precision_test(texture, self.batch, atol=1.0))
        self.assertRegex(str(precision_test(texture, self.batch, atol=0.5, rtol=0.1)), "^yes: all 256 values are within 0.5 ")

    def test_without_tolerances_there_is_no_yes(self):
        result = precision_test(texture, self.batch)
        self.assertIsNone(result.ok)
        with self.assertRaisesRegex(ArgumentError, "atol=, rtol="):
            bool(result)
        with self.assertRaisesRegex(ArgumentError, "0 or more"):
            precision_test(texture, self.batch, atol=-1.0)

    def test_what_is_not_exercised_is_not_a_yes(self):
        result = precision_test(lambda x: x.double().sin(), self.batch, cast=False, atol=1.0)
        self.assertEqual((result.exercised, result.ok, bool(result)), (False, None, False))

    def test_values_that_are_infinite_in_the_lower_run_alone_are_outside(self):
        result = precision_test(lambda x: x.abs() * 1e5 + 1e5, self.batch, dtype=torch.float16, atol=1e9, rtol=1.0)
        self.assertEqual((bool(result), result.outputs[0].outside), (False, 256))
        both = precision_test(lambda x: torch.full_like(x, float("inf")) * x.abs().clamp(min=1), self.batch, atol=1.0)
        self.assertTrue(both)

    def test_dropout_and_noise_draw_the_same_numbers(self):
        fast = nn.Sequential(nn.Linear(64, 512), nn.Dropout(0.5), nn.Linear(512, 8), nn.Dropout(0.3))
        functions = {
            "dropout": lambda x: functional.dropout(x, 0.5), "rand": lambda x: x + torch.rand(x.shape, dtype=x.dtype),
            "randn_like": lambda x: x + torch.randn_like(x), "normal_": lambda x: x + torch.empty_like(x).normal_(),
            "bernoulli": lambda x: x * torch.bernoulli(torch.full_like(x, 0.5)), "randint": lambda x: x + torch.randint(0, 9, x.shape),
            "fused": lambda x: torch.native_dropout(x, 0.5, True)[0], "alpha": lambda x: functional.alpha_dropout(x, 0.4, training=True),
            "python": lambda x: x * random.random(), "gumbel": lambda x: functional.gumbel_softmax(x), "model": fast,
            "own generator": lambda x: x + torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(3))}
        for name, fn in functions.items():
            with self.subTest(name):
                for cast in (True, False):
                    result = precision_test(fn, self.batch, cast=cast, atol=0.05, rtol=0.05)
                    if result.exercised:
                        self.assertTrue(result, result)
        # A value that was dropped in one run alone would differ by all of itself.
        self.assertLess(precision_test(functions["dropout"], self.batch).outputs[0].relative, 0.01)

    def test_the_difference_of_a_module_of_its_own_has_the_same_numbers_too(self):
        result = precision_test(nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5), nn.Linear(64, 64)), self.batch)
        self.assertLess(result.modules[1].own, 0.01)

    def test_generators_are_afterwards_as_they_were(self):
        before = random.getstate(), torch.get_rng_state()
        precision_test(lambda x: functional.dropout(x) * random.random(), self.batch)
        self.assertEqual(random.getstate(), before[0])
        self.assertTrue(torch.equal(torch.get_rng_state(), before[1]))


if __name__ == "__main__":
    unittest.main()
