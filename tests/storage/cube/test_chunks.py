"""Chunk files hold known blocks as zarr writes them, and no other file is one."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import zarr
from cubes.small import draw_inputs, files, filled_cube, make_plan
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs import Zstd

from sweep_clustering.storage.cube import chunks as chunk_files
from sweep_clustering.storage.cube.growth import render
from sweep_clustering.storage.cube.schema import VARIABLES, array_specs, coordinate_values
from sweep_clustering.sweeps.plan import DatasetPlan, MethodPlan

MODELS = ("likelihood", "posterior-auto", "conditional")


@st.composite
def plans(draw: st.DrawFn) -> DatasetPlan:
    chunk = st.integers(1, 3)
    mixture_chunk, model_chunk = draw(chunk), draw(st.sampled_from([1, 2]))
    return make_plan(
        "a",
        p=draw(st.permutations([0.7, 0.8, 0.95]))[: draw(st.integers(1, 3))],
        m=draw(st.permutations([2, 4, 9]))[: draw(st.integers(1, 3))],
        mixtures=draw(st.sampled_from([None, mixture_chunk * draw(chunk)])),
        mixture_chunk=mixture_chunk,
        replicates=draw(st.integers(1, 6)),
        replicate_chunk=draw(chunk),
        models=MODELS[: model_chunk * draw(st.integers(1, 2 // model_chunk))],
        model_chunk=model_chunk,
        baselines=("unsupervised", "unsupervised-full")[: draw(st.integers(0, 2))],
        designs=draw(st.sampled_from([("uniform",), ("active",), ("active", "uniform", "biased")])),
        searches=draw(st.sampled_from([(), ("quick", "long"), ("a", "b", "c")])),
        methods=draw(st.sampled_from([(), (MethodPlan("unsupervised-full", 1),)])),
    )


@settings(max_examples=40, deadline=None)
@given(plans())
def test_blocks_tile_each_node_and_each_file_leads_back_to_them(plan: DatasetPlan) -> None:
    metadata = render([plan], {}, lambda plan: None)[0]
    if "a/annotations" in metadata:  # made for an m of three
        metadata["a/annotations"]["chunk_grid"]["configuration"]["chunk_shape"][-2] = 3
    chunks, there = chunk_files.ChunkFiles(Path(), [plan], metadata), set[str]()
    chunks._content = lambda key: b"" if key in there else None  # type: ignore[method-assign]
    shapes = {spec.node: spec for spec in array_specs(plan) if spec.variable.name == "status"}
    hits = {path: np.zeros(spec.shape, int) for path, spec in shapes.items()}
    for block in plan.blocks():
        path = block.node.path
        hits[path][block.region] += 1
        (status,), lengths, _ = chunks.layout(block, "status")
        ((labels,), *_) = chunks.layout(block, "labels")
        for cell, index in zip(block.cells(), np.ndindex(*lengths), strict=True):
            for dim, part, at in zip(block.node.stored, block.region, index, strict=True):
                assert dim.values[part.start + at] == getattr(cell, dim.name)
        held_out = labels.replace("labels", "held_out")
        assert list(chunks.blocks(labels)) == list(chunks.blocks(status)) == [block]
        assert str(block.first) in chunks.name(labels)
        annotation_files = chunks.layout(block, "annotations")[0] if block.first.m else []
        assert len(annotation_files) == -(-(block.first.m or 0) // 3)
        assert all(block in chunks.blocks(key) for key in annotation_files)
        assert not any(map(chunks.is_expected, (labels, *annotation_files)))
        there.add(status)
        assert all(map(chunks.is_expected, (labels, *annotation_files)))
        assert not chunks.is_expected(status)
        assert chunks.is_expected(held_out) == ("posterior-auto" in block.models)
        there.clear()
    assert all((count == 1).all() for count in hits.values())
    for key in ("a/X/c.0.0", "a/p/c.0"):
        assert list(chunks.blocks(key)) == []
        assert chunks.is_expected(key) == ("a/p" not in key or plan.supervised)
    there.add("a/status/c")
    files = ("c.0.0.partial", "c.-1", "c.", "zarr.json", "d.0.0")
    for key in ("zarr.json", "a/zarr.json", "b/X/c.0.0", "a/other/c.0", *(f"a/X/{name}" for name in files)):
        assert not chunks.is_expected(key)


def test_zarr_writes_the_same_bytes(tmp_path: Path) -> None:
    """Zarr reads each array and writes it back, also in chunks that the array ends within."""
    grid = {"p": (0.9, 0.8), "m": (6, 4), "replicates": 3, "replicate_chunk": 2}
    plans = [make_plan("a", **grid, feature_names=("é", "y")), make_plan("b", mixtures=4, mixture_chunk=2)]
    filled_cube(tmp_path / "x.zarr", plans)
    before = files(tmp_path)
    with zarr.config.set({"array.write_empty_chunks": True}):
        for plan in plans:
            X, labels = draw_inputs(plan)
            expected = coordinate_values(plan) | {"X": X, "labels_true": labels}
            for spec in array_specs(plan):
                array = zarr.open_array(tmp_path / "x.zarr" / spec.path, mode="r+")
                assert array.shape == spec.shape
                assert array.chunks == spec.chunks
                assert (array.metadata.dimension_names or ()) == spec.dims
                values = array[...]
                if spec.path.rpartition("/")[0] == plan.name and spec.variable.name in expected:
                    assert np.asarray(values).tolist() == expected[spec.variable.name].tolist()
                array[...] = values
    assert files(tmp_path) == before


def texts(*texts: bytes, count: int | None = None) -> bytes:
    parts = [len(text).to_bytes(4, "little") + text for text in texts]
    return Zstd().encode((count or len(texts)).to_bytes(4, "little") + b"".join(parts))  # type: ignore[no-any-return]


FLOATS = Zstd().encode(np.random.default_rng(0).normal(size=100).tobytes())
TWO = texts(b"likelihood", "é".encode())


@pytest.mark.parametrize(
    ("packed", "dtype", "n", "good"),
    [
        *((FLOATS, "float64", 100, True), (FLOATS, "float64", 99, False)),
        (FLOATS[:-50], "float64", 100, False),  # it has the right size, but is no frame
        *((packed, "float64", 5, False) for packed in (b"x" * 40, b"\x28\xb5\x2f\xfd")),
        *((TWO, "string", 2, True), (TWO, "string", 3, False)),
        # texts are counted before memory is taken for them
        *((texts(b"i", b"j", count=2**32 - 1), "string", n, False) for n in (2, 2**32 - 1)),
        *((texts(*parts, count=2), "string", 2, False) for parts in ([b"i"], [b"i", b"j", b"kind"])),
        *((texts(text), "string", 1, False) for text in (b"x" * 2**21, b"\xff\xff")),
    ],
)
def test_a_file_of_another_chunk_is_told(packed: bytes, dtype: str, n: int, good: bool) -> None:
    content = bytes(packed) + chunk_files.checksum(packed)
    if good:
        assert len(chunk_files.decoded(content, dtype, n)) == n
    else:
        with pytest.raises(ValueError, match="another chunk"):
            chunk_files.decoded(content, dtype, n)
    for changed in (content[:-1], content + b"\0", content[:9] + b"!" + content[10:], b"", bytes(4)):
        with pytest.raises(ValueError, match="has changed"):
            chunk_files.decoded(changed, dtype, n)


def test_a_frame_says_how_many_bytes_it_holds() -> None:
    for size in (0, 255, 256, 65_791, 65_792, 3_000_000):
        assert chunk_files.unpacked_size(Zstd(level=0).encode(np.random.default_rng(0).bytes(size))) == size
    assert chunk_files.unpacked_size(b"\x28\xb5\x2f\xfd\x00\x58\x01\x00\x00") is None


def test_a_file_written_while_it_is_missed_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = chunk_files.encoded(np.zeros(5), (5,), VARIABLES["labels_true"])
    monkeypatch.setattr(chunk_files.ChunkFiles, "_content", Mock(side_effect=[None, content]))
    metadata = render([make_plan()], {}, draw_inputs)[0]
    loaded = chunk_files.ChunkFiles(tmp_path, [make_plan()], metadata).load("a/labels_true/c.0")
    assert loaded is not None
    assert loaded[1].tolist() == [0] * 5
