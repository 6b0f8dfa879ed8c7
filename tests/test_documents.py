"""JSON of strangers: everything that cannot be taken is one kind of error."""

import json
import math

import pytest

from emphatic import documents


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[" * 100_000, "[" * 500 + "]" * 500, '{"a":' * 90 + "1" + "}" * 90),
        *("NaN", "[Infinity]", '"\\ud800"', '{"\\udfff":1}', "1" * 5000),
        *(b"\xff", b'"\xed\xa0\x80"', b"\x00\x01"),
    ],
)
def test_what_cannot_be_taken_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"nested|line|invalid|decode|encode|digits|JSON"):
        documents.decoded(text)


@pytest.mark.parametrize("value", [[], {"a": [1, 2.5, None, True, "é\n😀"]}, [[[[[[7]]]]]] * 99])
def test_what_json_can_say_comes_back(value):
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert documents.decoded(text) == documents.decoded(text.encode()) == value


def test_whole_numbers_beyond_floats_are_infinite():
    assert documents.number(10**400) == math.inf
    assert documents.number(-(10**400)) == -math.inf
    assert documents.number(3) == 3.0
    assert isinstance(documents.number(3), float)
