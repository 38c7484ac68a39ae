"""TrainingMonitor and EarlyStopping inside real trainers: transformers' Trainer, Lightning's Trainer, and two processes of gloo.

Skipped, loudly, what cannot be imported; tools/venv.sh makes an environment that can.
"""
import contextlib
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: there is no PyTorch here; tools/venv.sh makes an environment with one", file=sys.stderr)
    sys.exit(77)

import torch  # noqa: E402

from plimsoll.errors import ArgumentError  # noqa: E402
from plimsoll.training import EarlyStopping, TrainingMonitor  # noqa: E402

DIES_AT = 30  # the step whose loss is the first NaN
STEPS = 80


def has(name):
    return unittest.skipUnless(importlib.util.find_spec(name), f"there is no {name} here")


class Model(torch.nn.Module):
    """A line; its loss is NaN from the call DIES_AT on."""

    def __init__(self, dies_at=DIES_AT):
        super().__init__()
        self.line = torch.nn.Linear(4, 1)
        self.calls, self.dies_at = 0, dies_at

    def forward(self, x, labels=None):
        out = self.line(x)
        loss = torch.nn.functional.mse_loss(out, labels)
        if self.training:
            self.calls += 1
            if self.calls >= self.dies_at:
                loss = loss * float("nan")
        return {"loss": loss, "logits": out}


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4 * STEPS

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        x = torch.randn(4, generator=generator)
        return {"x": x, "labels": x.sum(0, keepdim=True)}


@has("transformers")
class Transformers(unittest.TestCase):
    def trainer(self, folder, model, monitor, **more):
        from transformers import Trainer, TrainingArguments
        from transformers.trainer_callback import PrinterCallback, ProgressCallback

        args = TrainingArguments(folder, per_device_train_batch_size=4, max_steps=STEPS, logging_steps=1, report_to=[],
                                 use_cpu=True, disable_tqdm=True, save_steps=20, learning_rate=0.01,
                                 logging_nan_inf_filter=False, **more)
        trainer = Trainer(model, args, train_dataset=Rows(), eval_dataset=Rows(), callbacks=[monitor.transformers_callback()])
        trainer.remove_callback(PrinterCallback)
        trainer.remove_callback(ProgressCallback)
        return trainer

    def test_stops_at_nan(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as said:
            monitor = TrainingMonitor()
            trainer = self.trainer(folder, Model(), monitor)
            trainer.train()
        self.assertEqual(trainer.state.global_step, DIES_AT)
        self.assertEqual([(f.id, f.step) for f in monitor.findings if f.series == "loss"], [("nan", float(DIES_AT))])
        self.assertIn(f"plimsoll: error: nan: 'loss' is NaN at step {DIES_AT}", said.getvalue())

    def test_resumes_with_what_it_knew(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            monitor = TrainingMonitor(stop_on=())
            self.trainer(folder, Model(dies_at=10 ** 9), monitor).train()
            again = TrainingMonitor(stop_on=())
            trainer = self.trainer(folder, Model(dies_at=10 ** 9), again, restore_callback_states_from_checkpoint=True)
            trainer.train(resume_from_checkpoint=os.path.join(folder, "checkpoint-40"))
        # As if nothing had been between: what came before step 40 is known, each step once.
        self.assertEqual(trainer.state.global_step, STEPS)
        self.assertEqual(again.state_dict(), monitor.state_dict())

    def test_early_stopping(self):
        with tempfile.TemporaryDirectory() as folder:
            stopping = EarlyStopping(patience=2, min_delta=1e9)
            trainer = self.trainer(folder, Model(dies_at=10 ** 9), stopping, eval_strategy="steps", eval_steps=10)
            trainer.train()
            self.assertEqual((trainer.state.global_step, stopping.best_step, stopping.wait), (30, 10, 2))
            again = EarlyStopping(patience=2, min_delta=1e9)
            trainer = self.trainer(folder, Model(dies_at=10 ** 9), again, eval_strategy="steps", eval_steps=10,
                                   restore_callback_states_from_checkpoint=True)
            trainer.train(resume_from_checkpoint=os.path.join(folder, "checkpoint-20"))
            self.assertEqual(repr(again.state_dict()), repr(stopping.state_dict()))  # NaN is not equal to itself
            trainer.remove_callback(trainer.callback_handler.callbacks[-1])
            trainer.add_callback(EarlyStopping().transformers_callback("eval_wer"))
            with self.assertRaisesRegex(ArgumentError, "no 'eval_wer' was evaluated; there is .*eval_loss"):
                trainer.evaluate()


@has("lightning")
class Lightning(unittest.TestCase):
    def fit(self, monitor, model, folder, **more):
        import logging

        import lightning

        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
        module = lightning.LightningModule()
        module.model = model

        def training_step(batch, batch_idx):
            loss = model(**batch)["loss"]
            module.log("train_loss", loss)
            return loss

        def validation_step(batch, batch_idx):
            module.log("val_loss", model(**batch)["loss"])

        module.training_step, module.validation_step = training_step, validation_step
        module.configure_optimizers = lambda: torch.optim.SGD(model.parameters(), 0.01)
        trainer = lightning.Trainer(max_epochs=1, log_every_n_steps=1, callbacks=[monitor.lightning_callback()], logger=False,
                                    enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
                                    default_root_dir=folder, enable_checkpointing=False, val_check_interval=10, **more)
        loader = torch.utils.data.DataLoader(Rows(), batch_size=4)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            trainer.fit(module, loader, torch.utils.data.DataLoader(Rows(), batch_size=64))
        return trainer, said.getvalue()

    def test_stops_at_nan(self):
        with tempfile.TemporaryDirectory() as folder:
            monitor = TrainingMonitor()
            trainer, said = self.fit(monitor, Model(), folder)
        self.assertIn(trainer.global_step, (DIES_AT, DIES_AT + 1))
        self.assertIn("plimsoll: error: nan: 'train_loss' is NaN", said)
        self.assertEqual({f.id for f in monitor.findings if f.series == "train_loss"}, {"nan"})

    def test_sees_validations(self):
        with tempfile.TemporaryDirectory() as folder:
            monitor = TrainingMonitor()
            trainer, said = self.fit(monitor, Model(dies_at=10 ** 9), folder)
        self.assertEqual(trainer.global_step, STEPS)
        self.assertEqual(monitor.best[0], STEPS)
        self.assertEqual(monitor.findings, [])

    def test_state_is_in_checkpoints(self):
        with tempfile.TemporaryDirectory() as folder:
            monitor = TrainingMonitor()
            trainer, _ = self.fit(monitor, Model(dies_at=10 ** 9), folder)
            path = os.path.join(folder, "saved.ckpt")
            trainer.save_checkpoint(path)
            states = torch.load(path, weights_only=True)["callbacks"]
        self.assertIn(monitor.state_dict(), list(states.values()))

    def test_early_stopping(self):
        with tempfile.TemporaryDirectory() as folder:
            stopping = EarlyStopping(patience=2, min_delta=1e9)
            trainer, _ = self.fit(stopping, Model(dies_at=10 ** 9), folder)
            path = os.path.join(folder, "saved.ckpt")
            trainer.save_checkpoint(path)
            states = torch.load(path, weights_only=True)["callbacks"]
        self.assertEqual((trainer.global_step, stopping.best_step), (30, 10))
        self.assertEqual(repr(states["plimsoll.EarlyStopping.val_loss"]), repr(stopping.state_dict()))


RANK = textwrap.dedent("""
    import sys
    import torch.distributed as dist
    from plimsoll.training import EarlyStopping, TrainingMonitor
    rank, store = int(sys.argv[1]), sys.argv[2]
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
    monitor = TrainingMonitor()
    for step in range(40):
        monitor.log(step, loss=float("nan") if rank == 1 and step >= 17 else 2 - step / 40)
        if monitor.should_stop:
            break
    stopping = EarlyStopping(patience=2)
    for evaluation in range(20):
        if stopping.step(1 if rank == 1 and evaluation > 5 else 1 - evaluation / 40):
            break
    print(step, evaluation, monitor.why_stop)
    dist.destroy_process_group()
""")


class Ranks(unittest.TestCase):
    def test_stop_together(self):
        with tempfile.TemporaryDirectory() as folder:
            store = os.path.join(folder, "store")
            ranks = [subprocess.Popen([sys.executable, "-c", RANK, str(rank), store], stdout=subprocess.PIPE, text=True)
                     for rank in range(2)]
            said = [p.communicate(timeout=600)[0].split(None, 2) for p in ranks]
        self.assertEqual([words[:2] for words in said], [["17", "7"], ["17", "7"]])
        self.assertEqual(said[0][2].strip(), "None")
        self.assertIn("'loss' is NaN at step 17", said[1][2])


if __name__ == "__main__":
    unittest.main()
