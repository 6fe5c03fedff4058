"""The submit command: everything is checked, then the sweep is run, handed over, or only shown."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from pipeline.cluster.profiles import Profile, load_profile
from pipeline.common import COMPLETE, at_hand, own_names
from pipeline.jobs.head import head_script
from pipeline.jobs.keys import JobQueue, SlurmQueue
from pipeline.run.head import run_head
from pipeline.run.request import Options, Request, Wanted, prepare
from pipeline.submit.detach import detach, detach_problems, head_command
from pipeline.submit.notes import note_lines, search_notes, sweep_notes
from pipeline.submit.overview import plan_overview
from sweep_clustering import check_shadowing
from sweeps.errors import InputError, Problem, collecting
from sweeps.plan import find_cells

logger = logging.getLogger(__name__)


def submit(
    path: Path,
    options: Options,
    console: Console,
    *,
    show_plan: Callable[[dict[str, Any]], object] | None = None,
) -> int:
    """Run what is left of a sweep.

    Parameters
    ----------
    path : Path
        Sweep file.
    options : Options
        Runtime choices.
    console : Console
        Where progress is shown; warnings and results go through logging.
    show_plan : callable or None
        Takes the plan of a dry run as plain values; None to show it on the console.

    Returns
    -------
    int
        0 complete (or handed over, with `detach`), 1 stopped by a failing disk, a lost lease or a held one,
        3 finished with failed cells (with `strict`, also when data sets were skipped), 128 + n stopped by
        signal n.

    Raises
    ------
    sweeps.errors.InputError
        Bad input; nothing was started and nothing written.
    """
    check_shadowing()
    request = _checked(path, options)
    prepared = request.prepared
    if (without := at_hand(prepared.spec, prepared.inputs.skipped)) is not None:
        logger.warning("%s", without)
    if options.dry_run and show_plan is not None:
        show_plan(plan_overview(prepared, workers=options.workers or None).to_dict())
        return COMPLETE
    if options.dry_run:
        for line in _dry_run(request):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        return COMPLETE
    for line in note_lines(search_notes(prepared.spec), sweep_notes(prepared)):
        logger.warning(line)
    return detach(request) if options.detach else run_head(request, console)


def _checked(path: Path, options: Options) -> Request:
    problems: list[Problem] = []
    profile: Profile | None = None
    wanted: Wanted | None = None
    with collecting(problems):
        prepared = prepare(path, results=options.results, data_dir=options.data_dir)
        wanted = Wanted(options.retry_failed, find_cells(options.only, prepared.inputs.plans))
    with collecting(problems):
        own_names()
    with collecting(problems):
        profile = None if options.workers == 0 else load_profile(options.profile, options.cluster_file)
    if problems or wanted is None:
        raise InputError(problems)
    request = Request(path, prepared, wanted, profile, options)
    if options.detach and (problems := detach_problems(request)):
        raise InputError(problems)
    return request


def _dry_run(request: Request) -> list[str]:
    prepared, profile, workers = request.prepared, request.profile, request.options.workers
    if profile is None or not isinstance(profile.options, JobQueue):
        return plan_overview(prepared, workers=workers).lines()
    # Imported here, so that a run without worker jobs does not load the scheduler.
    from pipeline.submit.jobplan import plan_jobs

    options = profile.options
    n_jobs = workers or options.workers
    jobs = plan_jobs(options, prepared, where=profile.where, n_jobs=n_jobs)
    lines = [*plan_overview(prepared, workers=n_jobs * options.cores).lines(), "", *jobs.lines()]
    if request.options.detach and isinstance(options, SlurmQueue):
        script = head_script(options, prepared.run, head_command(request))
        lines += ["", "the head would be a job of this script:", "", *script.splitlines()]
    return lines
