"""Machine code on disk: fresh after an edit, made by one process at a time, never in the way."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes.other_user import SOMEBODY, STRANGER, do_as, needs_root, open_folder, user

import kernels
from kernels.cache import OwnFolder, cache_folder, fingerprint, on_remote_filesystem, open_trusted

INNER = "from kernels.jit import jit\n\n@jit\ndef inner(x):\n    return x + {}\n"
OUTER = (
    "from kernels.inner import inner\nfrom kernels.jit import jit\n\n"
    "@jit\ndef outer(x):\n    return 10 * inner(x)\n"
)


def copy_of_kernels(folder: Path) -> Path:
    """The package in `folder`, with a kernel that calls one of another module: outer(1) is 20."""
    package = folder / "kernels"
    source = Path(kernels.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "inner.py").write_text(INNER.format(1))
    (package / "outer.py").write_text(OUTER)
    return package


# Folders that nobody else can change or replace: every step of the way to them is looked at.


@pytest.fixture
def top() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


def trusts(path: Path) -> bool:
    """Whether `path` is opened, and then is that folder."""
    try:
        descriptor = open_trusted(path)
    except PermissionError:
        return False
    try:
        assert os.path.samestat(os.fstat(descriptor), path.stat())
    finally:
        os.close(descriptor)
    return True


def test_missing_folders_are_made_for_the_user_alone(tmp_path: Path) -> None:
    assert trusts(tmp_path / "a" / "b")
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "a", tmp_path / "a" / "b")] == [0o700] * 2
    assert trusts(tmp_path / "a" / ".." / "a" / "b")
    assert trusts(Path("/"))


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o2775])
def test_folder_on_the_way_that_others_may_write_to(tmp_path: Path, mode: int) -> None:
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(mode)
    with pytest.raises(
        PermissionError, match=rf"{above} belongs to user \d+ and group \d+, mode {mode:04o}"
    ) as found:
        open_trusted(above / "x" / "y")
    assert str(found.value).endswith(f"chmod {'go' if mode & 2 else 'g'}-w {above}")
    assert list(above.iterdir()) == []
    with pytest.raises(PermissionError):
        open_trusted(above)


def test_sticky_folder_may_be_passed_and_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert trusts(tmp_path / "own")
    assert not trusts(tmp_path)


def test_links_of_the_user_are_followed_step_by_step(tmp_path: Path) -> None:
    real = tmp_path / "data" / "real"
    real.mkdir(parents=True)
    (tmp_path / "absolute").symlink_to(real)
    (tmp_path / "relative").symlink_to("data/../data/real")
    (tmp_path / "chain").symlink_to("absolute")
    for name in ("absolute", "relative", "chain"):
        assert trusts(tmp_path / name / name)
        assert (real / name).is_dir()
    (tmp_path / "data").chmod(0o777)
    for name in ("absolute", "relative", "chain"):
        assert not trusts(tmp_path / name / name)
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="symbolic links"):
        open_trusted(tmp_path / "round" / "x")


@needs_root
@pytest.mark.parametrize("victim", [0, SOMEBODY])
@pytest.mark.parametrize(
    "attack",
    [
        "mkdir -m 700 $1/x",
        "mkdir -m 1777 $1/x",
        "mkdir -m 755 $1/real; ln -s $1/real $1/x",
        "ln -s /usr/lib $1/x",
        "ln -s $2 $1/x",
    ],
)
def test_what_another_user_made_is_refused(top: Path, victim: int, attack: str) -> None:
    """In a temporary folder, where everybody may make entries but nobody rename those of others."""
    shared, own = top / "shared", top / "own"
    shared.mkdir()
    shared.chmod(0o1777)
    own.mkdir()
    os.chown(own, victim, victim)
    do_as(STRANGER, attack, shared, own)
    with user(victim):
        assert not trusts(shared / "x" / "y")
        assert trusts(shared / "mine" / "y")
        assert trusts(own / "y")


@needs_root
def test_links_of_root_are_followed(top: Path) -> None:
    """As `/home -> /data/home`, for every user."""
    home = top / "data" / "home" / "somebody"
    home.mkdir(parents=True)
    os.chown(home, SOMEBODY, SOMEBODY)
    (top / "home").symlink_to("data/home")
    (top / "tmp").symlink_to(top / "data")
    # Folders on the way need not be readable.
    (top / "data").chmod(0o711)
    with user(SOMEBODY):
        assert trusts(top / "home" / "somebody" / ".cache")
        assert trusts(top / "tmp" / "home" / "somebody" / ".cache")
    assert not trusts(top / "data" / "home" / "somebody" / ".cache")
    os.chown(top / "home", STRANGER, STRANGER, follow_symlinks=False)
    with user(SOMEBODY):
        assert not trusts(top / "home" / "somebody" / ".cache")


@pytest.fixture
def folder(tmp_path: Path) -> OwnFolder:
    return OwnFolder(tmp_path / "root", "leaf")


def test_files_of_the_user_alone_are_read(folder: OwnFolder) -> None:
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert list(folder.path.iterdir()) == []
    assert not folder.holds("x")
    assert folder.read("x") is None
    before = os.umask(0)
    try:
        folder.write("x", b"first")
        folder.write("x", b"second")
    finally:
        os.umask(before)
    assert folder.holds("x")
    assert folder.read("x") == b"second"
    assert [path.name for path in folder.path.iterdir()] == ["x"]
    assert (folder.path / "x").stat().st_mode & 0o777 == 0o600
    folder.remove("x")
    folder.remove("x")
    assert not folder.holds("x")


def link(path: Path) -> None:
    path.rename(path.with_name("real"))
    path.symlink_to("real")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def others(path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(path, STRANGER, STRANGER)
    else:
        path.chmod(0o620)


@pytest.mark.parametrize("change", [link, pipe, directory, others, lambda path: path.chmod(0o620)])
def test_files_that_are_strange_are_not_read(folder: OwnFolder, change: Callable[[Path], None]) -> None:
    folder.write("x", b"content")
    change(folder.path / "x")
    assert not folder.holds("x")
    assert folder.read("x") is None
    with pytest.raises(OSError), folder.opened("x", os.O_RDONLY):  # noqa: PT011  # PermissionError, or what the system says
        pass


def test_path_that_is_swapped_later_leads_nowhere_else(folder: OwnFolder) -> None:
    folder.write("x", b"content")
    moved = folder.path.with_name("moved")
    folder.path.rename(moved)
    folder.path.mkdir(mode=0o700)
    (folder.path / "x").write_bytes(b"planted")
    assert folder.read("x") == b"content"
    folder.write("y", b"content")
    assert (moved / "y").exists()
    assert not (folder.path / "y").exists()


def test_folder_itself_is_no_link_and_closed_to_others(tmp_path: Path) -> None:
    leaf = tmp_path / "leaf"
    leaf.mkdir(mode=0o750)
    with pytest.raises(PermissionError, match=f"mode 0750: chmod 700 {leaf}"):
        OwnFolder(tmp_path, "leaf")
    leaf.rename(tmp_path / "real")
    leaf.symlink_to("real")
    with pytest.raises(NotADirectoryError):
        OwnFolder(tmp_path, "leaf")


def test_a_relative_path_is_walked_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who can write to the working directory can replace what lies in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cache").mkdir(mode=0o700)
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match="mode 0777"):
        OwnFolder(Path("cache"), "kernels")


# Where machine code is kept: in a directory of ours alone, named after what it depends on.


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder, away from that of the machine; no folder of this run."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("SWEEP_CACHE_OF_THIS_RUN", "")  # set by what is tested; so it is taken back
    return folder


def test_the_folder_is_that_of_the_user_or_a_local_one(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parent() -> Path:
        folder = cache_folder()
        assert folder is not None
        assert folder.path.name == f"kernels-{fingerprint()}"
        return folder.path.parent

    monkeypatch.setenv("SWEEP_CACHE_DIR", str(tmp_path / "root"))
    assert parent() == tmp_path / "root"
    monkeypatch.delenv("SWEEP_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert parent() == tmp_path / "cache" / "sweep"
    monkeypatch.setattr("kernels.cache.on_remote_filesystem", lambda path: True)
    assert parent() == temporary / f"sweep-cache-{os.getuid()}"


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


def test_no_safe_folder_costs_a_warning_and_nothing_is_removed_later(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The place of a folder for this run, in nobody's care, may lead to anything at the end."""
    removed: list[object] = []
    monkeypatch.setattr("atexit.register", lambda *call: removed.append(call))
    temporary.chmod(0o777)
    monkeypatch.setenv("SWEEP_CACHE_DIR", str(temporary / "cache"))
    assert cache_folder() is None
    assert (removed, list(temporary.iterdir())) == ([], [])
    assert f"{temporary} belongs to user" in caplog.text


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
import kernels.cache
kernels.cache.on_remote_filesystem = lambda path: True
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


MADE = ("mkdir -m 1777 $1", "mkdir -m 1777 $2; ln -s $2 $1", "mkdir -m 777 $1")


@needs_root
@pytest.mark.parametrize(
    ("victim", "made"),
    [
        pytest.param(victim, made, marks=[pytest.mark.heavy] * ((victim == 0) != (made == MADE[0])))
        for victim in (0, SOMEBODY)
        for made in MADE
    ],
)
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


CALL = "from kernels.outer import outer; print(outer(1), sum(outer.stats.cache_hits.values()))"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package with a kernel that calls one of another module."""
    return copy_of_kernels(tmp_path / "copy")


def environment(package: Path, cache: Path) -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": str(package.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SWEEP_CACHE_DIR": str(cache),
    }


def call(package: Path, cache: Path, code: str = CALL) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=package.parent,
        env=environment(package, cache),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_code_is_kept_until_a_source_changes_or_it_is_damaged(package: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    compiling, end = call(package, cache, told()).stdout.splitlines()
    assert compiling.startswith("kernels.cache compiling the kernels")
    assert compiling.endswith(str(next(cache.iterdir())))
    assert end == "end"
    assert call(package, cache).stdout.split() == ["20", "1"]
    for left, file in zip((0, 100), cache.rglob("*outer*.kernel"), strict=False):
        os.truncate(file, left)  # as a power cut may leave it
    assert call(package, cache).stdout.split() == ["20", "0"]
    assert call(package, cache).stdout.split() == ["20", "1"]
    (package / "inner.py").write_text(INNER.format(2))
    assert call(package, cache).stdout.split() == ["30", "0"]
    assert len(list(cache.iterdir())) == 2
    assert {path.stat().st_mode & 0o777 for path in [cache, *cache.iterdir()]} == {0o700}
    assert list(package.rglob("*.kernel")) == []


FULL = """
import resource, shutil
import kernels.jit
from kernels.outer import outer
if {removed}:
    shutil.rmtree(kernels.jit.FOLDER.path)
    kernels.jit.FOLDER.path.parent.rmdir()
    kernels.jit.FOLDER.path.parent.write_text("")
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
print(outer(1), outer(1.5))
"""


@pytest.mark.parametrize("removed", [False, True])
def test_folder_that_cannot_be_written_any_more_costs_one_warning(
    package: Path, tmp_path: Path, removed: bool
) -> None:
    """A full disk shows when the first kernel is compiled, long after the folder was made."""
    done = call(package, tmp_path / "cache", FULL.format(removed=removed))
    assert done.stdout.split() == ["20", "25.0"]
    (said,) = done.stderr.splitlines()
    assert str(tmp_path / "cache" / "kernels-") in said
    assert "SWEEP_CACHE_DIR" in said


def test_processes_starting_at_once_share_one_empty_directory(package: Path, tmp_path: Path) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", CALL],
            cwd=package.parent,
            env=environment(package, tmp_path / "cache"),
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    outputs = [process.communicate()[0].split()[0] for process in started]
    assert [process.returncode for process in started] == [0] * 4
    assert outputs == ["20"] * 4


TOLD = """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(name)s %(message)s")
import kernels.cache
kernels.cache.SAY_AFTER, kernels.cache.WAIT_AT_MOST = {waits}
from kernels.outer import outer
for x in (1, 1.5):
    outer(x)
print("end", flush=True)
"""


def told(*, waits: tuple[float, float] = (60.0, 60.0)) -> str:
    return TOLD.format(waits=waits)


HOLD = """
import fcntl, sys
import kernels.jit
file = open(kernels.jit.FOLDER.path / "lock", "wb")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""


def start(package: Path, cache: Path, code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=package.parent,
        env=environment(package, cache),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_wait_for_another_process_is_said_and_has_an_end(package: Path, tmp_path: Path) -> None:
    """A process that was stopped while it compiles must not stop all others."""
    cache = tmp_path / "cache"
    holder = start(package, cache, HOLD)
    try:
        assert first_line(holder) == "held\n"
        compiling, waiting, tired, *_, end = call(package, cache, told(waits=(0.2, 0.5))).stdout.splitlines()
        # What it compiled is there for others, lock or not.
        assert call(package, cache, told()).stdout == "end\n"
    finally:
        holder.communicate("\n")
    assert compiling.startswith("kernels.cache compiling the kernels")
    assert waiting.startswith("kernels.cache waiting for another process")
    assert tired.endswith("compiling them here too")
    assert end == "end"


def test_wait_ends_as_soon_as_the_code_is_there(package: Path, tmp_path: Path) -> None:
    """Though the lock is held on: those that wait load side by side, not in turn."""
    cache = tmp_path / "cache"
    holder = start(package, cache, HOLD)
    waiting = []
    try:
        assert first_line(holder) == "held\n"
        waiting = [start(package, cache, told(waits=(0.1, 60.0))) for _ in range(2)]
        for process in waiting:
            assert "compiling" in first_line(process)
            assert "waiting" in first_line(process)
        call(package, cache, told(waits=(60.0, 0.0)))
        began = time.monotonic()
        outputs = [process.communicate()[0] for process in waiting]
        assert time.monotonic() - began < 30
        assert outputs == ["end\n"] * 2
    finally:
        for process in (holder, *waiting):
            process.kill()
            process.communicate()


WARM = """
from kernels.search.genetic import _search, warm_up
warm_up()
print(sum(_search.stats.cache_misses.values()))
"""


@pytest.mark.heavy
def test_one_of_eight_processes_compiles_the_search(tmp_path: Path) -> None:
    package = Path(kernels.__file__).parent
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WARM],
            env=environment(package, tmp_path / "cache"),
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    misses = [int(process.communicate()[0]) for process in started]
    assert [process.returncode for process in started] == [0] * 8
    assert sorted(misses) == [0] * 7 + [1]
