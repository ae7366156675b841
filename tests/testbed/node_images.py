"""What every node's containerd begins with: the images that hardly ever change, unpacked once for all nodes.

Unpacking the operator's dependencies takes several seconds a node. So it is done once, in the cache; a node then links
the files, which containerd only ever reads, and copies the small databases, which it writes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.testbed.build import images
from tests.testbed.cache import digest, drop_older, ensure
from tests.testbed.operator_image import dependencies_key, save_dependencies
from tests.testbed.steps import granted, run_logged

_START_SECONDS = 30


def node_images() -> Path:
    """A containerd root directory with all images but the operator's own layer; built with the cache's other things."""
    small = images()

    def build(folder: Path, log: Path) -> None:
        archives = sorted(small.glob("*.tar"))
        with tempfile.TemporaryDirectory(prefix="kafka-medic-") as place:
            dependencies = Path(place) / "dependencies.tar"
            save_dependencies(dependencies, log)
            run_logged(
                "unpack the nodes' images",
                ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable]
                + ["-m", "tests.testbed.node_images", str(folder / "containerd"), place]
                + [str(archive) for archive in (*archives, dependencies)],
                log,
                cwd=Path(__file__).parents[2],
            )

    folder = ensure("node-images", "1", digest(small.name, dependencies_key()), "the nodes' images", build)
    drop_older("node-images", folder)
    return folder / "containerd"


def furnish(template: Path, root: Path) -> None:
    """Make a node's containerd root from the template."""
    copied = ["cp", "-a", "--link", str(template), str(root)]
    if subprocess.run(copied, capture_output=True, check=False).returncode != 0:
        # Another file system, to which nothing can be linked.
        shutil.rmtree(root, ignore_errors=True)
        subprocess.run(["cp", "-a", str(template), str(root)], check=True)
    for database in root.rglob("*.db"):
        own = database.with_suffix(".own")
        shutil.copy2(database, own)
        own.replace(database)


def import_image(socket: Path | str, archive: Path | str, seconds: float = 0) -> None:
    """Load an archive into a containerd; within `seconds` also one that is only starting."""
    deadline = granted() + seconds
    while True:
        command = ["ctr", "-a", str(socket), "-n", "k8s.io", "images", "import", str(archive)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        if granted() > deadline:
            raise RuntimeError(f"{archive} could not be loaded: {done.stderr}")
        time.sleep(0.2)


def _unpack(root: Path, place: Path, archives: list[str]) -> None:
    socket = place / "containerd.sock"
    settings = place / "containerd.toml"
    settings.write_text(
        f'version = 2\nroot = "{root}"\nstate = "{place}/state"\n'
        'disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]\n'
        f'[grpc]\naddress = "{socket}"\n[ttrpc]\naddress = "{socket}.ttrpc"\n'
    )
    daemon = subprocess.Popen(["containerd", "--config", str(settings)])
    try:
        for archive in archives:
            import_image(socket, archive, _START_SECONDS)
    finally:
        daemon.terminate()
        daemon.wait()


if __name__ == "__main__":
    _unpack(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
