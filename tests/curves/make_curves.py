"""Labelled training curves: healthy ones in many shapes, and each fault with its onset.

    make(kind, seed, snr) -> (rows, onset): rows as a trainer logs them, the onset as a step (None: healthy)

Two kinds are sound: "healthy", and "level", whose validation loss stays where it is from a third of the run on while the
training loss falls, so that nothing but noise shows it from one that turns.

The noise of a loss is a factor exp(s x), s from 0.01 to 0.2, x normal, with autocorrelation 0, 0.5 or 0.8 or with
Student's t of 5 degrees.  `snr` is the height of a fault over the noise of single values: for a spike the height of
its tip (it lasts 8 to 20 logs if it is below 10), for divergence of the new level, for overfitting the rise within three
evaluations.  The noise is that of lasting change: autocorrelation counts.  A validation loss that turns has at least five
evaluations behind the turn: what is not in the log cannot be found.  One log in five has a gap, one in five was resumed: its
steps go back and some rows stand there twice.  In logs with a fault both lie before the fault.
Seeds below 1,000,000 are for setting thresholds; what docs/evidence/accuracy.md reports is made of seeds above.
"""
import math
import random

SHAPES = ("power", "exponential", "epochs", "restarts", "short", "noisy", "signed")
FAULTS = ("nan", "hidden_nan", "inf", "spike", "diverged", "explosion", "overfit", "collapse", "plateau",
          "scaler_skips", "memory_creep", "learning_rate")


class Noise:
    def __init__(self, rng, sigma):
        self.rng, self.sigma = rng, sigma
        self.kind = rng.choice(("white", "white", "ar5", "ar8", "tail"))
        self.last = 0.0
        # Of means over some time: neighbours that go together cancel less.
        self.lasting = sigma * {"ar5": math.sqrt(3), "ar8": 3.0}.get(self.kind, 1.0)

    def __call__(self):
        g = self.rng.gauss(0, 1)
        if self.kind == "tail":
            chi = sum(self.rng.gauss(0, 1) ** 2 for _ in range(5)) / 5
            return self.sigma * g / math.sqrt(chi) * math.sqrt(3 / 5)
        rho = {"white": 0.0, "ar5": 0.5, "ar8": 0.8}[self.kind]
        self.last = rho * self.last + math.sqrt(1 - rho * rho) * g
        return self.sigma * self.last


def base_curve(shape, n, rng):
    """Losses without noise, and the learning rate of each (or None where none is logged)."""
    first, floor, power = rng.uniform(1.5, 11), rng.uniform(0.02, 0.6), rng.uniform(0.15, 0.5)
    decay, epochs = rng.uniform(3, 8) / n, rng.randint(2, 4)
    losses, rates = [], []
    for i in range(n):
        x = i / n
        if shape in ("power", "noisy"):
            losses.append(first * (floor + (1 - floor) * (1 + i * 40 / n) ** -power))
        elif shape == "epochs":
            losses.append(first * (0.25 + 0.75 * math.exp(-3 * x)) * 0.8 ** int(x * epochs))
        elif shape == "restarts":
            phase = (x * 3) % 1
            losses.append(first * (floor + (1 - floor) * math.exp(-2.5 * x)) * (1 + 0.15 * math.exp(-phase * 12) * (x > 0.3)))
        elif shape == "signed":
            losses.append(0.002 * math.sin(7 * x))
        else:
            losses.append(first * (floor + (1 - floor) * math.exp(-i * decay)))
        warm = min(1.0, (i + 1) / max(1, n // 20))
        rates.append(1e-4 * warm * (0.5 * (1 + math.cos(math.pi * ((x * 3) % 1))) if shape == "restarts"
                                    else 1 - x))
    return losses, rates


def make(kind, seed, snr=3.0):
    rng = random.Random(seed)
    shape = rng.choice(SHAPES) if kind == "healthy" else rng.choice(("power", "exponential", "short", "noisy"))
    n = rng.randint(24, 60) if shape == "short" else rng.choice((100, 200, 400, 1000, 3000))
    if kind in ("spike", "diverged", "explosion", "plateau", "memory_creep", "scaler_skips") and n < 100:
        n = 200
    sigma = rng.uniform(0.1, 0.25) if shape == "noisy" else rng.uniform(0.01, 0.1)
    if kind == "plateau":
        sigma = rng.uniform(0.01, 0.03)
    every = rng.choice((1, 10, 25, 100))
    evals = rng.choice((8, 12, 20, 40)) if n >= 40 else rng.choice((3, 5, 8))
    if kind in ("overfit", "collapse", "level"):
        evals = max(evals, 8)
    eval_every = max(1, n // evals)
    losses, rates = base_curve(shape, n, rng)
    noise, grad_noise = Noise(rng, sigma), Noise(rng, rng.uniform(0.1, 0.5))
    val_sigma = min(sigma / 2, rng.uniform(0.003, 0.03))
    val_noise = Noise(rng, val_sigma)
    gap = rng.uniform(1.0, 1.25)
    at = rng.randint(n // 3, 2 * n // 3)
    onset, width = None, rng.randint(8, 20)
    with_rate, scale, memory = rng.random() < 0.6, 65536.0, rng.uniform(8, 60)
    stuck = losses[0] * rng.uniform(0.97, 1.0)
    # A validation loss that turns: `snr` noises (and 3 %) up three evaluations behind the turn.
    turn = max(2, evals // 3)
    rise = max(snr * val_noise.lasting / 3, 0.01)
    rows, evaluation = [], 0
    for i in range(n):
        step = (i + 1) * every
        clean = losses[i]
        if kind == "plateau":
            clean = stuck * (1 - 0.01 * min(1, i / n))
        if kind == "spike" and i >= at:
            height = max(snr * noise.lasting, 0.25) if snr < 10 else max(snr * sigma, 0.5)
            lasts = width if snr < 10 else 3
            if i < at + lasts:
                clean *= math.exp(height * (1 if snr < 10 else math.exp(-(i - at) / 2)))
            onset = (at + 1) * every
        if kind == "diverged" and i >= at:
            clean = losses[at] * math.exp(max(snr * noise.lasting, 0.4) * min(1, (i - at) / max(8, n // 8)))
            onset = (at + 1) * every
        loss = clean + 0.003 * noise() / sigma if shape == "signed" else clean * math.exp(noise())
        grad = rng.uniform(0.9, 1.1) * math.exp(grad_noise()) * (0.3 + clean / losses[0] if shape != "signed" else 1)
        row = {"step": step, "loss": loss, "grad_norm": grad}
        if kind == "explosion" and at <= i < at + 6:
            row["grad_norm"] = grad * 12 * 1.5 ** (i - at)
            onset = (at + 1) * every
        if kind in ("nan", "inf") and i >= at or kind == "explosion" and i >= at + 6:
            row["loss"] = float("inf") if kind == "inf" else float("nan")
            onset = onset or (at + 1) * every
        if kind == "hidden_nan" and i >= at:
            row.update(loss=0.0, grad_norm=float("nan"))
            onset = (at + 1) * every
        if with_rate:
            row["learning_rate"] = 1e-4 if kind == "plateau" else rates[i]
        if kind == "learning_rate":
            row["learning_rate"] = rates[i] if i < at else 0.0
            onset = (at + 1) * every
        if kind == "scaler_skips" or rng.random() < 0.2 and kind == "healthy":
            if kind == "scaler_skips" and i >= at and i % 2:
                scale /= 2
            elif i % max(1, 2000 // every) == 0 and i:
                scale = min(scale * 2, 65536.0)
            row["loss_scale"] = scale
            if kind == "scaler_skips":
                onset = (at + 1) * every
        if kind == "memory_creep" or n > 150:
            slope = 0.5 * memory * i / n if kind == "memory_creep" else memory * 0.1 * (1 - math.exp(-i / (n / 20)))
            row["memory_gb"] = memory + slope + abs(rng.gauss(0, 0.02 * memory))
            if kind == "memory_creep":
                onset = every
        if kind == "plateau":
            onset = every
        rows.append(row)
        if (i + 1) % eval_every == 0 and shape != "signed":
            value = losses[i] * gap
            if kind in ("overfit", "collapse", "level") and evaluation > turn:
                along = (evaluation - turn) / max(1, evals - 1 - turn)
                low = losses[min(n - 1, (turn + 1) * eval_every - 1)] * gap
                value = low * math.exp(rise * (evaluation - turn) * (kind != "level"))
                if kind == "collapse":
                    value = low * (1 + 3 * along)
            if kind in ("overfit", "collapse") and evaluation == turn:
                onset = step
            value *= math.exp(val_noise())
            if kind in ("nan", "inf", "hidden_nan") and i >= at:
                value = float("nan")
            rows.append({"step": step, "eval_loss": value, "eval_accuracy": max(0.0, 1 - value / (losses[0] * 1.3))})
            evaluation += 1
    return disturb(rows, onset, random.Random(seed + 5_000_000_000)), onset, every, eval_every * every


def disturb(rows, onset, rng):
    """A gap, and a resume that logs some steps twice; before the onset."""
    sound = [i for i, row in enumerate(rows) if onset is None or row["step"] < onset]
    if len(sound) < 40:
        return rows
    if rng.random() < 0.2:
        n = rng.randint(2, len(sound) // 12 + 2)
        at = rng.randrange(10, len(sound) - n)
        rows = rows[:at] + rows[at + n:]
        sound = sound[:-n]
    if rng.random() < 0.2:
        at = rng.randrange(20, len(sound))
        back = rng.randint(2, min(at, len(sound) // 8 + 2))
        again = [{k: v * math.exp(rng.gauss(0, 0.005)) if k == "loss" else v for k, v in row.items()}
                 for row in rows[at - back:at]]
        rows = rows[:at] + again + rows[at:]
    return rows
