import pytest

from raybench.analysis.sentences import (
    as_html,
    code,
    digits,
    end,
    interval,
    listed,
    markdown,
    name,
    plain,
    sentence,
    strong,
)

TOLD = sentence(name("gpu*<b>"), " trains ", code("my`model"), "", " ", strong("2.02 × as fast"), ".")


def test_three_ways_to_write_a_sentence():
    assert plain(TOLD) == "gpu*<b> trains my`model 2.02 × as fast."
    assert markdown(TOLD) == r"*gpu\*\<b\>* trains `` my`model `` **2.02 × as fast**."
    assert as_html(TOLD) == ("<em>gpu*&lt;b&gt;</em> trains <code>my`model</code> <strong>2.02 × as fast</strong>.")


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.921, "3.92"), (0.01782, "0.0178"), (2331.4, "2331"), (159.42, "159"), (0, "0"), (1e-5, "0.0000100")],
)
def test_three_significant_digits(value, text):
    assert digits(value) == text


def test_ends_that_say_nothing_are_not_spelt_out():
    assert (end(1e-9), end(1e9), end(1.97)) == ("<0.001", ">9999", "1.97")
    assert interval(1.97, 2.08) == " (95 %: 1.97 to 2.08)"
    assert interval(None, None) == ""


def test_lists_in_words():
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
