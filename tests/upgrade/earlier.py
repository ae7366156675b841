"""The earlier version that is upgraded from: its sources, and its image, built before the tests have no way out.

python -m tests.upgrade.earlier
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from tests.testbed.operator_image import operator_image_of
from tests.testbed.places import REPOSITORY

PREVIOUS = os.environ.get("PREVIOUS", "028b3e2")
"""The last commit whose release had its definitions in crds/ and was tested by its own suite."""


def sources(tree: Path) -> None:
    """Fill the folder with the files of that commit."""
    packed = subprocess.run(["git", "archive", PREVIOUS], cwd=REPOSITORY, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", tree], input=packed, check=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sources(Path(folder))
        operator_image_of(Path(folder))
