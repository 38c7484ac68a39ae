"""plimsoll.oom against a fake torch: failures known by every wording, retries that hold nothing, the exact batch size."""
import concurrent.futures
import contextlib
import gc
import logging
import os
import re
import sys
import tempfile
import types
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake"))
import torch  # noqa: E402  the fake one

import plimsoll  # noqa: E402
from plimsoll import _torch  # noqa: E402
from plimsoll.memory import Recorder  # noqa: E402
from plimsoll.oom._find import Search  # noqa: E402
from plimsoll.oom import (Restore, auto_batch_size, explain, find_batch_size, is_oom, oom_guard,  # noqa: E402
                          retry_on_oom)

MIB = 1 << 20
logging.getLogger("plimsoll").setLevel(logging.CRITICAL)


def cuda(mib):
    return torch.empty(mib << 18, device="cuda")


class WithCard(unittest.TestCase):
    def setUp(self):
        gc.collect()
        torch.card.available = torch.card.started = True
        torch.card.limit = torch.card.total
        torch.card.reset()
        torch._C._cuda_attach_out_of_memory_observer = torch.card.observers.append
        torch.calls.clear()
        _torch._attached = False
        _torch._peaks.clear()


def as_exception(line):
    """An exception of the class that a log's line names, with its text."""
    told = re.match(r"(?:([\w.]+)\.)?(\w*(?:Error|Exception))(?:: |$)(.*)", line, re.S)
    if not told:
        return RuntimeError(line)
    kind = type(told[2], (RuntimeError,), {"__module__": told[1] or "builtins"})
    return kind(told[3]) if told[3] else kind()


def whole(death, lines):
    """The line that a death was reported in: long ones are cut in the result."""
    line = lines[death.line - 1] if death.line and death.line <= len(lines) else ""
    at = line.find(death.text[:40])
    return line[at:] if at >= 0 and len(line) - at > len(death.text) else death.text


class Known(WithCard):
    def test_every_wording_that_why_knows(self):
        # Logs of the corpus of `why`: the line that says of each failure, as the text of an exception, is the same failure.
        import plimsoll

        folder = os.path.join(os.environ["PLIMSOLL_SOURCE"], "tests/messages")
        seen = set()
        for name in sorted(os.listdir(folder)):
            # odd ones are logs in other clothes, or need more than the text of the exception
            if not name.endswith(".txt") or name.startswith("odd_"):
                continue
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as f:
                lines = f.read().splitlines()
            for death in plimsoll.why(os.path.join(folder, name)).deaths:
                if death.kind in ("device", "budget", "host", "shared_memory") and death.text:
                    found = is_oom(as_exception(whole(death, lines)))
                    self.assertIsNotNone(found, (name, death.text))
                    self.assertEqual(found.kind, death.kind, (name, death.text))
                    seen.add(death.family)
        self.assertGreater(len(seen), 3, seen)

    def test_classes(self):
        self.assertEqual(is_oom(MemoryError()).kind, "host")
        self.assertEqual(is_oom(torch.OutOfMemoryError("odd words")).kind, "device")
        for other in (RuntimeError("shape mismatch"), KeyboardInterrupt(), ValueError("memory of an elephant"), OSError(28, "x")):
            self.assertIsNone(is_oom(other), other)

    def test_numbers(self):
        told = is_oom(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.11 GiB "
                                             "of which 1.25 GiB is free."))
        self.assertAlmostEqual(told.tried_bytes / 2**30, 2.5, delta=0.01)
        self.assertAlmostEqual(told.free_bytes / 2**30, 1.25, delta=0.01)

    def test_behind_another_exception(self):
        try:
            try:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            except torch.OutOfMemoryError as inner:
                raise RuntimeError("training failed") from inner
        except RuntimeError as error:
            self.assertEqual(is_oom(error).kind, "device")
        try:
            try:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            except torch.OutOfMemoryError:
                raise KeyError("x") from None
        except KeyError as error:
            self.assertIsNone(is_oom(error))

    def test_explain(self):
        self.assertIn("2.00 GiB", explain(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")))
        self.assertEqual(explain(ValueError("x")), "")


class Guard(WithCard):
    def test_the_verdict_is_a_note_and_the_error_goes_on(self):
        guard = oom_guard()
        with self.assertRaises(torch.OutOfMemoryError) as raised, guard:
            cuda(2000)
        self.assertEqual(len(raised.exception.args), 1)  # accelerate looks at this
        self.assertIn("plimsoll:", raised.exception.__notes__[0])
        self.assertEqual(guard.at_failure["requested_bytes"], 2000 * MIB)
        self.assertEqual(guard.error.kind, "device")

    def test_with_a_recorder_the_recording_is_explained(self):
        with tempfile.TemporaryDirectory() as folder, Recorder(folder):
            kept = cuda(700)
            with self.assertRaises(torch.OutOfMemoryError) as raised, oom_guard() as guard:
                cuda(700)
            self.assertTrue(guard.recording.exists())
            self.assertIn(str(guard.recording), raised.exception.__notes__[0])
            del kept

    def test_other_errors_are_left_alone(self):
        with self.assertRaises(ValueError) as raised, oom_guard():
            raise ValueError("x")
        self.assertFalse(hasattr(raised.exception, "__notes__"))


# ---- shapes of exceptions that keep tensors alive ----

def plain(n):
    big = cuda(n)
    return cuda(n + big.dim())


def deep(n, depth=5):
    big = cuda(n // 5)
    return deep(n, depth - 1) if depth else cuda(n + big.dim())


def generator(n):
    def batches():
        big = cuda(n)
        yield big
        yield cuda(n)
    return [b for b in batches()]


def chained(n):
    try:
        return plain(n)
    except torch.OutOfMemoryError as inner:
        raise RuntimeError("step failed") from inner


def context(n):
    try:
        return plain(n)
    except torch.OutOfMemoryError:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 MiB.")


def cycle(n):
    big = [cuda(n)]
    big.append(big)
    return plain(n)


def closure(n):
    big = cuda(n)

    def inner():
        return cuda(n), big
    return inner()


def in_with(n):
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: None)
        big = cuda(n)
        return big, cuda(n)


def in_finally(n):
    big = cuda(n)
    try:
        return cuda(n), big
    finally:
        big.dim()


def comprehension(n):
    return [cuda(n) for _ in range(3)]


def as_attribute(n):
    class Holder:
        pass
    holder = Holder()
    holder.big = cuda(n)
    return holder, cuda(n)


def in_thread(n):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(plain, n).result()


def error_in_local(n):
    try:
        return plain(n)
    except torch.OutOfMemoryError as error:
        kept = error
        raise kept


def loop_variable(n):
    for i in range(4):
        big = cuda(n)
        keep = big, cuda(n)
    return keep


def class_body(n):
    class Body:
        big = cuda(n)
        more = cuda(n)
    return Body


def async_function(n):
    import asyncio

    async def main():
        big = cuda(n)
        await asyncio.sleep(0)
        return big, cuda(n)
    return asyncio.run(main())


def as_default(n):
    def inner(big=cuda(n)):
        return big, cuda(n)
    return inner()


def in_dict(n):
    batch = {"x": cuda(n)}
    return batch, cuda(n)


def decorated(n):
    import functools

    @functools.lru_cache
    def load():
        return cuda(n)
    return load(), cuda(n)


def starred(n):
    first, *rest = cuda(n), 1, 2
    return first, rest, cuda(n)


SHAPES = [plain, deep, generator, chained, context, cycle, closure, in_with, in_finally, comprehension, as_attribute, in_thread,
          error_in_local, loop_variable, class_body, async_function, as_default, in_dict, decorated, starred]


class Retry(WithCard):
    def test_nothing_is_kept_whatever_the_exception_looks_like(self):
        self.assertEqual(len(SHAPES), 20)
        for shape in SHAPES:
            with self.subTest(shape.__name__):
                self.setUp()
                events = []
                done = retry_on_oom(shape, 640, on_retry=events.append)
                self.assertLess(done.size, 640)
                self.assertEqual([e.kept_bytes for e in events], [0] * len(events))
                del done
                gc.collect()
                self.assertEqual(torch.card.allocated, 0)

    def test_it_is_outside_of_the_except_block(self):
        def step(n):
            self.assertIsNone(sys.exc_info()[1])
            return plain(n)

        self.assertEqual(retry_on_oom(step, 1000).size, 511)

    def test_the_largest_size_that_fits(self):
        # It stopped at the first that fits, 8 of 12.
        failures = accelerates = 0
        for start in (1, 2, 3, 13, 64, 100):
            for most in range(1, start + 1):
                tried = []

                def step(n):
                    tried.append(n)
                    if n > most:
                        raise MemoryError
                    return n

                done = retry_on_oom(step, start)
                self.assertEqual((done.size, done.value, tried[-1]), (most, most, most), (start, tried))
                self.assertEqual([event.size for event in done.events], [n for n in tried if n > most])
                self.assertEqual([event.next_size for event in done.events], [b for a, b in zip(tried, tried[1:]) if a > most])
                self.assertLessEqual(len(done.events), start.bit_length())
                self.assertLessEqual(len(tried), 2 * start.bit_length() + 1)
                failures += len(done.events)
                size = start
                while size > most:
                    size, accelerates = int(size * 0.9), accelerates + 1
        self.assertLess(failures, accelerates * 0.8)

    def test_of_the_cards_memory_the_largest_size(self):
        # What the run before gave is let go of: else it takes the room of the next.
        for fixed, each in ((0, 1), (100, 7), (3, 64), (1000, 1), (0, 1000)):
            kept = cuda(fixed)
            most = (1024 - fixed) // each
            self.assertEqual(retry_on_oom(lambda n: [cuda(each) for _ in range(n)], 512).size, min(most, 512), (fixed, each))
            del kept

    def test_a_function_and_a_method_remember(self):
        tried = []

        class Job:
            def step(self, n):
                tried.append(n)
                if n > self.most:
                    raise MemoryError
                return n

        job, other = Job(), Job()
        job.most, other.most = 12, 5
        self.assertEqual([retry_on_oom(job.step, 64).size, retry_on_oom(other.step, 64).size], [12, 5])
        del tried[:]
        self.assertEqual([retry_on_oom(job.step, size).size for size in (64, 13, 12, 3, 64)], [12, 12, 12, 3, 12])
        self.assertEqual(tried, [12, 12, 12, 3, 12])
        job.most = 7  # a neighbour took memory
        self.assertEqual(retry_on_oom(job.step, 64).size, 7)
        job.most = 9
        self.assertEqual(retry_on_oom(job.step, 64).size, 7)
        self.assertEqual(retry_on_oom(job.step, 8).size, 7)

    def test_what_cannot_be_held_weakly_is_not_remembered(self):
        class Step:
            __slots__ = ("most",)

            def __call__(self, n):
                if n > self.most:
                    raise MemoryError
                return n

        step = Step()
        for step.most in (12, 30):
            self.assertEqual(retry_on_oom(step, 64).size, step.most)
        self.assertEqual(retry_on_oom(abs, 9).size, 9)

    def test_long_runs_are_not_repeated(self):
        tried = []

        def step(n):
            tried.append(n)
            if n > 12:
                raise MemoryError
            return n

        self.assertEqual(retry_on_oom(step, 64, repeat_s=0).size, 8)
        self.assertEqual(tried, [64, 32, 16, 8])
        self.assertEqual(retry_on_oom(step, 64).size, 12)  # goes on from there
        self.assertEqual(tried[4:], [8, 12, 14, 13, 12])

    def test_sizes_shrink_to_the_least_and_then_the_error_is_raised(self):
        tried = []

        def step(n):
            tried.append(n)
            cuda(5000)

        with self.assertRaises(torch.OutOfMemoryError):
            retry_on_oom(step, 20, min_size=3)
        self.assertEqual(tried, [20, 10, 5, 3])

    def test_other_errors_pass(self):
        with self.assertRaises(ValueError):
            retry_on_oom(lambda n: int("x"), 8)

    def test_state_is_restored(self):
        model = torch.nn.Module()
        model.weight = torch.nn.Parameter((4,), device="cuda")
        optimizer = torch.optim.Optimizer(model.parameters())
        optimizer.step()
        model.weight.grad = cuda(1)
        model.weight.grad._value = 3
        model.eval = lambda: setattr(model, "training", False)
        seen = []

        def step(n):
            seen.append((model.weight._value, model.weight.grad._value, optimizer.state[model.weight]["step"],
                         optimizer.state[model.weight]["exp_avg"]._value, torch.get_rng_state(), model.training))
            model.weight.grad._value += 1
            torch.set_rng_state(torch.get_rng_state() + 1)
            model.eval()
            optimizer.step()
            model.weight.grad = None
            plain(n)

        retry_on_oom(step, 1200, restore=Restore(model, optimizer))
        self.assertGreater(len(seen), 3)
        self.assertEqual(len(set(seen)), 1, seen)

    def test_auto_batch_size(self):
        @auto_batch_size(1000)
        def train(batch_size, epochs, *, name="x"):
            plain(batch_size)
            return batch_size, epochs, name

        self.assertEqual(train(3, name="y"), (511, 3, "y"))
        with self.assertRaisesRegex(ValueError, "leave it out"):
            train(batch_size=4, epochs=1)

        @auto_batch_size(starting_batch_size=4)
        def other(n):
            return n

        self.assertEqual(other(), 4)

    def test_the_size_that_worked_is_remembered(self):
        # Each call failed three times again.
        tried = []

        @auto_batch_size(64)
        def train(batch_size):
            tried.append(batch_size)
            plain(batch_size * 40)
            return batch_size

        self.assertEqual((train(), train(), train()), (12, 12, 12))
        self.assertEqual(tried, [64, 32, 16, 8, 12, 14, 13, 12, 12, 12])

    def test_nothing_of_torch_is_needed(self):
        # A step that fails in host memory: no GPU, no torch call.
        def step(n):
            if n > 8:
                raise MemoryError
            return n

        torch.card.started = False
        self.assertEqual(retry_on_oom(step, 64).value, 8)


class Find(WithCard):
    def loop(self, fixed, each, rounding=1, extra_from=None, layers=1):
        """A training step of fixed + each * n MiB, rounded up, more from a size on, in so many requests."""
        model = torch.nn.Module()
        model.weight = torch.nn.Parameter((fixed << 18,), device="cuda")
        model.forward = lambda tokens: None
        optimizer = torch.optim.Optimizer(model.parameters())

        def step(n):
            mib = -(-n * each // rounding) * rounding
            if extra_from and n >= extra_from:
                mib += 40
            activations = [torch.empty(int(mib / layers * 2**18), device="cuda") for _ in range(layers)]
            model.weight.grad = cuda(fixed)
            del activations
            optimizer.step()
            optimizer.zero_grad()

        return model, optimizer, step

    def exact(self, step):
        n = 0
        while True:
            try:
                step(n + 1)
                step(n + 1)
            except torch.OutOfMemoryError:
                return n
            n += 1

    def test_exact_with_few_failures(self):
        for fixed, each, rounding, extra in ((10, 13, 1, None), (100, 1, 1, None), (30, 7.5, 2, None), (5, 3, 16, None),
                                             (40, 11, 1, 30), (3, 100, 1, None), (50, 9, 20, 60)):
            with self.subTest(fixed=fixed, each=each, rounding=rounding, extra=extra):
                self.setUp()
                model, optimizer, step = self.loop(fixed, each, rounding, extra)
                found = find_batch_size(step, model=model, optimizer=optimizer)
                self.assertLessEqual(found.ooms, 3, found)
                self.assertLessEqual(found.runs, 14, found)
                self.assertTrue(found.exact)
                self.assertEqual((model.weight._value, optimizer.state, model.weight.grad), (0, {}, None))
                self.assertEqual(found.size, self.exact(step))

    def test_where_an_allocator_loses_little_what_fits_is_near_the_line(self):
        # A failure says what was allocated and refused: with lost memory that is the limit that counts.
        for lost, runs, learns in ((0.0, 5, True), (0.01, 6, True), (0.03, 6, True), (0.2, 7, True), (0.01, 14, False),
                                   (0.03, 14, False), (0.2, 14, False)):
            with self.subTest(lost=lost, learns=learns):
                search, taken = Search(1, 65536, 2 << 30), 0
                while not search.done():
                    size, taken = search.next(None), taken + 1
                    peak = (60 << 20) + size * (46 << 20)
                    room = int((2 << 30) / (1 + lost))
                    if peak <= room:
                        search.fits[size] = peak
                    else:
                        search.failed(size, *((room - (5 << 20), 10 << 20) if learns else ()))
                        search.ooms += 1
                self.assertEqual(search.best(), int(((2 << 30) / (1 + lost) - (60 << 20)) / (46 << 20)))
                self.assertLessEqual(taken, runs)
                self.assertLessEqual(search.ooms, 3)

    def test_multiples_limits_margins(self):
        model, optimizer, step = self.loop(10, 13)
        free = find_batch_size(step, model=model, optimizer=optimizer)
        eights = find_batch_size(step, model=model, optimizer=optimizer, multiple_of=8)
        self.assertEqual(eights.size, free.size // 8 * 8)
        margin = find_batch_size(step, model=model, optimizer=optimizer, margin=0.5)
        self.assertTrue(free.size * 0.4 < margin.size < free.size * 0.55, margin)
        limited = find_batch_size(step, model=model, optimizer=optimizer, limit_bytes=512 << 20)
        self.assertLess(limited.size, free.size)
        self.assertEqual(torch.card.limit, torch.card.total)
        self.assertEqual(find_batch_size(step, model=model, optimizer=optimizer, max_size=7).size, 7)

    def test_a_limit_that_is_not_free_memory(self):
        # With a fraction, a neighbour or MIG it climbed by one and gave up after 64 runs.
        def fraction(share):
            torch.cuda.set_per_process_memory_fraction(share)

        def silent(share):  # a PyTorch that does not say it, or someone else's limit
            torch.card.limit = int(torch.card.total * share)

        def mute(share):  # failures that PyTorch's observer does not see
            silent(share)
            torch._C._cuda_attach_out_of_memory_observer = lambda observer: None

        # Failures of one request of nearly all of it, and those that the observer does not see, say little: then it bisects.
        for limit, layers, runs in ((fraction, 1, 11), (fraction, 8, 14), (silent, 8, 16), (silent, 1, 20), (mute, 1, 20)):
            for share in (0.08, 0.23, 0.5, 0.97):
                with self.subTest(limit=limit.__name__, layers=layers, share=share):
                    self.setUp()
                    limit(share)
                    at = torch.card.limit
                    model, optimizer, step = self.loop(20, 0.25, layers=layers)
                    found = find_batch_size(step, model=model, optimizer=optimizer)
                    self.assertEqual(found.size, self.exact(step))
                    self.assertTrue(found.exact)
                    self.assertLessEqual(found.runs, runs, found)
                    self.assertEqual(torch.card.limit, at)

    def test_limit_bytes_is_no_more_than_the_limit_in_force(self):
        torch.cuda.set_per_process_memory_fraction(0.25)
        model, optimizer, step = self.loop(10, 3)
        found = find_batch_size(step, model=model, optimizer=optimizer, limit_bytes=512 * MIB)
        self.assertEqual((found.size, found.limit_bytes), (self.exact(step), 256 * MIB))
        self.assertEqual(torch.card.limit, 256 * MIB)

    def test_it_begins_where_the_plan_ends(self):
        # A model of transformers: sequence, precision and optimizer are seen in its first step.
        config = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 512, "vocab_size": 512}
        hint = plimsoll.plan(config, seq=256, precision="fp32", optimizer="adamw", max_batch=True, memory=1 << 30, allowance=0).max_batch
        self.assertGreater(hint, 100)
        model, _, step = self.loop(10, 3)
        model.config = types.SimpleNamespace(to_dict=lambda: config)
        tried = []

        class AdamW(torch.optim.Optimizer):
            pass

        optimizer = AdamW(model.parameters())

        def run(n):
            model(torch.empty(n, 256, dtype=torch.int64))
            tried.append(n)
            step(n)

        found = find_batch_size(run, model=model, optimizer=optimizer)
        self.assertEqual(tried[:3], [1, 1, hint])
        self.assertEqual((found.size, found.exact), (find_batch_size(step, model=model).size, True))
        self.assertEqual(model._before, [])
        tried.clear()
        find_batch_size(run, model=model, optimizer=torch.optim.Optimizer(model.parameters()))  # not known: no seed
        self.assertEqual(tried[:3], [1, 1, 2])

    def test_a_size_that_never_fits_is_the_failure_itself(self):
        with self.assertRaises(torch.OutOfMemoryError):
            find_batch_size(lambda n: cuda(4000))


class Spelled(unittest.TestCase):
    def test_decorators_without_parentheses(self):
        # @auto_batch_size without parentheses compared a function with a number; retry_on_oom and oom_guard raised TypeErrors.
        @auto_batch_size
        def train(batch_size, epochs):
            return batch_size * epochs

        self.assertEqual(train(2), 256)
        for wrong, said in ((lambda: retry_on_oom(len), r"retry_on_oom\(step, 64\)"), (lambda: retry_on_oom(64), "not a decorator"),
                            (lambda: oom_guard(len), r"@oom_guard\(\)"), (lambda: auto_batch_size("64"), r"@auto_batch_size\(64\)")):
            with self.assertRaisesRegex(plimsoll.errors.ArgumentError, said):
                wrong()

    def test_a_guard_in_front_of_a_function(self):
        @oom_guard()
        def fails(at):
            raise MemoryError(f"at {at}")

        for at in (1, 2):
            with self.assertRaisesRegex(MemoryError, f"at {at}") as failed:
                fails(at)
            self.assertEqual(len(failed.exception.__notes__), 1)
        self.assertEqual(fails.__name__, "fails")

        async def later():
            pass

        with self.assertRaises(plimsoll.errors.ArgumentError):
            oom_guard()(later)

    def test_a_result_is_one_line(self):
        # A Retried was 700 characters: the text of each failure, and all of the value.
        def step(size):
            if size > 8:
                raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB. " + "x" * 500 + "\nand\nmore")
            return list(range(10000))

        done = retry_on_oom(step, 64, repeat_s=0)
        self.assertEqual(repr(done), "Retried(size=8, value=<list>, 3 attempts out of memory)")
        self.assertLess(len(repr(done.events[0])), 200)
        self.assertNotIn("\n", repr(done.events[0]))
        self.assertEqual(repr(retry_on_oom(lambda n: 2.5, 4)), "Retried(size=4, value=2.5, 0 attempts out of memory)")


if __name__ == "__main__":
    unittest.main()
