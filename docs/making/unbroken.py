"""Words of code with a hyphen, such as ``--out``, kept on one line where a screen is narrow."""

import re

_CODE = re.compile(r"<(pre|code)\b.*?</\1>", re.DOTALL)
_PIECES = re.compile(r"(<[^>]*>)")
_WORD = re.compile(r"[^\s-]*-\S+")
LONGEST = 28  # characters; what is longer would not fit on a phone by itself


def keep_words(html: str) -> str:
    """Return a page whose code breaks between words alone; its text stays as it is."""
    return _CODE.sub(lambda block: "".join(map(_kept, _PIECES.split(block.group()))), html)


def _kept(piece: str) -> str:
    return piece if piece.startswith("<") else _WORD.sub(_spanned, piece)


def _spanned(word: re.Match[str]) -> str:
    text = word.group()
    return f'<span class="word">{text}</span>' if len(text) <= LONGEST else text
