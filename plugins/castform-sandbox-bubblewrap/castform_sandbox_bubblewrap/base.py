"""The plain root of a box: its own folders and a copy of the host's /etc without what is secret."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

FOLDERS = {
    "boot": 0o755, "dev": 0o755, "home": 0o755, "media": 0o755, "mnt": 0o755, "opt": 0o755, "proc": 0o555,
    "root": 0o700, "run": 0o755, "run/lock": 0o1777, "srv": 0o755, "sys": 0o555, "tmp": 0o1777, "usr": 0o755, "var": 0o755,
    "var/cache": 0o755, "var/lib": 0o755, "var/log": 0o755, "var/spool": 0o755, "var/tmp": 0o1777,
    "logs": 0o755,
}  # fmt: skip
LIBRARIES = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""At the host's top: links into /usr, or folders of their own that are bound like /usr."""
COPIED = (
    "adduser.conf", "alternatives", "bash.bashrc", "ca-certificates",
    "ca-certificates.conf", "crypto-policies", "debian_version", "default/locale", "default/useradd", "deluser.conf",
    "fonts", "gai.conf", "group", "host.conf", "inputrc", "java", "ld.so.cache", "ld.so.conf",
    "ld.so.conf.d", "locale.alias", "locale.conf", "locale.gen", "localtime", "login.defs", "lsb-release", "magic",
    "magic.mime", "mime.types", "nanorc", "networks", "nsswitch.conf", "os-release", "pam.conf", "pam.d",
    "passwd", "perl", "pki/ca-trust", "pki/tls/certs", "profile", "protocols", "python3", "python3.9",
    "python3.10", "python3.11", "python3.12", "python3.13", "redhat-release", "rpc", "security/limits.conf",
    "security/namespace.conf", "security/pam_env.conf", "services", "shells", "skel", "ssl/certs", "ssl/openssl.cnf",
    "system-release", "terminfo", "timezone", "xattr.conf",
)  # fmt: skip
"""Of the host's /etc: what programs read to run. Anything else stays out, whatever it holds: `environment`,
`profile.d` and `wgetrc`, where passwords of proxies and keys are kept for all to read."""
_LARGEST = 8 << 20
_HIGHEST_SYSTEM_ID = 999
_NOBODY = 65534


def make_base(root: Path, *, owner: int | None, host: Path = Path("/")) -> None:
    """Make the plain root in an empty folder; `owner`: the host's id that is root in the box, None: ours."""
    root.chmod(0o755)
    for name, mode in FOLDERS.items():
        (root / name).mkdir()
        (root / name).chmod(mode)
    for name in LIBRARIES:
        place = host / name
        if place.is_symlink():
            (root / name).symlink_to(place.readlink())
        elif place.is_dir():
            (root / name).mkdir()
    _make_etc(root / "etc", host / "etc")
    if owner is not None:
        os.chown(root, owner, owner)
        for folder, names, files in os.walk(root):
            for name in (*names, *files):
                os.chown(Path(folder, name), owner, owner, follow_symlinks=False)


def _make_etc(target: Path, source: Path) -> None:
    target.mkdir()
    for name in COPIED:
        _copy(source / name, target / name)
    users = _keep_system_users(source / "passwd")
    (target / "passwd").write_text("".join(":".join(row) + "\n" for row in users))
    (target / "group").write_text(_keep_system_groups(source / "group"))
    (target / "shadow").write_text("".join(f"{row[0]}:*:20000:0:99999:7:::\n" for row in users))
    (target / "shadow").chmod(0o640)
    (target / "hostname").write_text("sandbox\n")
    (target / "hosts").write_text("127.0.0.1 localhost sandbox\n::1 localhost\n")
    (target / "resolv.conf").write_text("")
    (target / "mtab").symlink_to("/proc/self/mounts")


def _copy(source: Path, target: Path) -> None:
    """Copy what everybody on the host may read. Links stay links; what a link leads to may not be there."""
    try:
        status = source.lstat()
    except OSError:
        return
    if stat.S_ISLNK(status.st_mode):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source.readlink())
    elif stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_IROTH:
        target.mkdir(parents=True, exist_ok=True)
        for entry in sorted(source.iterdir()):
            _copy(entry, target / entry.name)
    elif stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_IROTH and status.st_size <= _LARGEST:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(status.st_mode & 0o755)


def _rows(source: Path, width: int) -> list[list[str]]:
    try:
        lines = source.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    rows = [line.split(":") for line in lines]
    return [row for row in rows if len(row) == width and row[2].isdigit()]


def _keep_system_users(source: Path) -> list[list[str]]:
    """Return root, nobody and what services run as; the people of the host are left out."""
    kept = [
        row for row in _rows(source, 7) if 0 < int(row[2]) <= _HIGHEST_SYSTEM_ID or int(row[2]) == _NOBODY
    ]
    shell = "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"
    rows = [["root", "x", "0", "0", "root", "/root", shell]]
    return rows + [[row[0], "x", row[2], row[3], "", row[5], row[6]] for row in kept if row[0] != "root"]


def _keep_system_groups(source: Path) -> str:
    kept = [
        row for row in _rows(source, 4) if 0 < int(row[2]) <= _HIGHEST_SYSTEM_ID or int(row[2]) == _NOBODY
    ]
    return "root:x:0:\n" + "".join(f"{row[0]}:x:{row[2]}:\n" for row in kept if row[0] != "root")
