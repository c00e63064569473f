"""Words of code such as ``--out`` kept on one line, and long ones broken where a reader would."""

import re

_CODE = re.compile(r'<(pre|code)\b.*?</\1>|<span class="doc doc-object-name.*?</span>', re.DOTALL)
_PRINTED = re.compile(r"(?<=<code>)[^<]+(?=</code></pre>)")
_SENTENCE = re.compile(r"^(?=(?:\S+ ){6}).{44,}$", re.MULTILINE)
_PIECES = re.compile(r"(<[^>]*>)")
_GLUED = re.compile(  # outside of tags and code: 10 %, .87 / .99 and --out
    r"(<(pre|code)\b.*?</\2>|<[^>]*>)|(?<=\d) [%/]|(?<![\w-])--[a-z][\w-]*", re.DOTALL
)
_WORD = re.compile(r"\S+")
_SEAM = re.compile(r"(?<=[(,/=;.])(?=[A-Za-z])")
LONGEST = 28  # characters; what is longer would not fit on a phone by itself


def keep_words(html: str) -> str:
    """Return a page whose code breaks between words, or parts of names; its text stays as it is."""
    html = _GLUED.sub(_glued, html)
    html = _PRINTED.sub(lambda block: _SENTENCE.sub(_wrapping, block.group()), html)
    return _CODE.sub(lambda block: "".join(map(_kept, _PIECES.split(block.group()))), html)


def _glued(found: re.Match[str]) -> str:
    text = found.group()
    if found[1]:
        return text
    return text.replace(" ", "&nbsp;") if text[0] == " " else f'<span class="word">{text}</span>'


def _wrapping(line: re.Match[str]) -> str:
    return f'<span class="sentence">{line.group()}</span>'


def _kept(piece: str) -> str:
    return piece if piece.startswith("<") else _WORD.sub(_spanned, piece)


def _spanned(word: re.Match[str]) -> str:
    text = word.group()
    if len(text) > LONGEST:
        return _SEAM.sub("<wbr>", text)
    return f'<span class="word">{text}</span>' if "-" in text[:-1] else text
