"""All that has to be built before the testbed can start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.testbed import build
from tests.testbed.node_images import node_images


@dataclass(frozen=True)
class Programs:
    """The folders of everything the testbed runs."""

    kubernetes: Path
    etcd: Path
    coredns: Path
    tools: Path
    helm: Path
    images: Path

    @property
    def path(self) -> list[Path]:
        """What is put before the PATH of whoever enters the testbed."""
        return [self.tools / "bin", self.helm]


def programs() -> Programs:
    """Everything `up` needs; builds what is not in the cache yet."""
    return Programs(
        kubernetes=build.kubernetes(),
        etcd=build.etcd(),
        coredns=build.coredns(),
        tools=build.tools(),
        helm=build.helm(),
        images=node_images(),
    )
