"""Text from files and file names, made fit to be shown: nothing in it acts on a terminal."""

import re

_SUSPECT = re.compile(r"[^\n\t -~]")


def visible(text: str) -> str:
    r"""Show control characters, and bytes of file names that are no text, as escapes.

    An escape code in a name could otherwise recolour, retitle or rewrite a terminal.

    Examples
    --------
    >>> visible("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return _SUSPECT.sub(lambda match: _shown(match[0]), text)


def _shown(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def is_utf8(text: str) -> bool:
    """Whether the text can be written as UTF-8; a file name of other bytes cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
