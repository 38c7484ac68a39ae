"""NaN, infinities and norms of gradients, without waiting for the GPU; what a lower precision changes.

    from plimsoll.gradients import GradientMonitor

    monitor = GradientMonitor(model, optimizer, on_bad="skip", clip=1.0)
    with monitor.attach():  # checks, clips and skips before each optimizer.step()
        for batch in loader:
            model(batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    print(monitor.history[-1])

One kernel reads each gradient once; its result is there a step later: docs/gradients.md.
"""
from __future__ import annotations

from ._gradients import BadTensor, GradientMonitor, GradStats, Healthy
from ._precision import Difference, PrecisionResult, check_activations, check_tensors, precision_test
from ..errors import NonFiniteError

__all__ = ["GradientMonitor", "GradStats", "BadTensor", "Healthy", "NonFiniteError", "check_tensors", "check_activations",
           "precision_test", "PrecisionResult", "Difference"]
