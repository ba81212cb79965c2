#!/usr/bin/env python3
"""Checks what people read: `make docs-lint`, or `scripts/docs-lint.py FOLDER` for another project.

- Markdown wraps at 100 columns outside tables, code blocks included, and so do comments in Sources.
- The targets of relative links in Markdown exist, with their anchors, and so do docs/… elsewhere.
- No Markdown, comment, message or help text has a phrase of scripts/retired-words.txt.
- No name in Sources is one of scripts/retired-names.txt.

Prints file:line: problem for each, and exits with 1 if there is any.
"""

import functools
import pathlib
import re
import subprocess
import sys
import urllib.parse

from swift_code import code

WIDTH = 100
LINK = re.compile(r"""\]\(\s*<?([^)\s>]+)|^\[[^\]]+\]:\s+(\S+)|(?:src|href|srcset)="([^"]+)\"""", re.M)
MENTION = re.compile(r"(?<![\w./-])docs/[\w./-]+\.(?:md|svg)")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
COMMENT = re.compile(r"(?<![:\w])///?(?!/)(.*)")


def tracked(root):
    """Returns the files of the project, sorted, including new ones."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root, capture_output=True, text=True, check=True,
    )  # fmt: skip
    paths = (root / name for name in sorted(set(listing.stdout.splitlines())))
    return [path for path in paths if path.is_file()]


def blocks(text):
    """Yields the lines of a Markdown page, each with whether it is code."""
    fence, was_blank, indented = None, True, False
    for line in text.splitlines():
        mark = re.match(r"\s*(```+|~~~+)", line)
        if fence:
            yield line, True
            if mark and mark[1].startswith(fence):
                fence = None
            continue
        if mark:
            fence = mark[1]
            yield line, True
            continue
        # Indented code begins after an empty line.
        indented = line.startswith("    ") and (was_blank or indented)
        yield line, indented
        was_blank = not line.strip()


@functools.cache
def anchors(path):
    """Returns the anchors of a page: GitHub's names for its headings, and explicit ones."""
    found, seen = set(), {}
    text = path.read_text()
    for line, is_code in blocks(text):
        heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if heading and not is_code:
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            count = seen.get(slug, 0)
            seen[slug] = count + 1
            found.add(f"{slug}-{count}" if count else slug)
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def without_code(text):
    """Returns the page with its code blanked out; line numbers stay the same."""
    lines = ("" if is_code else line for line, is_code in blocks(text))
    return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", lambda m: " " * len(m[0]), "\n".join(lines))


def line_of(text, place):
    return text.count("\n", 0, place) + 1


def widths(text):
    for number, (line, is_code) in enumerate(blocks(text), 1):
        is_table = not is_code and line.lstrip().startswith(("|", "<!--"))
        # A word that is longer than a line cannot be wrapped.
        if len(line) > WIDTH and not is_table and " " in line.strip(" -*>"):
            yield number, f"{len(line)} columns; wrap at {WIDTH}"


def dead_links(path, text, root):
    prose = without_code(text)
    for match in LINK.finditer(prose):
        target = next(filter(None, match.groups()))
        if re.match(r"[a-z][a-z0-9+.-]*:|//", target):
            continue
        file, _, anchor = urllib.parse.unquote(target).partition("#")
        place = (path.parent / file).resolve() if file else path
        if not place.exists() or root not in [place, *place.parents]:
            yield line_of(prose, match.start()), f"dead link {target}"
        elif anchor and place.suffix == ".md" and anchor not in anchors(place):
            yield line_of(prose, match.start()), f"dead anchor {target}"


def dead_mentions(text, root):
    for number, line in enumerate(text.splitlines(), 1):
        for mention in MENTION.findall(line):
            if not (root / mention).exists():
                yield number, f"{mention} does not exist"


def spoken(path, text):
    """Returns the lines of a file, reduced to prose, comments and strings."""
    if path.suffix == ".md":
        return without_code(text).splitlines()
    if path.suffix == ".swift":
        lines, in_block = [], False
        for line in text.splitlines():
            # Strings of several lines are help texts and messages.
            if line.count('"""') % 2:
                in_block = not in_block
                lines.append("")
            elif in_block:
                lines.append(line)
            else:
                strings = " ".join(STRING.findall(line))
                comment = COMMENT.search(STRING.sub('""', line))
                words = f"{strings} {comment[1] if comment else ''}"
                lines.append(re.sub(r"`[^`]*`", "", words))
        return lines
    return [line.partition("#")[2] for line in text.splitlines()]


def retired_list(root, name, flags=0):
    """Yields pairs of a pattern and its replacement."""
    for line in (root / "scripts" / name).read_text().splitlines():
        if line and not line.startswith("#"):
            pattern, _, instead = (part.strip() for part in line.partition("=>"))
            yield re.compile(rf"\b(?:{pattern})\b", flags), instead


def retired_names(text, names):
    """Yields the retired names in the code of a source."""
    for number, line in enumerate(code(text).splitlines(), 1):
        for pattern, instead in names:
            for match in pattern.finditer(line):
                yield number, f"the name '{match[0]}' is retired; use: {instead}"


def retired(lines, words):
    """Yields the retired phrases in the lines; a phrase can span lines."""
    text = "\n".join(re.sub(r"^\s*(?:[*>-] )?", "", line) for line in lines)
    for pattern, instead in words:
        for match in re.finditer(pattern.pattern.replace(" ", r"\s+"), text, re.I):
            words_found = " ".join(match[0].split())
            yield line_of(text, match.start()), f"'{words_found}' is retired; say: {instead}"


def wide_comments(text):
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > WIDTH and re.match(r"\s*///? {1,3}\S", line):
            yield number, f"{len(line)} columns; wrap at {WIDTH}"


def problems(root):
    words = list(retired_list(root, "retired-words.txt", re.I))
    names = list(retired_list(root, "retired-names.txt"))
    for path in tracked(root):
        name = path.relative_to(root)
        is_source = name.parts[0] == "Sources" and path.suffix == ".swift"
        is_prose = path.suffix == ".md"
        is_configuration = name.parts[0] == "config"
        found = []
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if is_prose:
            found += [*widths(text), *dead_links(path, text, root)]
        if is_source:
            found += [*wide_comments(text), *retired_names(text, names)]
        if is_prose or is_source or is_configuration:
            found += retired(spoken(path, text), words)
        found += dead_mentions(text, root)
        for line, problem in sorted(found):
            yield f"{name}:{line}: {problem}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    root = root if root.is_dir() else root.parent.parent
    found = list(problems(root))
    for problem in found:
        print(problem)
    if found:
        sys.exit(f"docs-lint: {len(found)} to fix")


if __name__ == "__main__":
    main()
