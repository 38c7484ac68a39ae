"""`plimsoll fit -- python train.py`: an unchanged training command that fits, and provably trains the same.

Each batch is cut into parts inside the training step of transformers.Trainer, weighed so that their gradients add up to the
whole batch's.  Loader, accumulation, schedule and seeds stay untouched.  Before the run a process of its own measures the
gradient of the whole batch, of another order of it (the noise), and of the parts, in fp32 and without dropout; a model for
which they differ (BatchNorm, in-batch negatives, a balancing loss) is refused.  No list of models is kept.
"""
