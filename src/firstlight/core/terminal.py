"""Text from files and file names, made fit to be shown: nothing in it acts on a terminal."""


def visible(text: str) -> str:
    r"""Show control characters, and bytes of file names that are no text, as escapes.

    An escape code in a name could otherwise recolour, retitle or rewrite a terminal.

    Examples
    --------
    >>> visible("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def is_utf8(text: str) -> bool:
    """Whether the text can be written as UTF-8; a file name of other bytes cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
