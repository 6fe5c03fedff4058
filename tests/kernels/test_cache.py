"""Machine code on disk is fresh after an edit, made by one process at a time, and never in the way."""

import errno
import fcntl
import itertools
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from checkout import ROOT
from processes.other_user import SOMEBODY, STRANGER, as_user, do_as, needs_root, open_folder

from sweep_clustering.kernels import cache
from sweep_clustering.kernels.cache import (
    OwnFolder,
    cache_folder,
    fingerprint,
    on_remote_filesystem,
    open_trusted,
)
from sweep_clustering.kernels.jit import jit

# Folders that nobody else can change or replace: every step of the way to them is looked at.


def is_trusted(path: Path) -> bool:
    """Return whether `path` is opened and leads to that folder."""
    try:
        descriptor = open_trusted(path)
    except PermissionError:
        return False
    assert os.path.samestat(os.fstat(descriptor), path.stat())
    os.close(descriptor)
    return True


def make_folder(path: Path, mode: int) -> Path:
    path.mkdir()
    path.chmod(mode)
    return path


def test_missing_folders_are_made_for_the_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_trusted(tmp_path / "a" / "b" / ".." / "b")
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "a", tmp_path / "a" / "b")] == [0o700] * 2
    assert is_trusted(Path("/"))
    # a user who can write to the working directory can replace its entries
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match="mode 0777"):
        OwnFolder(Path("a"), "kernels")
    # a sticky folder may be passed and not used
    tmp_path.chmod(0o1777)
    assert is_trusted(tmp_path / "own")
    assert not is_trusted(tmp_path)


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o2775])
def test_folder_on_the_way_that_others_may_write_to(tmp_path: Path, mode: int) -> None:
    above = make_folder(tmp_path / "above", mode)
    words = rf"{above} belongs to .*, mode {mode:04o}: chmod {'go' if mode & 2 else 'g'}-w"
    for path in (above / "x" / "y", above):
        with pytest.raises(PermissionError, match=words):
            open_trusted(path)
    assert list(above.iterdir()) == []


def test_links_of_the_user_are_followed_step_by_step(tmp_path: Path) -> None:
    real = tmp_path / "data" / "real"
    real.mkdir(parents=True)
    targets = {"absolute": real, "relative": "data/../data/real", "chain": "absolute"}
    for name, target in targets.items():
        (tmp_path / name).symlink_to(target)
        assert is_trusted(tmp_path / name / name)
        assert (real / name).is_dir()
    (tmp_path / "data").chmod(0o777)
    assert not any(is_trusted(tmp_path / name / name) for name in targets)
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="symbolic links"):
        open_trusted(tmp_path / "round" / "x")


@needs_root
@pytest.mark.parametrize("victim", [0, SOMEBODY])
def test_what_another_user_made_is_refused(victim: int) -> None:
    """Everybody may make entries in a temporary folder, but nobody may rename those of others."""
    with open_folder() as top:
        shared, private = make_folder(top / "shared", 0o1777), make_folder(top / "own", 0o755)
        os.chown(private, victim, victim)
        attacks = (
            "mkdir -m 700 $1/a; mkdir -m 1777 $1/b; mkdir -m 755 $1/real; "
            "ln -s $1/real $1/c; ln -s /usr/lib $1/d; ln -s $2 $1/e"
        )
        do_as(STRANGER, attacks, shared, private)
        with as_user(victim):
            assert not any(is_trusted(shared / name / "y") for name in "abcde")
            assert is_trusted(shared / "mine" / "y")
            assert is_trusted(private / "y")


@needs_root
def test_links_of_root_are_followed() -> None:
    """A link such as `/home -> /data/home` is followed for every user."""
    with open_folder() as top:
        home = top / "data" / "home" / "somebody"
        home.mkdir(parents=True)
        os.chown(home, SOMEBODY, SOMEBODY)
        (top / "home").symlink_to("data/home")
        # Folders on the way need not be readable.
        (top / "data").chmod(0o711)
        with as_user(SOMEBODY):
            assert is_trusted(top / "home" / "somebody" / ".cache")
        assert not is_trusted(home / ".cache")
        os.chown(top / "home", STRANGER, STRANGER, follow_symlinks=False)
        with as_user(SOMEBODY):
            assert not is_trusted(top / "home" / "somebody" / ".cache")


@pytest.fixture
def folder(tmp_path: Path) -> OwnFolder:
    return OwnFolder(tmp_path / "root", "leaf")


def test_files_of_the_user_alone_are_read(folder: OwnFolder) -> None:
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert not folder.has_file("x")
    assert folder.read("x") is None
    before = os.umask(0)
    folder.write("x", b"first")
    folder.write("x", b"second")
    os.umask(before)
    assert folder.has_file("x")
    assert folder.read("x") == b"second"
    assert [(path.name, path.stat().st_mode & 0o777) for path in folder.path.iterdir()] == [("x", 0o600)]
    # a path that is swapped later leads nowhere else
    moved = folder.path.with_name("moved")
    folder.path.rename(moved)
    folder.path.mkdir(mode=0o700)
    (folder.path / "x").write_bytes(b"planted")
    assert folder.read("x") == b"second"
    folder.write("y", b"content")
    assert (moved / "y").exists()
    assert not (folder.path / "y").exists()
    folder.remove("x")
    folder.remove("x")
    assert not folder.has_file("x")


@pytest.mark.parametrize(
    "change",
    ["chmod 620 x", "mv x real; ln -s real x", "rm x; mkfifo x", "rm x; mkdir x",
     pytest.param(f"chown {STRANGER} x", marks=needs_root)],
)  # fmt: skip
def test_files_that_are_strange_are_not_read(folder: OwnFolder, change: str) -> None:
    folder.write("x", b"content")
    subprocess.run(["sh", "-e", "-c", change], cwd=folder.path, check=True)
    assert not folder.has_file("x")
    assert folder.read("x") is None
    with pytest.raises(OSError), folder.open_file("x", os.O_RDONLY):  # noqa: PT011  # PermissionError, or what the system says
        pass


def test_folder_itself_is_no_link_and_closed_to_others(tmp_path: Path) -> None:
    leaf = make_folder(tmp_path / "leaf", 0o750)
    with pytest.raises(PermissionError, match=f"mode 0750: chmod 700 {leaf}"):
        OwnFolder(tmp_path, "leaf")
    leaf.rename(tmp_path / "real")
    leaf.symlink_to("real")
    with pytest.raises(NotADirectoryError):
        OwnFolder(tmp_path, "leaf")


# Where machine code is kept: in a directory of ours alone, named after what it depends on.


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a temporary folder apart from that of the machine, without a folder of this run."""
    folder = make_folder(tmp_path / "temporary", 0o700)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("SWEEP_CACHE_OF_THIS_RUN", "")  # the tested code sets it; so it is taken back
    monkeypatch.setattr(cache, "logged_texts", set())
    return folder


def place() -> Path:
    own_folder = cache_folder()
    assert own_folder is not None
    assert own_folder.path.name == f"kernels-{fingerprint()}"
    return own_folder.path.parent


def test_the_folder_is_that_of_the_user_or_a_local_one(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEP_CACHE_DIR", str(tmp_path / "root"))
    assert place() == tmp_path / "root"
    monkeypatch.delenv("SWEEP_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert place() == tmp_path / "cache" / "sweep"
    monkeypatch.setattr(cache, "on_remote_filesystem", lambda path: True)
    assert place() == temporary / f"sweep-cache-{os.getuid()}"


def test_folder_that_others_could_change_is_replaced_for_this_run(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A home of mode 0775 is common where every user has a private group."""
    home = make_folder(tmp_path / "home", 0o775)
    monkeypatch.setenv("SWEEP_CACHE_DIR", str(home / "cache"))
    first = place()
    assert first.is_relative_to(temporary)
    assert list(home.iterdir()) == []
    assert place() == first
    (message,) = caplog.messages
    assert f"for this run only: {home} belongs to user" in message
    assert f"mode 0775: chmod g-w {home}" in message
    home.chmod(0o755)
    assert place() == home / "cache"


def test_no_safe_folder_costs_a_warning_and_nothing_is_removed_later(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The path of an abandoned folder of this run may lead to anything at the end."""
    removed: list[object] = []
    monkeypatch.setattr("atexit.register", lambda *call: removed.append(call))
    temporary.chmod(0o777)
    monkeypatch.setenv("SWEEP_CACHE_DIR", str(temporary / "cache"))
    assert cache_folder() is None
    assert removed == []
    assert list(temporary.iterdir()) == []
    assert f"{temporary} belongs to user" in caplog.text


FOLDERS = """
import os, subprocess, sys
import sweep_clustering.kernels.jit
if len(sys.argv) < 2:
    subprocess.run([sys.executable, "-c", os.environ["SCRIPT"], "child"], check=True)
print(sweep_clustering.kernels.jit.FOLDER.path, os.path.isdir(sweep_clustering.kernels.jit.FOLDER.path))
"""


def test_processes_of_a_run_share_its_folder_which_ends_with_it(tmp_path: Path) -> None:
    shared = make_folder(tmp_path / "shared", 0o777)
    process = run(FOLDERS, tmp_path, SWEEP_CACHE_DIR=str(shared), SCRIPT=FOLDERS, TMPDIR=str(tmp_path))
    child, parent = process.stdout.splitlines()
    place, is_there = child.split()
    assert child == parent
    assert is_there == "True"
    assert not Path(place).parent.exists()
    assert len(process.stderr.splitlines()) == 1


def test_the_name_of_the_folder_is_of_all_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, original = copy_of_kernels(tmp_path), fingerprint()
    monkeypatch.setattr(cache, "__file__", str(package / "cache.py"))
    assert fingerprint() == original
    inner = package / "partition" / "statistics.py"
    inner.write_text(inner.read_text() + "# other\n")
    edited = fingerprint()
    inner.rename(inner.with_name("sums.py"))
    renamed = fingerprint()
    monkeypatch.setattr("numba.__version__", "another")
    assert len({original, edited, renamed, fingerprint()}) == 4


def test_remote_filesystems_are_known(tmp_path: Path) -> None:
    mounts, far = tmp_path / "mounts", tmp_path / "far away"
    escaped = str(far).replace(" ", "\\040")
    mounts.write_text(f"a / ext4 rw\nb {escaped} xfs rw\nb {escaped} nfs4 rw\nc {escaped}/scratch xfs rw\n")
    is_remote = {path: on_remote_filesystem(far / path, mounts) for path in ("..", "home", "scratch/x")}
    assert is_remote == {"..": False, "home": True, "scratch/x": False}
    assert not on_remote_filesystem(far, tmp_path / "no such table")


# One kernel in a folder of its own: each call of `kernel` is what another process would have.


@pytest.fixture
def kernel(folder: OwnFolder, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    monkeypatch.setattr("sweep_clustering.kernels.jit.FOLDER", folder)

    def add(x: Any) -> Any:
        return x + 1

    return lambda: jit(add)


def hits(kernel: Any) -> int:
    assert kernel(1) == 2
    return sum(kernel.stats.cache_hits.values())


def test_damaged_code_is_compiled_and_kept_again(folder: OwnFolder, kernel: Callable[[], Any]) -> None:
    assert [hits(kernel()) for _ in range(2)] == [0, 1]
    (file,) = folder.path.glob("*.kernel")
    for size in (0, 100):
        os.truncate(file, size)  # a power cut may leave it so
        assert [hits(kernel()) for _ in range(2)] == [0, 1]
    file.chmod(0o620)  # somebody else may have written it
    assert hits(kernel()) == 0


@pytest.mark.parametrize("full", [False, True])
def test_folder_that_cannot_be_written_any_more_costs_one_warning(
    folder: OwnFolder, kernel: Any, full: bool, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk shows when the first kernel is compiled, long after the folder was made."""
    if full:
        monkeypatch.setattr(os, "replace", Mock(side_effect=OSError(errno.ENOSPC, "no space left")))
    else:
        shutil.rmtree(folder.path)
    compiled = kernel()
    assert compiled(1) == 2
    assert compiled(1.5) == 2.5
    (message,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert f"not cached in {folder.path}" in message
    assert not folder.path.exists() or not list(folder.path.glob("*.kernel"))


@pytest.mark.parametrize("is_of_this_run", [False, True])
def test_a_folder_that_ends_with_the_run_is_not_named_as_one_of_later_calls(
    is_of_this_run: bool, folder: OwnFolder, kernel: Any, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sweep_clustering.kernels.cache")
    if is_of_this_run:
        monkeypatch.setenv(cache.RUN_FOLDER, str(folder.path.parent))
    assert hits(kernel()) == 0
    assert ("later calls" in caplog.text) is not is_of_this_run
    assert "compiling the kernels" in caplog.text


def test_wait_for_another_process_is_said_has_an_end_and_ends_with_the_code(
    folder: OwnFolder, kernel: Any, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that was stopped while it compiles must not stop all others."""
    caplog.set_level(logging.INFO, "sweep_clustering.kernels.cache")
    monkeypatch.setattr(cache, "SAY_AFTER", 0.1)
    monkeypatch.setattr(cache, "WAIT_AT_MOST", 0.3)
    with (folder.path / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process would hold this lock
        assert hits(kernel()) == 0
        compiling, waiting, tired = caplog.messages
        assert compiling.startswith("compiling the kernels")
        assert compiling.endswith(str(folder.path))
        assert "waiting for another process" in waiting
        assert tired.endswith("compiling them here too")
        assert hits(kernel()) == 1  # compiled code is there for others, lock or not
        assert len(caplog.messages) == 3
        # Waiting processes load the code as soon as it is there, though the lock is still held.
        (file,) = folder.path.glob("*.kernel")
        content = file.read_bytes()
        file.unlink()
        monkeypatch.setattr(cache, "WAIT_AT_MOST", 60.0)
        with ThreadPoolExecutor() as pool:
            hit = pool.submit(lambda: hits(kernel()))
            with pytest.raises(TimeoutError):
                hit.result(0.3)
            folder.write(file.name, content)
            assert hit.result(5) == 1


# Processes of a copy of the package, with a kernel that calls one of another module: outer(1) is 20.

INNER = "from sweep_clustering.kernels.jit import jit\n\n@jit\ndef inner(x):\n    return x + {}\n"
OUTER = """
from sweep_clustering.kernels.inner import inner
from sweep_clustering.kernels.jit import jit
@jit
def outer(x):
    return 10 * inner(x)
"""
CALL = (
    "from sweep_clustering.kernels.outer import outer; print(outer(1), sum(outer.stats.cache_hits.values()))"
)


def copy_of_kernels(folder: Path, **more: str) -> Path:
    package = folder / "sweep_clustering" / "kernels"
    shutil.copytree(ROOT / "kernels", package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("__init__.py", "installation.py"):
        shutil.copy(ROOT / "sweep_clustering" / name, package.parent)
    for name, text in more.items():
        (package / f"{name}.py").write_text(text)
    return package


def run(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process whose packages are in `folder`, if it has any."""
    home = folder if (folder / "sweep_clustering").is_dir() else ROOT
    variables = os.environ | {"PYTHONPATH": str(home), "PYTHONDONTWRITEBYTECODE": "1"} | environment
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=variables, cwd=home, capture_output=True, text=True, check=True)


def test_processes_share_code_until_a_source_changes(tmp_path: Path) -> None:
    package = copy_of_kernels(tmp_path / "copy", inner=INNER.format(1), outer=OUTER)
    cache_dir = tmp_path / "cache"

    def call(_: object = None) -> list[str]:
        return run(CALL, tmp_path / "copy", SWEEP_CACHE_DIR=str(cache_dir)).stdout.split()

    with ThreadPoolExecutor() as pool:
        assert sorted(pool.map(call, range(2))) == [["20", "0"], ["20", "1"]]  # only one of them compiles
    assert call() == ["20", "1"]
    (package / "inner.py").write_text(INNER.format(2))
    assert call() == ["30", "0"]
    assert {path.stat().st_mode & 0o777 for path in [cache_dir, *cache_dir.iterdir()]} == {0o700}
    assert len(list(cache_dir.iterdir())) == 2
    assert list(package.rglob("*.kernel")) == []


WARM = """
from sweep_clustering.kernels.search.genetic import run_search, warm_up
warm_up()
print(sum(run_search.stats.cache_misses.values()))
"""


@pytest.mark.heavy
def test_one_of_eight_processes_compiles_the_search(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        processes = pool.map(lambda _: run(WARM, tmp_path, SWEEP_CACHE_DIR=str(tmp_path / "cache")), range(8))
        assert sorted(int(process.stdout) for process in processes) == [0] * 7 + [1]


# Another user plants files.

VICTIM = """
import os, sys
import queue
import llvmlite.binding, numba
# This loads all of the compiler: the other user may be unable to read where it is installed.
numba.njit(lambda x: x + 1)(1)
user = int(sys.argv[1])
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
import sweep_clustering.kernels.cache
sweep_clustering.kernels.cache.on_remote_filesystem = lambda path: True
import sweep_clustering.kernels.jit
print("ready", flush=True)
sys.stdin.readline()
from sweep_clustering.kernels.outer import outer
print(outer(1))
"""
SWAP = """
umask 0
mv "$1" "$2" || true
mkdir -p "$1"
cd "$1"
payload=$3
shift 3
for name in "$@"; do cp "$payload" "$name"; done
"""
MADE = ("mkdir -m 1777 $1", "mkdir -m 1777 $2; ln -s $2 $1", "mkdir -m 777 $1")


SLOW = [pytest.param(*case, marks=pytest.mark.slow) for case in itertools.product((SOMEBODY, 0), MADE)][1:]


@needs_root
@pytest.mark.parametrize(("victim", "squat"), [(SOMEBODY, MADE[0]), *SLOW])
def test_planted_files_are_not_unpickled(victim: int, squat: str, tmp_path: Path) -> None:
    """Another user makes the folder first, waits for the victim's own in it, swaps that and fills it."""
    with open_folder() as top:
        copy_of_kernels(top / "copy", inner=INNER.format(1), outer=OUTER)
        temporary, marker = make_folder(top / "temporary", 0o1777), make_folder(top / "marker", 0o1777)
        environment = os.environ | {"PYTHONPATH": str(top / "copy"), "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= {"HOME": str(temporary), "TMPDIR": str(temporary)}
        environment.pop("SWEEP_CACHE_DIR", None)
        # What the files are called is no secret: the attacker runs the program too.
        run(
            "from sweep_clustering.kernels.outer import outer; outer(1)",
            top / "copy",
            SWEEP_CACHE_DIR=str(tmp_path / "own"),
        )
        (leaf,) = (tmp_path / "own").iterdir()
        names = [path.name for path in leaf.iterdir()]
        assert len(names) > 1
        payload, target = top / "payload", temporary / f"sweep-cache-{victim}"
        payload.write_bytes(f"cos\nmkdir\n(V{marker / 'ran'}\ntR.".encode())  # unpickled, it leaves a mark
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        do_as(STRANGER, squat, target, temporary / "elsewhere")
        command = [sys.executable, "-c", VICTIM, str(victim)]
        process = subprocess.Popen(command, env=environment, cwd=top, text=True, **streams)  # type: ignore[call-overload]
        assert process.stdout.readline() == "ready\n"
        do_as(STRANGER, SWAP, target / leaf.name, target / "old", payload, *names)
        stdout, stderr = process.communicate("\n")
        assert stdout == "20\n"
        assert list(marker.iterdir()) == []
        (message,) = stderr.splitlines()
        assert f"{target} belongs to user {STRANGER} and group {STRANGER}, mode " in message
