"""Ray: the map runs where the recordings are, the reduce here.  python with_ray.py RECORDING... ; the folder is shared."""
import subprocess
import sys
from pathlib import Path

import ray


@ray.remote
def digest(recording: str) -> str:
    """On a worker: a digest of kilobytes for a recording of megabytes, next to it."""
    path = str(Path(recording).with_suffix(".digest"))
    subprocess.run(["plimsoll", "report", "--digest", recording, "-o", path], check=True)
    return path


if __name__ == "__main__":
    ray.init()
    digests = ray.get([digest.remote(recording) for recording in sys.argv[1:]])
    subprocess.run(["plimsoll", "report", *digests], check=True)
