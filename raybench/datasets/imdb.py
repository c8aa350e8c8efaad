"""The labeled reviews of the Large Movie Review Dataset, as word numbers.

Source: A. Maas, R. Daly, P. Pham, D. Huang, A. Ng, C. Potts, "Learning Word Vectors for Sentiment Analysis", ACL 2011;
https://ai.stanford.edu/~amaas/data/sentiment/. The archive is read directly, and nothing is unpacked to disk.

Words are split and numbered as in Keras (`Tokenizer`, `imdb.load_data`): lower case, Keras's punctuation is replaced by
space, the apostrophe is kept; a word's number is its frequency rank in the 25,000 training reviews, plus 3, so that the
most frequent word is 4; 1 starts a review, 2 stands for a word without a number, 0 is padding. Words of equal frequency
are ranked alphabetically, so that nothing depends on the order inside an archive (Keras: by first occurrence).
"""

from __future__ import annotations

import re
import tarfile
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from raybench.datasets.dataset import DataFile, DataSet, Download
from raybench.datasets.digests import hash_file
from raybench.datasets.splits import Array, Data, Split

ARCHIVE = "aclImdb_v1.tar.gz"
REVIEWS = 25_000  # reviews per half, with equally many of either class

START, UNKNOWN, OFFSET = 1, 2, 3
MAX_TOKENS = 512  # maximum tokens of a review, the last ones: `pad_sequences` cuts and pads in front by default
NUMBERED = 65_535 - OFFSET  # number of words with a number, the most frequent ones, so that numbers fit into two bytes

_MEMBER = re.compile(r"aclImdb/(train|test)/(neg|pos)/(\d+)_\d+\.txt")
# Keras's filters; all of them one byte, and none of them a part of another character's bytes in UTF-8.
_TO_SPACE = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n', " "))

Texts = dict[str, list[list[str]]]  # the words of each review of "train" and "test"


def words_of(text: str) -> list[str]:
    """Split a text into words as Keras's `text_to_word_sequence`, only at spaces."""
    return [word for word in text.lower().translate(_TO_SPACE).split(" ") if word]


def vocabulary(reviews: Iterable[list[str]]) -> list[str]:
    """Words by descending frequency, then alphabetically."""
    counts = Counter[str]()
    for words in reviews:
        counts.update(words)
    return sorted(counts, key=lambda word: (-counts[word], word))


def last_tokens(split: Split, words: int, tokens: int) -> Split:
    """A split as in `load_data(num_words=words)` and `pad_sequences(maxlen=tokens)`: int32 [N, tokens].

    Args:
        split: the result of `read`.
        words: numbers from this one on are unknown words; includes the special tokens, as in Keras.
        tokens: number of tokens kept, at most `MAX_TOKENS`.
    """
    import numpy as np

    ids = split.inputs[:, -tokens:].astype(np.int32)
    return Split(np.where(ids < words, ids, UNKNOWN), split.targets)


def prepared(data: Data, words: int, tokens: int) -> Data:
    """Apply `last_tokens` to both splits."""
    return Data(last_tokens(data.train, words, tokens), last_tokens(data.val, words, tokens))


def read(folder: Path) -> Data:
    """Read 25,000 and 25,000 reviews, uint16 [N, 512]; int64 classes, 1: positive.

    Each has its last tokens, padded in front. Negative and positive reviews alternate, so that the first examples are
    balanced. The numbers are cached in a file in the archive's folder, named by the archive's digest, if that folder is
    writable.

    Raises:
        ValueError: the archive lacks a review.
    """
    import numpy as np

    archive = folder / ARCHIVE
    cache = folder / f".imdb-{hash_file(archive)[:16]}-{MAX_TOKENS}.npz"
    with suppress(OSError, ValueError, KeyError, zlib.error, zipfile.BadZipFile), np.load(cache) as file:
        return Data(*(Split(file[name], _classes()) for name in ("train", "test")))
    texts = read_texts(archive)
    ranked = vocabulary(texts["train"])
    numbers = {word: rank + OFFSET for rank, word in enumerate(ranked[:NUMBERED], 1)}
    arrays = {name: _numbered(texts[name], numbers) for name in ("train", "test")}
    with suppress(OSError), tempfile.TemporaryDirectory(dir=folder) as temporary:
        np.savez(Path(temporary) / cache.name, train=arrays["train"], test=arrays["test"])
        (Path(temporary) / cache.name).replace(cache)
    return Data(*(Split(arrays[name], _classes()) for name in ("train", "test")))


def read_texts(archive: Path) -> Texts:
    """Read the words of every labeled review; negative and positive ones alternate, each in the order of its number.

    Raises:
        ValueError: the archive lacks a review.
    """
    texts: Texts = {"train": [[]] * REVIEWS, "test": [[]] * REVIEWS}
    count = 0
    with tarfile.open(archive, "r|gz") as tar:
        for member in tar:
            match = _MEMBER.fullmatch(member.name)
            file = tar.extractfile(member) if match and member.isreg() else None
            if match and file:
                split, kind, number = match.groups()
                texts[split][2 * int(number) + (kind == "pos")] = words_of(file.read().decode("utf-8"))
                count += 1
    if count != 2 * REVIEWS:
        raise ValueError(f"{archive} has {count:,} labeled reviews instead of {2 * REVIEWS:,}")
    return texts


def _numbered(reviews: list[list[str]], numbers: Mapping[str, int]) -> Array:
    import numpy as np

    table = np.zeros((len(reviews), MAX_TOKENS), np.uint16)
    number_of = numbers.get
    for row, words in zip(table, reviews, strict=True):
        ids = [number_of(word, UNKNOWN) for word in words[-MAX_TOKENS:]]
        if len(words) < MAX_TOKENS:
            ids.insert(0, START)
        row[MAX_TOKENS - len(ids) :] = ids
    return table


def _classes() -> Array:
    import numpy as np

    return np.arange(REVIEWS) % 2


SIZE = 84_125_825
CHECKSUM = "sha256:c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe"
DATASET = DataSet(
    name="imdb",
    description="50,000 film reviews, half positive, half negative",
    files=(DataFile(ARCHIVE, SIZE, CHECKSUM, size_may_differ=True),),
    examples={"train": REVIEWS, "val": REVIEWS},
    read=read,
    sources=(Download("https://ai.stanford.edu/~amaas/data/sentiment/" + ARCHIVE, SIZE, CHECKSUM, (ARCHIVE,)),),
)
