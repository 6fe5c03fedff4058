"""A Grid Engine of one host runs on this machine, in a new folder and on free ports of loopback."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from processes.slurm_site import end_daemons, free_ports, run, run_daemons

ROOT = Path("/var/lib/gridengine")
SHARED = Path("/usr/share/gridengine")
PROGRAMS = Path("/usr/lib/gridengine")
DAEMONS = ("sge_qmaster", "sge_execd")
COMMANDS = ("qsub", "qstat", "qdel", "qconf")
SLOTS = 4
NOTICE = 10
"""Seconds between the signal that a job is to end, and its end."""

BOOTSTRAP = """\
admin_user none
default_domain none
ignore_fqdn false
spooling_method berkeleydb
spooling_lib libspoolb
spooling_params {home}/spooldb
binary_path /usr/sbin
qmaster_spool_dir {home}/qmaster
security_mode none
listener_threads 2
worker_threads 2
scheduler_threads 1
"""
SETTINGS = {"execd_spool_dir": "{home}/execd", "min_uid": "0", "min_gid": "0", "load_report_time": "0:0:1"}
SCHEDULER = {"schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1"}
ENVIRONMENT = """\
pe_name smp
slots 999
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule $pe_slots
control_slaves FALSE
job_is_first_task TRUE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
"""
QUEUE = {
    "qname": "main.q",
    "hostlist": "localhost",
    "slots": str(SLOTS),
    "pe_list": "smp",
    "load_thresholds": "NONE",
    "notify": f"0:0:{NOTICE}",
    # As many sites have it: a script that does not name its shell gets this one.
    "shell": "/bin/csh",
}


@contextmanager
def grid_engine() -> Iterator[Path]:
    """Run the daemons; the variables of Grid Engine point at the site meanwhile. Yields its folder.

    Skips the test where Grid Engine is not installed, needs another user, or does not start.
    """
    missing = [name for name in (*DAEMONS, *COMMANDS) if shutil.which(name) is None]
    if missing or not PROGRAMS.is_dir():
        pytest.skip(f"Grid Engine is not installed here: no {', '.join(missing) or PROGRAMS}")
    if os.geteuid() != 0:
        pytest.skip("the daemons of Grid Engine need root to start jobs")
    home = Path(tempfile.mkdtemp(prefix="sge-"))
    home.chmod(0o755)
    manager, executor = map(str, free_ports(2))
    variables = {"SGE_ROOT": str(home), "SGE_CELL": "default"}
    variables |= {"SGE_QMASTER_PORT": manager, "SGE_EXECD_PORT": executor}
    with run_daemons("Grid Engine", home, variables, _start, _stop):
        yield home


def queue() -> list[str]:
    """Return the names of the jobs in the queue."""
    return re.findall("<JB_name>(.*)</JB_name>", run("qstat", "-xml", "-u", "root"))


def _start(home: Path) -> None:
    for name in ("bin", "lib", "util", "utilbin"):
        (home / name).symlink_to(ROOT / name)
    common = home / "default" / "common"
    for folder in (common, home / "spooldb", home / "qmaster" / "job_scripts", home / "execd"):
        folder.mkdir(parents=True)
    (common / "bootstrap").write_text(BOOTSTRAP.format(home=home))
    (common / "act_qmaster").write_text("localhost\n")
    # The daemons refuse a host name whose address is that of loopback, unless it stands for localhost.
    (common / "host_aliases").write_text(f"localhost {socket.gethostname()}\n")
    settings = _change_lines((SHARED / "default-configuration").read_text(), SETTINGS).format(home=home)
    (home / "settings").write_text(settings)
    run(str(PROGRAMS / "spoolinit"), "berkeleydb", "libspoolb", str(home / "spooldb"), "init")
    defaults = {
        "configuration": home / "settings",
        "complexes": SHARED / "util/resources/centry",
        "usersets": SHARED / "util/resources/usersets",
        "managers": "root",
    }
    for kind, source in defaults.items():
        run(str(PROGRAMS / "spooldefaults"), kind, str(source))
    run("sge_qmaster")
    _wait("qconf", "-sh")
    for choice in ("-ah", "-as"):
        run("qconf", choice, "localhost")
    (home / "scheduler").write_text(_change_lines(run("qconf", "-ssconf"), SCHEDULER))
    run("qconf", "-Msconf", str(home / "scheduler"))
    for choice, text in (("-Ap", ENVIRONMENT), ("-Aq", _change_lines(run("qconf", "-sq"), QUEUE))):
        (home / "object").write_text(text)
        run("qconf", choice, str(home / "object"))
    run("sge_execd")
    _wait("qhost", "-h", "localhost", says="lx-")


def _change_lines(text: str, values: dict[str, str]) -> str:
    """Return lines of keys and values with other values for some of the keys."""
    for key, value in values.items():
        text, count = re.subn(rf"(?m)^{key}\s.*$", lambda _: f"{key} {value}", text)  # noqa: B023
        assert count == 1, key
    return text


def _wait(*command: str, says: str = "") -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        if not process.returncode and says in process.stdout:
            return
        time.sleep(0.1)
    raise TimeoutError(f"{' '.join(command)}: {process.stdout}{process.stderr}")


def _stop(home: Path) -> None:
    subprocess.run(["qdel", "-f", "-u", "root"], capture_output=True, check=False, timeout=30)
    # The manager would take ten seconds to write what nobody reads.
    end_daemons([home / "execd/localhost/execd.pid", home / "qmaster/qmaster.pid"], patience=1)
