import pytest

from raybench.core.text import format_value, join_words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5e-4, "5e-4"),
        (1.25e-4, "1.25e-4"),
        (0.1, "0.1"),
        (0.0, "0"),
        (64, "64"),
        ([1, 2e-5], "[1,2e-5]"),
        ({"a": 1}, "{a:1}"),
    ],
)
def test_values_are_short(value, text):
    assert format_value(value) == text


def test_word_lists():
    assert [join_words(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
