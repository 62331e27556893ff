"""What remains of terminal output."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pc_store.readers.terminal import plain


@pytest.mark.parametrize(
    ("output", "seen"),
    [
        ("plain 文字 stays\n\tas it is", "plain 文字 stays\n\tas it is"),
        ("\x1b[1;31mred\x1b[0m and \x1b[38;5;12mblue\x1b[m", "red and blue"),
        ("\x9b31mred\x9b0m", "red"),
        ("\x1b]0;window title\x07text", "text"),
        ("\x1b]8;;http://a.b\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;never ended\nnext line", "\nnext line"),
        ("\x1b(B\x1b=\x1b>\x1bMtext\x1b", "text"),
        ("cut off \x1b[31", "cut off "),
        ("a\r\nb\r\r\nc", "a\nb\nc"),
        ("10%\r50%\r100%\ndone", "100%\ndone"),
        ("10%\r100%\r", "100%"),
        ("spin |\r\x1b[2Kspin /\r\x1b[2Kready", "ready"),
        ("b\bbo\bol\bld\bd _\bx", "bold x"),
        ("\b\bx\n\by", "x\ny"),
        ("page\x0cpage", "page\npage"),
        ("bell\x07 null\x00", "bell null"),
        ("half \ud83d pair", "half \ufffd pair"),
    ],
)
def test_plain_is_what_a_person_saw(output, seen):
    assert plain(output) == seen


@given(st.text(alphabet="ab\x1b[]0;m\r\n\b\x07\x9b\\P?", max_size=60))
def test_no_control_character_is_left_whatever_comes(output):
    assert all(character in "\n\t" or character >= " " for character in plain(output))
    assert "\x1b" not in plain(output)


@pytest.mark.parametrize("piece", ["\x1b[", "\x1b]0;", "x\r", "x\b", "\x1bP", "\r\r"])
def test_time_grows_with_the_length_only(piece):
    started = time.process_time()
    plain(piece * 300_000)
    assert time.process_time() - started < 5
