"""What a node image is made from, and the name that follows from it: another recipe, another tag."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clusters.binaries.gobuild import MODULES, module
from clusters.binaries.programs import CONTAINERD, CRICTL, KIND
from clusters.binaries.releases import Release
from clusters.kind.image import archive, probe, store

REPOSITORY: Final = "drakit/node"
FILES: Final = Path(__file__).parent / "files"
"""What is put over kind's own files in the root file system of a node."""

SUITE: Final = "bookworm"
"""The release of Debian; its systemd still runs on the first version of cgroups, too."""

PACKAGES: Final = (
    "bash",
    "ca-certificates",
    "conntrack",
    "containernetworking-plugins",
    "curl",
    "dbus",
    "e2fsprogs",
    "ethtool",
    "iproute2",
    "iptables",
    "jq",
    "kmod",
    "libseccomp2",
    "mount",
    "nftables",
    "pigz",
    "procps",
    "runc",
    "systemd",
    "systemd-sysv",
    "util-linux",
)
"""Debian packages of a node, those of kind's own base image without network storage and FUSE."""

_FORMAT: Final = 2
"""Counts up when the same parts are put together in another way."""

_STEPS: Final = (
    # What a container must not do that a machine does at its start; as kind's base image.
    "find /lib/systemd/system/sysinit.target.wants/ -name systemd-tmpfiles-setup.service -delete",
    (
        "rm -f /lib/systemd/system/multi-user.target.wants/* /etc/systemd/system/*.wants/*"
        " /lib/systemd/system/local-fs.target.wants/* /lib/systemd/system/sockets.target.wants/*udev*"
        " /lib/systemd/system/sockets.target.wants/*initctl* /lib/systemd/system/basic.target.wants/*"
    ),
    "echo ReadKMsg=no >> /etc/systemd/journald.conf",
    "systemctl enable kubelet.service containerd.service undo-mount-hacks.service",
    "systemctl mask systemd-binfmt.service",
    "mkdir -p /etc/kubernetes/manifests /opt/cni/bin",
    "cp -L /usr/lib/cni/* /opt/cni/bin/",
    "ctr oci spec > /tmp/spec.json",
    (
        'jq \'.hooks.createContainer += [{"path": "/kind/bin/mount-product-files.sh"}] | del(.process.rlimits)\''
        " /tmp/spec.json > /etc/containerd/cri-base.json"
    ),
    "rm /tmp/spec.json",
    # A node without the capability to lower scores could not start any container.
    "sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' /etc/containerd/config.toml",
    (
        'printf \'\\n[plugins."io.containerd.grpc.v1.cri".cni]\\n'
        '  conf_template = "/etc/containerd/cni.conf.template"\\n\' >> /etc/containerd/config.toml'
    ),
    "containerd --version",
    "runc --version",
    "kubeadm version -o short",
    "kubelet --version",
)


ENTRYPOINT: Final = '["/usr/local/bin/entrypoint", "/sbin/init"]'


@dataclass(frozen=True)
class Recipe:
    """The recipe of a node image; `digest` is the hash of all that is in it."""

    release: Release
    digest: str

    @property
    def tag(self) -> str:
        """The name of the image: drakit/node:v1.37.2-0123456789ab."""
        return f"{REPOSITORY}:{self.release.kubernetes}-{self.digest}"

    def dockerfile(self) -> str:
        """The Dockerfile; its context has rootfs.tar, files, bin and sbin."""
        return dockerfile(self.digest)


def dockerfile(digest: str) -> str:
    """The text of a Dockerfile that carries a hash as a label."""
    steps = " \\\n && ".join(_STEPS)
    return f"""FROM scratch
LABEL {archive.LABEL}="{digest}"
ADD rootfs.tar /
COPY files/ /
COPY bin/ /usr/local/bin/
COPY ubin/ /usr/bin/
RUN {steps}
ENV container=docker
STOPSIGNAL SIGRTMIN+3
ENTRYPOINT {ENTRYPOINT}
"""


def recipe(release: Release) -> Recipe:
    """The recipe for a release of Kubernetes on this machine's architecture."""
    own = [probe.own_program(name).version for name in ("coredns", "pause")]
    folders = {program.module for program in (KIND, *CONTAINERD, CRICTL)} | {
        module(release, "kubelet"),
        MODULES / "etcd",
    }
    parts = [
        str(_FORMAT),
        archive.architecture(),
        release.kubernetes,
        release.etcd,
        json.dumps([SUITE, *PACKAGES]),
        dockerfile(""),
        store.tree_digest(FILES),
        *own,
        *(store.tree_digest(folder) for folder in sorted(folders)),
        *(f"{program.package} {program.version}" for program in (KIND, *CONTAINERD, CRICTL)),
    ]
    return Recipe(release, store.digest(*parts))
