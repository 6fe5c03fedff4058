"""Where machine code is kept: in a directory of ours alone, named after what it depends on."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from processes.other_user import SOMEBODY, STRANGER, do_as, needs_root, open_folder
from solving.small_kernels import copy_of_kernels

import kernels
from kernels.cachedir import cache_folder, fingerprint, on_remote_filesystem


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder, away from that of the machine; no folder of this run."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("SWEEP_CACHE_OF_THIS_RUN", "")  # set by what is tested; so it is taken back
    return folder


def test_folder_is_chosen_by_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEP_CACHE_DIR", str(tmp_path / "root"))
    folder = cache_folder()
    assert folder is not None
    assert folder.path == tmp_path / "root" / f"kernels-{fingerprint()}"


def test_users_cache_unless_it_is_remote(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SWEEP_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = cache_folder()
    assert folder is not None
    assert folder.path == tmp_path / "cache" / "sweep" / f"kernels-{fingerprint()}"
    monkeypatch.setattr("kernels.cachedir.on_remote_filesystem", lambda path: True)
    folder = cache_folder()
    assert folder is not None
    assert folder.path.parent == temporary / f"sweep-cache-{os.getuid()}"


def test_folder_that_others_could_change_is_replaced_for_this_run(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As a home of mode 0775, common where every user has a group of their own."""
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o775)
    monkeypatch.setenv("SWEEP_CACHE_DIR", str(home / "cache"))
    folder = cache_folder()
    assert folder is not None
    assert folder.path.is_relative_to(temporary)
    assert list(home.iterdir()) == []
    (said,) = caplog.messages
    assert said.startswith(f"compiled kernels are kept for this run only: {home} belongs to user")
    assert f"mode 0775: chmod g-w {home}" in said
    again = cache_folder()
    assert again is not None
    assert again.path == folder.path
    assert len(caplog.messages) == 1
    home.chmod(0o755)
    folder = cache_folder()
    assert folder is not None
    assert folder.path.parent == home / "cache"


def test_no_safe_folder_costs_a_warning(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    temporary.chmod(0o777)
    monkeypatch.setattr("kernels.cachedir.TEMPORARY", ())
    monkeypatch.setenv("SWEEP_CACHE_DIR", str(temporary / "cache"))
    assert cache_folder() is None
    (said,) = caplog.messages
    assert said.startswith(
        f"compiled kernels are not cached, each process compiles again: {temporary} belongs"
    )


def test_what_others_may_have_swapped_is_not_removed_at_the_end(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder for this run that turns out to be in nobody's care: its place may lead to anything later."""
    removed: list[object] = []
    monkeypatch.setattr("atexit.register", lambda *call: removed.append(call))
    monkeypatch.setattr("kernels.cachedir.TEMPORARY", ())
    temporary.chmod(0o777)
    monkeypatch.setenv("SWEEP_CACHE_DIR", str(temporary / "cache"))
    assert cache_folder() is None
    assert (removed, list(temporary.iterdir())) == ([], [])


FOLDERS = """
import os, subprocess, sys
import kernels.jit
if len(sys.argv) < 2:
    subprocess.run([sys.executable, "-c", os.environ["SCRIPT"], "child"], check=True)
print(kernels.jit.FOLDER.path, os.path.isdir(kernels.jit.FOLDER.path))
"""


def test_processes_of_a_run_share_its_folder_which_ends_with_it(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-c", FOLDERS],
        env=os.environ | {"SWEEP_CACHE_DIR": str(shared), "SCRIPT": FOLDERS, "TMPDIR": str(tmp_path)},
        cwd=Path(kernels.__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    child, parent = done.stdout.splitlines()
    assert child == parent
    assert child.endswith(" True")
    assert not Path(child.split()[0]).parent.exists()
    assert len(done.stderr.splitlines()) == 1


VICTIM = """
import os, sys
import queue
import llvmlite.binding, numba
# Loads all of the compiler: the other user may be unable to read where it is installed.
numba.njit(lambda x: x + 1)(1)
user = int(sys.argv[1])
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
import kernels.cachedir
kernels.cachedir.on_remote_filesystem = lambda path: True
import kernels.jit
print("ready", flush=True)
sys.stdin.readline()
from kernels.outer import outer
print(outer(1))
"""


SWAP = """
umask 0
mv "$1" "$2" || true
mkdir -p "$1"
cd "$1"
payload=$3
shift 3
for name in "$@"; do
    mkdir -p "$(dirname "$name")"
    cp "$payload" "$name"
done
"""


@needs_root
@pytest.mark.parametrize("victim", [0, SOMEBODY])
@pytest.mark.parametrize("made", ["mkdir -m 1777 $1", "mkdir -m 1777 $2; ln -s $2 $1", "mkdir -m 777 $1"])
def test_planted_files_are_not_unpickled(victim: int, made: str, tmp_path: Path) -> None:
    """Another user makes the folder first, waits for the victim's own in it, swaps that and fills it."""
    with open_folder() as top:
        package = copy_of_kernels(top / "copy")
        temporary, marker = top / "temporary", top / "marker"
        for folder in (temporary, marker):
            folder.mkdir()
            folder.chmod(0o1777)
        environment = os.environ | {
            "PYTHONPATH": str(package.parent),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(temporary),
            "TMPDIR": str(temporary),
        }
        environment.pop("SWEEP_CACHE_DIR", None)
        # What the files are called is no secret: the attacker runs the program too.
        own = environment | {"SWEEP_CACHE_DIR": str(tmp_path / "own")}
        command = [sys.executable, "-c", VICTIM]
        subprocess.run(
            [*command, "0"], env=own, cwd=top, input="\n", capture_output=True, text=True, check=True
        )
        (leaf,) = (tmp_path / "own").iterdir()
        names = [str(path.relative_to(leaf)) for path in leaf.rglob("*") if path.is_file()]
        assert len(names) > 1
        payload = top / "payload"
        payload.write_bytes(pickle.dumps(Payload(str(marker / "ran"))))

        target = temporary / f"sweep-cache-{victim}"
        do_as(STRANGER, made, target, temporary / "elsewhere")
        process = subprocess.Popen(
            [*command, str(victim)],
            env=environment,
            cwd=top,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        do_as(STRANGER, SWAP, target / leaf.name, target / "old", payload, *names)
        stdout, stderr = process.communicate("\n")
        assert stdout == "20\n"
        assert list(marker.iterdir()) == []
        (said,) = stderr.splitlines()
        assert f"{target} belongs to user {STRANGER} and group {STRANGER}, mode " in said


class Payload:
    """Unpickled, it leaves a mark."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self.mark,)


def test_remote_filesystems_are_known(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    near, far = tmp_path / "near", tmp_path / "far away"
    mounts.write_text(
        f"/dev/sda / ext4 rw 0 0\nserver:/far {str(far).replace(' ', chr(92) + '040')} nfs4 rw 0 0\n"
        f"/dev/sdb {far}/scratch xfs rw 0 0\n".replace("far away/", "far\\040away/")
    )
    assert not on_remote_filesystem(near, mounts)
    assert on_remote_filesystem(far / "home", mounts)
    assert not on_remote_filesystem(far / "scratch" / "x", mounts)
    assert not on_remote_filesystem(far, tmp_path / "no such table")
