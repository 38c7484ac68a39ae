"""Dask: the map runs where the recordings are, the reduce here.  python with_dask.py RECORDING... ; the folder is shared."""
import subprocess
import sys
from pathlib import Path

from dask.distributed import Client


def digest(recording: str) -> str:
    """On a worker: a digest of kilobytes for a recording of megabytes, next to it."""
    path = str(Path(recording).with_suffix(".digest"))
    subprocess.run(["plimsoll", "report", "--digest", recording, "-o", path], check=True)
    return path


if __name__ == "__main__":
    with Client() as client:  # or Client("scheduler:8786")
        digests = client.gather(client.map(digest, sys.argv[1:]))
        subprocess.run(["plimsoll", "report", *digests], check=True)
