"""Imports every module of the project in an image that is being built, so that nothing that it needs was taken out.

    python imports.py [EXTRA ...]

EXTRA: packages that this image does not have; what needs one of them is left out. The exit status is 1 where a module
cannot be imported for any other reason.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Sequence

import kafka_medic


def main(extras: Sequence[str]) -> int:
    """As the module says."""
    imported, failed = 0, []
    for module in pkgutil.walk_packages(kafka_medic.__path__, "kafka_medic."):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
            imported += 1
        except ImportError as problem:
            if (problem.name or "").split(".")[0] not in extras:
                failed.append(f"{module.name}: {problem}")
    sys.stdout.write(f"{imported} modules imported\n")
    sys.stderr.write("".join(f"{line}\n" for line in failed))
    return 1 if failed or imported < 100 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
