"""Plimsoll inside the Python process: explain, watch and bound the GPU memory of a PyTorch job.

Nothing is imported here that a call does not need: neither torch nor the native library.
"""

__version__ = "0.1.0"
