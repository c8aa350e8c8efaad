"""Film reviews: words, numbers and the cache, on small archives of the official layout and on the real one."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from raybench import datasets
from raybench.datasets import imdb
from raybench.datasets.splits import Split

TEXTS = {
    "train/neg/0_1.txt": "Bad, bad film!<br />It isn't GOOD.",
    "train/pos/0_10.txt": "A good film; a good\tplot — naïve...",
    "train/neg/1_2.txt": "the the the the",
    "train/pos/1_9.txt": "good",
    "test/neg/0_3.txt": "bad plot unseen",
    "test/pos/0_8.txt": "word " * 600,
    "test/neg/1_4.txt": "",
    "test/pos/1_7.txt": "good good",
}


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four reviews a half, in no order, among what else the official archive holds."""
    monkeypatch.setattr(imdb, "REVIEWS", 4)
    return write(tmp_path, TEXTS | {"README": "x", "train/unsup/0_0.txt": "x", "train/urls_neg.txt": "x"})


def write(folder: Path, texts: dict[str, str]) -> Path:
    path = folder / imdb.ARCHIVE
    with tarfile.open(path, "w:gz") as tar:
        for name in sorted(texts, key=lambda name: name[::-1]):
            member = tarfile.TarInfo(f"aclImdb/{name}")
            content = texts[name].encode()
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def test_words_are_split_as_in_keras() -> None:
    assert imdb.words_of("Bad, bad film!<br />It isn't GOOD.") == ["bad", "bad", "film", "br", "it", "isn't", "good"]
    assert imdb.words_of("one\ttwo\nthree\x85four five") == ["one", "two", "three\x85four", "five"]
    assert imdb.words_of(" ... ") == []


def test_words_are_ranked_by_training_reviews(archive: Path) -> None:
    """good and the: 4 each, a and bad and film: 2 each; then the alphabet."""
    words = imdb.vocabulary(imdb.read_texts(archive)["train"])
    assert words[:5] == ["good", "the", "a", "bad", "film"]
    assert "unseen" not in words


def test_reviews_as_numbers(archive: Path) -> None:
    data = imdb.read(archive.parent)
    assert data.train.inputs.shape == (4, 512)
    assert data.train.inputs.dtype == np.uint16
    assert data.train.targets.tolist() == [0, 1, 0, 1]
    assert data.train.inputs[2, -6:].tolist() == [0, 1, 5, 5, 5, 5], "start mark 1, the second word is 2 + 3"
    assert data.train.inputs[3, -3:].tolist() == [0, 1, 4]
    assert data.val.inputs[0, -4:].tolist() == [1, 7, 13, 2], "a word that training has not seen is 2"
    assert data.val.inputs[1].tolist() == [2] * 512, "the last tokens stay, so the start mark goes"
    assert data.val.inputs[2, -2:].tolist() == [0, 1]


def test_limited_vocabulary_and_tokens() -> None:
    kept = imdb.last_tokens(Split(np.array([[9, 1, 4, 5, 6]], np.uint16), np.zeros(1)), words=6, tokens=4)
    assert kept.inputs.tolist() == [[1, 4, 5, 2]]
    assert kept.inputs.dtype == np.int32


def test_cache_belongs_to_one_archive(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = imdb.read(archive.parent)
    (cache,) = archive.parent.glob(".imdb-*.npz")
    with monkeypatch.context() as patch:
        patch.setattr(imdb, "read_texts", None)
        again = imdb.read(archive.parent)
    assert np.array_equal(first.val.inputs, again.val.inputs)
    cache.write_bytes(cache.read_bytes()[:100])
    assert np.array_equal(imdb.read(archive.parent).train.inputs, first.train.inputs), "damaged: made again"
    write(archive.parent, TEXTS | {"train/pos/1_9.txt": "film"})
    assert imdb.read(archive.parent).train.inputs[3, -1] != 4
    assert len(list(archive.parent.glob(".imdb-*"))) == 2


def test_archive_that_lacks_a_review(tmp_path: Path, archive: Path) -> None:
    write(tmp_path, {name: text for name, text in TEXTS.items() if name != "test/neg/1_4.txt"})
    with pytest.raises(ValueError, match="7 labeled reviews instead of 8"):
        imdb.read(tmp_path)


@pytest.mark.slow
def test_the_real_reviews(real_data: Path) -> None:
    if not (real_data / imdb.ARCHIVE).is_file():
        pytest.skip("RAYBENCH_DATA has no film reviews")
    data = datasets.get("imdb").load(real_data)
    assert data.train.inputs.shape == data.val.inputs.shape == (25_000, 512)
    assert data.train.inputs[:, -1].min() > 1
    counts = np.bincount(data.train.inputs[:, -200:].ravel(), minlength=8)
    assert counts[4] > counts[5] > counts[6] > counts[2], "the, and, a are the commonest, and known words the rule"
