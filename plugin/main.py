"""The first thing that runs of the one-file kubectl plugin: `kubectl-kafka_medic`.

Python imports no native module from a zip file. The file therefore unpacks itself once, into a folder of the person's
cache that is named after its contents, and runs from there. Only the standard library is imported here.
"""

import gc
import os
import sys
from pathlib import Path

DIGEST = "@DIGEST@"
SITE, NATIVE = "site/", "native/"
COMPLETION = "kubectl_complete-kafka_medic"
"""kubectl runs a file of this name for completions. A link with that name to this file will do."""


def platform_tag() -> str:
    """As the builder names the folders of native modules."""
    machine = os.uname().machine.lower()
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    return f"cp{sys.version_info[0]}{sys.version_info[1]}-{sys.platform}-{machine}"


def unpacked(archive: Path) -> Path:
    """The folder that the file's contents are in. It appears whole or not at all."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-medic"
    final = cache / f"plugin-{DIGEST[:16]}-{platform_tag()}"
    if final.is_dir() and final.stat().st_uid == os.getuid():
        return final
    # Each command after the first one ends above, and starts sooner without these.
    import atexit  # noqa: PLC0415
    import shutil  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=cache))
    except OSError:  # no home that can be written: unpacked anew each time
        work = Path(tempfile.mkdtemp(prefix="kafka-medic-"))
        atexit.register(shutil.rmtree, work, ignore_errors=True)
        extract(archive, work)
        return work
    try:
        extract(archive, work)
        work.rename(final)
    except OSError:
        if not final.is_dir():  # else another one was quicker
            raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return final


def extract(archive: Path, folder: Path) -> None:
    import zipfile  # noqa: PLC0415

    native = f"{NATIVE}{platform_tag()}/"
    with zipfile.ZipFile(archive) as zipped:
        names = zipped.namelist()
        if not any(name.startswith(native) for name in names):
            refuse(sorted({name.split("/")[1] for name in names if name.startswith(NATIVE)}))
        for prefix in (SITE, native):
            for name in names:
                if name.startswith(prefix):
                    target = folder / name[len(prefix) :]
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(zipped.read(name))


def refuse(held: list[str]) -> None:
    """Hands over to a Python that the file has a native module for, or ends with what to do."""
    import shutil  # noqa: PLC0415

    here = platform_tag().partition("-")[2]
    for version in ("3.11", "3.13"):
        if f"cp{version.replace('.', '')}-{here}" in held and (other := shutil.which(f"python{version}")):
            os.execv(other, [other, "-I", *sys.argv])  # noqa: S606
    sys.exit(
        f"kafka-medic: this file runs on {', '.join(held)}, and this Python is {platform_tag()}\n"
        "  install Python 3.11, or: pip install kafka-medic"
    )


def main() -> int:
    archive = Path(sys.argv[0]).resolve()
    if sys.version_info < (3, 11) or sys.platform == "win32":
        sys.exit("kafka-medic: needs Python 3.11 or later on Linux or macOS")
    gc.set_threshold(20_000)  # The start makes many objects and no garbage.
    sys.path.insert(0, str(unpacked(archive)))
    from kafka_medic.cli.main import complete_plugin, plugin  # noqa: PLC0415

    return complete_plugin() if Path(sys.argv[0]).name == COMPLETION else plugin()


if __name__ == "__main__":
    sys.exit(main())
