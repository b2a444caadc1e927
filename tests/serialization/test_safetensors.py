"""The safetensors format, against the package's own bindings to PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest

import jitgrad as jg
from jitgrad.serialization import safetensors as ours
from tests.oracle import libraries

package = pytest.importorskip("safetensors")


@pytest.mark.parametrize(
    "name", ["bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64"]
)
def test_both_ways(tmp_path: Path, name: str) -> None:
    torch = libraries.torch_or_skip()
    from safetensors import torch as theirs

    x = torch.tensor([[0, 1], [1, 1]]).to(getattr(torch, name))
    theirs.save_file({"x": x, "empty": torch.zeros(0, 2)}, tmp_path / "a")
    loaded = ours.load_file(tmp_path / "a")
    assert loaded["x"].dtype is getattr(jg, name)
    assert loaded["empty"].shape == (0, 2)
    ours.save_file({"x": loaded["x"], "t": loaded["x"].clone().t()}, tmp_path / "b", {"by": "us"})
    back = theirs.load_file(tmp_path / "b")
    assert torch.equal(back["x"], x)
    assert torch.equal(back["t"], x.t())
    assert torch.equal(theirs.load(ours.save(loaded))["x"], x)


def test_refused(tmp_path: Path) -> None:
    x = jg.ones(4)
    with pytest.raises(RuntimeError, match="share memory: 'a' and 'b'"):
        ours.save_file({"a": x, "b": x[1:]}, tmp_path / "a")
    with pytest.raises(ValueError, match="Expected a dict"):
        ours.save_file([x], tmp_path / "a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected a Tensor"):
        ours.save_file({"a": 1}, tmp_path / "a")  # type: ignore[dict-item]
    assert not (tmp_path / "a").exists()
    with pytest.raises(ValueError, match="the format has no dtype"):
        ours.save({"a": jg.zeros(2, dtype=jg.complex128)})


def file(header: bytes, data: bytes = bytes(8)) -> bytes:
    return len(header).to_bytes(8, "little") + header + data


ENTRY = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
DAMAGED = {
    "nothing": (b"", "longer than the file"),
    "text": (b"nonsense and more", "longer than the file"),
    "header": (file(b"{"), "header is damaged"),
    "no dict": (file(b"[1]"), "header is damaged"),
    "dtype": (file(ENTRY.replace(b"F32", b"F31")), "KeyError: 'F31'"),
    "shape": (file(ENTRY.replace(b"[2]", b"[3]")), "cannot lie at bytes 0 to 8"),
    "negative": (file(ENTRY.replace(b"[2]", b"[-2]")), "has sizes or offsets"),
    "offsets": (file(ENTRY.replace(b"[0,8]", b"[4,12]"), bytes(12)), "cannot lie at bytes 4"),
    "cut": (file(ENTRY, bytes(7)), "cut short"),
    "too much": (file(ENTRY, bytes(9)), "9 bytes of tensors, the header says 8"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged(case: str, tmp_path: Path) -> None:
    content, match = DAMAGED[case]
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ValueError, match=match):
        ours.load_file(tmp_path / "x")
    with pytest.raises(package.SafetensorError):
        package.deserialize(content)


def test_a_good_file_is_good() -> None:
    assert ours.load(file(ENTRY))["a"].tolist() == [0, 0]
