"""`sweep schema`: what an editor needs to complete and check the files people write."""

from __future__ import annotations

import click


@click.command()
@click.option("--cluster", is_flag=True, help="Of cluster.yaml, in place of the sweep file.")
def schema(cluster: bool) -> None:
    """Print the JSON Schema of the sweep file."""
    if cluster:
        from pipeline.cluster.profiles import cluster_schema

        click.echo(cluster_schema(), nl=False)
    else:
        from sweeps.file.reading import sweep_schema

        click.echo(sweep_schema(), nl=False)
