"""What is code in a Swift source."""

import re

BLOCK = re.compile(r'"""\n.*?"""', re.S)
LITERAL_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//.*')


def code(text):
    """Returns a source without its literals and comments. Lines keep their numbers."""
    text = BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
    return LITERAL_OR_COMMENT.sub("", text)
