"""The `sweep datasets` commands."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.commands.options import data_dir_option, json_option, next_step, reported
from pipeline.common import COMPLETE, INTERNAL
from sweeps.errors import InputError, not_one_of

if TYPE_CHECKING:
    from sweeps.data.builtin import Record

names_argument = click.argument("names", nargs=-1, metavar="[NAME]...")


@click.group()
def datasets() -> None:
    """List, fetch and check the data sets known by name."""


@datasets.command("list")
@data_dir_option
@json_option
def list_datasets(data_dir: Path | None, as_json: bool) -> None:
    """Show sizes, licence, and where each data set would come from on this machine."""
    from sweeps.data.builtin import catalogue

    with reported():
        records = catalogue(data_dir)
    if as_json:
        click.echo(json.dumps([asdict(record) for record in records], indent=2))
        return
    click.echo(f"{'name':<16}{'N':>6}{'D':>4}{'K':>4}  source")
    for record in records:
        source = record.source or "not on this machine: sweep datasets fetch"
        click.echo(
            f"{record.name:<16}{record.n_samples:>6}{record.n_features:>4}{record.n_clusters:>4}  {source}"
        )
        click.echo(f"{'':<32}{record.licence}; {record.landing_page}")
        for reason in () if record.source else record.reasons:
            click.echo(f"{'':<32}{reason}")
    missing = not all(record.source for record in records)
    next_step(*(("datasets", "fetch") if missing else ("submit", "sweeps/uci.toml")))


@datasets.command("fetch")
@names_argument
@data_dir_option
def fetch_datasets(names: tuple[str, ...], data_dir: Path | None) -> None:
    """Download what is not on this machine yet (all by default), for nodes without a network."""
    from sweeps.data.builtin import Unavailable, find

    failed = False
    with reported():
        for name in _known(names):
            try:
                click.echo(f"{name}: {find(name, data_dir=data_dir).path}")
            except Unavailable as unavailable:
                failed = True
                click.echo(f"{name}: not available: {'; '.join(unavailable.reasons)}", err=True)
    if not failed:
        next_step("submit", "sweeps/uci.toml")
    sys.exit(INTERNAL if failed else COMPLETE)


@datasets.command("check")
@names_argument
@data_dir_option
@json_option
def check_datasets(names: tuple[str, ...], data_dir: Path | None, as_json: bool) -> None:
    """Verify the checksums of what is on this machine; exit with 1 if something is missing or damaged."""
    from sweeps.data.builtin import catalogue

    with reported():
        wanted = set(_known(names))
        records = [record for record in catalogue(data_dir) if record.name in wanted]
    if as_json:
        click.echo(json.dumps([asdict(record) for record in records], indent=2))
    else:
        for record in records:
            click.echo(_checked(record))
        missing = [record.name for record in records if not record.source]
        next_step(*(("datasets", "fetch", *missing) if missing else ("submit", "sweeps/uci.toml")))
    sys.exit(COMPLETE if all(record.source for record in records) else INTERNAL)


def _known(names: tuple[str, ...]) -> tuple[str, ...]:
    from sweeps.data.registry import BUILTIN

    unknown = [name for name in names if name not in BUILTIN]
    if unknown:
        raise InputError(not_one_of("NAME", name, BUILTIN) for name in unknown)
    return names or tuple(BUILTIN)


def _checked(record: Record) -> str:
    if record.source:
        return f"{record.name}: good, {record.source}"
    return f"{record.name}: MISSING: {'; '.join(record.reasons)}"
