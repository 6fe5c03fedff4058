"""The recipe of conda-forge agrees with the project, and the container image has its command."""

import re
import tomllib

import rattler_build
from checkout import ROOT
from packaging.requirements import Requirement

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Rendered as a build begins: rattler-build refuses keys, versions and templates that it does not know.
(RENDERED,) = rattler_build.Stage0Recipe.from_file(ROOT / "distribution" / "recipe.yaml").render(
    rattler_build.VariantConfig()
)
RECIPE = RENDERED.recipe.to_dict()
# Packages of conda-forge that have another name.
NAMES = {"dask": "dask-core", "matplotlib": "matplotlib-base"}


def test_the_recipe_has_the_requirements_of_the_project() -> None:
    recipe = {(item.name, item.specifier) for item in map(Requirement, RECIPE["requirements"]["run"][1:])}
    project = {
        (NAMES.get(item.name, item.name), item.specifier)
        for item in map(Requirement, PROJECT["dependencies"])
    }
    assert recipe == project


def test_the_recipe_has_the_version_the_python_and_the_command_of_the_project() -> None:
    assert RECIPE["context"]["version"] == PROJECT["version"]
    assert PROJECT["requires-python"] == f">={RECIPE['context']['python_min']}"
    (command,) = PROJECT["scripts"].items()
    assert RECIPE["build"]["python"]["entry_points"] == [" = ".join(command)]
    assert RECIPE["about"]["summary"] == PROJECT["description"]
    assert RECIPE["about"]["license"] == PROJECT["license"]
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert {re.sub(r"\s", "", line) for line in RECIPE["requirements"]["host"][2:]} == set(build)


def test_the_image_has_an_entry_that_the_project_installs() -> None:
    text = (ROOT / "distribution" / "Containerfile").read_text(encoding="utf-8")
    (entry,) = re.findall(r'^ENTRYPOINT \["(\w+)"\]$', text, re.MULTILINE)
    assert entry in PROJECT["scripts"]
    (extras,) = re.findall(r'"/checkout\[([\w,]+)\]"', text)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
