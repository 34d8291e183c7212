"""The counts of docs/style.md, folder by folder: `.venv/bin/python -m tests.words`.

`--store` writes them to tests/unit/words.toml. A stored count only falls, so it refuses one that rose.
"""

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
STYLE = PROJECT / "docs/style.md"
STORED = PROJECT / "tests/unit/words.toml"
STORE = ".venv/bin/python -m tests.words --store"

ROOTS = (
    "policies",
    "papers",
    "api",
    "client",
    "agent",
    "launcher",
    "devtools",
    "demo",
    "benchmarks",
    "docs",
)
APPS = "allocator_service"  # each of its folders is counted by itself
SUFFIXES = frozenset({".py", ".md", ".html", ".txt", ".js", ".svg", ".sh"})

ENOUGH_COMMENTS = 3.0  # lines in a hundred lines of code
# What a change may take from the stored share of comments: so that a few lines without one pass.
TOLERANCE = 0.1

# Copies of texts that are counted where they are written, and the page that names the words.
UNCOUNTED = {
    "*/migrations/*": "a copy of the models' texts at one time",
    "client/allocator_client/_generated/*": "written by client/generate.py",
    "docs/benchmarks.md": "written by the benchmarks",
    "docs/licences.md": "written by ./dev licences",
    "docs/style.md": "names the words",
}

# A name on the wire or in the database, and files in which a word is the field's own.
KEPT_NAMES = {
    "drive.decided": "an error code",
    "drive.failed": "an error code",
    "drive.interval": "an error code",
    "drive.not_alone": "an error code",
    "owed.not_a_number": "an error code",
    "owed.out_of_range": "an error code",
    "owed.too_large": "an error code",
    "policy.owed": "an error code",
    "enforcement.settled": "an event kind",
    "owed": "a field of problem documents and of `run.schedule`",
    "made_up": "a column of `run_schedule`",
    "told_at": "a column of `enforcement_drift` and `enforcement_blockage`",
    "run_failed_says_why": "a constraint",
    "border-collapse": "CSS",
}
_COUNTER = "a column of `pool_recompute_job`"
_ACCOUNT = "an account of Unix"
KEPT_FILES = {
    ("policies/leximin/interior_point/*", "border"): "a bordered linear system",
    ("launcher/accounts.py", "nobody"): _ACCOUNT,
    ("docs/adr/0001-*", "nobody"): _ACCOUNT,
    **{
        (path, word): _COUNTER
        for path in (
            "allocator_service/pools/models/pool.py",
            "allocator_service/pools/recompute.py",
            "allocator_service/allocation/admin/board.py",
            "api/metrics.py",
            "docs/adr/0003-*",
        )
        for word in ("wanted", "settled")
    },
}
_CSS = re.compile(r"\b(?:border|stroke|outline)(?:-[a-z]+)*\s*:[^;}\"'<\n]*|data:image\S*")

QUESTIONS = frozenset(
    ["what", "who", "whom", "whose", "whether", "how", "which", "where", "when", "why"]
)

# A string literal or a comment of Python: neither can begin within the other.
_LITERAL = re.compile(
    r"(?P<prefix>\b[rRbBuUfF]{1,2})?"
    r"(?P<text>\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')"
    r"|(?P<comment>#[^\n]*)",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"#\s*(?:!|noqa|type:|pragma|ruff:|fmt:|mypy:)")
_SENTENCE = re.compile(r"(?:\.(?=\s|$)|\n\s*\n)")
_CLAUSES = re.compile(r"[;:]\s+\S")


@dataclass(frozen=True, order=True)
class Place:
    """A line of a file with the text found there."""

    path: str
    line: int
    found: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.found}"


@dataclass(frozen=True)
class Counts:
    """The measures of one folder, with the places of the first three."""

    retired: tuple[Place, ...]
    questions: tuple[Place, ...]
    two_clauses: tuple[Place, ...]
    comment_lines: int
    code_lines: int

    @property
    def comments(self) -> float:
        """Comment lines in a hundred lines of code, at most the number that is enough."""
        return min(ENOUGH_COMMENTS, 100 * self.comment_lines / max(1, self.code_lines))

    def numbers(self) -> dict[str, float]:
        """The counts as they are stored."""
        return {
            "retired": len(self.retired),
            "questions": len(self.questions),
            "two_clauses": len(self.two_clauses),
            "comments": int(self.comments * 10) / 10,
        }


def retired_words() -> list[str]:
    """Return every retired word, from the first column of the style page's table."""
    table = STYLE.read_text().split("## Retired words")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[1:]
    return [word.strip() for row in rows for word in row.split("·") if not row.startswith("---")]


@cache
def _retired() -> re.Pattern[str]:
    words = sorted(retired_words(), key=len, reverse=True)
    inner = "|".join(re.escape(word).replace(r"\ ", r"[\s_]+") for word in words)
    return re.compile(rf"(?<![a-zA-Z])(?:{inner})(?![a-zA-Z])", re.IGNORECASE)


def files() -> Iterator[Path]:
    """Every counted file, in order."""
    for root in (*ROOTS, APPS):
        for path in sorted((PROJECT / root).rglob("*")):
            name = path.relative_to(PROJECT).as_posix()
            if path.suffix in SUFFIXES and not any(fnmatch(name, each) for each in UNCOUNTED):
                yield path


def folder_of(path: Path) -> str:
    """Return the counted folder of a file: an app of the service, or a folder of the project."""
    parts = path.relative_to(PROJECT).parts
    return "/".join(parts[:2]) if parts[0] == APPS and len(parts) > 2 else parts[0]


def count() -> dict[str, Counts]:
    """Count every folder."""
    by_folder: dict[str, list[Path]] = defaultdict(list)
    for path in files():
        by_folder[folder_of(path)].append(path)
    return {folder: counts(paths) for folder, paths in sorted(by_folder.items())}


def counts(paths: Iterable[Path]) -> Counts:
    """Count the files of one folder."""
    retired: list[Place] = []
    questions: list[Place] = []
    clauses: list[Place] = []
    comment_lines = code_lines = 0
    for path in paths:
        name, text = path.relative_to(PROJECT).as_posix(), path.read_text()
        retired += [Place(name, 1, word) for word in retired_in(name, path.stem)]
        if path.suffix != ".py":
            retired += places(name, 1, without_kept(without_css(text)))
            continue
        python = Python(name, text)
        retired += python.retired()
        questions += python.questions()
        clauses += python.two_clauses()
        comment_lines += python.comment_lines
        code_lines += python.code_lines
    return Counts(
        tuple(sorted(retired)), tuple(questions), tuple(clauses), comment_lines, code_lines
    )


def without_css(text: str) -> str:
    """Return a text without declarations of CSS."""
    return _CSS.sub(" ", text)


def without_kept(text: str) -> str:
    """Return a text without the kept names that stand in backticks."""
    return re.sub(
        r"(`+)([\w.]+)\1", lambda name: " " if name[2] in KEPT_NAMES else name.group(), text
    )


def retired_in(path: str, text: str) -> list[str]:
    """Return the retired words of a short text."""
    return [place.found for place in places(path, 1, text)]


def places(path: str, line: int, text: str) -> Iterator[Place]:
    """Yield each retired word of a text that begins on a line of a file."""
    for match in _retired().finditer(text):
        word = match.group().lower()
        if any(fnmatch(path, kept) and word.startswith(own) for kept, own in KEPT_FILES):
            continue
        at = text.count("\n", 0, match.start())
        context = text[text.rfind("\n", 0, match.start()) + 1 :].split("\n", 1)[0].strip()
        yield Place(path, line + at, f"{word!r} in {context[:90]!r}")


class Python:
    """The words of one Python file."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self._text = text
        self._tree = ast.parse(text)
        self._docstrings: list[tuple[int, str]] = []
        self._names: dict[str, int] = {}
        self._walk()
        self._literals = list(_LITERAL.finditer(text))
        comments = [each for each in self._literals if each["comment"]]
        lines = text.split("\n")
        self.comment_lines = sum(not _DIRECTIVE.match(each.group()) for each in comments)
        blank = sum(not line.strip() for line in lines)
        alone = sum(line.lstrip().startswith("#") for line in lines)
        documented = sum(doc.count("\n") + 1 - doc.count("\n\n") for _, doc in self._docstrings)
        self.code_lines = max(0, len(lines) - blank - alone - documented)

    def retired(self) -> Iterator[Place]:
        """Yield each retired word: of names where they are defined, of strings and of comments."""
        for name, line in self._names.items():
            spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
            if name not in KEPT_NAMES:
                yield from places(self.path, line, spaced)
        for each in self._literals:
            text = each.group()
            if each["text"] and each["text"].strip("\"'") in KEPT_NAMES:
                continue
            if "f" in (each["prefix"] or "").lower():
                text = re.sub(
                    r"\{[^{}]*\}", lambda hole: " " + "\n" * hole.group().count("\n"), text
                )
            text = without_kept(without_css(text))
            yield from places(self.path, self._line(each.start()), text)

    def questions(self) -> Iterator[Place]:
        """Yield each docstring that begins with a question word."""
        for line, text in self._docstrings:
            first = re.match(r"\W*(\w+)", text)
            if first and first[1].lower() in QUESTIONS:
                yield Place(self.path, line, first_sentence(text))

    def two_clauses(self) -> Iterator[Place]:
        """Yield each docstring whose first sentence has two clauses."""
        for line, text in self._docstrings:
            sentence = first_sentence(text)
            if _CLAUSES.search(re.sub(r"`[^`]*`", "code", sentence)):
                yield Place(self.path, line, sentence)

    def _walk(self) -> None:
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        waiting: list[ast.AST] = [self._tree]
        while waiting:
            node = waiting.pop()
            if isinstance(node, documented):
                body = node.body[0] if node.body else None
                if isinstance(body, ast.Expr):
                    value = getattr(body.value, "value", None)
                    if isinstance(value, str):
                        self._docstrings.append((body.lineno, value))
            name = _defined(node)
            if name:
                self._names.setdefault(name, getattr(node, "lineno", 1))
            waiting += [
                child
                for child in ast.iter_child_nodes(node)
                if type(child) not in _LEAVES and not _is_read(child)
            ]
        self._docstrings.sort()

    def _line(self, position: int) -> int:
        return self._text.count("\n", 0, position) + 1


# Nodes without names and children: most of a tree.
_LEAVES = {ast.Load, ast.Store, ast.Del, ast.Constant}


def _is_read(node: ast.AST) -> bool:
    """Return True for a name that is read, which has no children."""
    return type(node) is ast.Name and type(node.ctx) is ast.Load


def _defined(node: ast.AST) -> str | None:
    """Return the name that a node defines, if it defines one."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.arg(arg=name) | ast.alias(asname=name):
            return name
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
    return None


def first_sentence(docstring: str) -> str:
    """Return the first sentence of a docstring, on one line."""
    return " ".join(_SENTENCE.split(docstring.strip(), maxsplit=1)[0].split())


def stored() -> dict[str, dict[str, float]]:
    """Return the stored counts of each folder."""
    return tomllib.loads(STORED.read_text()) if STORED.exists() else {}


def rises(now: Mapping[str, Counts], before: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a message for each count that is worse than the stored one, with its places."""
    messages = []
    for folder, counted in now.items():
        for kind, number in counted.numbers().items():
            was = before.get(folder, {}).get(kind)
            if was is None:
                continue
            if kind == "comments":
                if counted.comments < was - TOLERANCE:
                    messages.append(
                        f"{folder}: comments fell from {was} to {counted.comments:.1f} in a hundred"
                        " lines of code. Say why beside the lines that need it."
                    )
            elif number > was:
                listed = _newest_first(getattr(counted, kind))
                messages.append(
                    f"{folder}: {kind} rose from {was} to {number}. Newest files first:\n"
                    + "\n".join(f"  {place}" for place in listed[:40])
                )
    return messages


def falls(now: Mapping[str, Counts], before: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a line for each count that is better than the stored one or is not stored."""
    lines = [f"{folder}: the folder is gone" for folder in before if folder not in now]
    for folder, counted in now.items():
        for kind, number in counted.numbers().items():
            was = before.get(folder, {}).get(kind)
            if was is None:
                lines.append(f"{folder}: {kind} is {number}, and not stored")
            elif number > was if kind == "comments" else number < was:
                lines.append(f"{folder}: {kind} improved from {was} to {number}")
    return lines


def store(now: Mapping[str, Counts]) -> None:
    """Write the counts; a share of comments within the tolerance stays as it is stored."""
    before = stored()
    lines = [f"# The counts of docs/style.md. They only improve: {STORE}"]
    for folder, counted in now.items():
        numbers = counted.numbers()
        numbers["comments"] = max(numbers["comments"], before.get(folder, {}).get("comments", 0.0))
        inner = ", ".join(f"{kind} = {number}" for kind, number in numbers.items())
        lines.append(f'"{folder}" = {{ {inner} }}')
    STORED.write_text("\n".join(lines) + "\n")


def _newest_first(found: Iterable[Place]) -> list[Place]:
    return sorted(
        found, key=lambda place: (-(PROJECT / place.path).stat().st_mtime, place.path, place.line)
    )


def main(arguments: list[str]) -> int:
    """Print the counts, or store them."""
    now = count()
    if arguments not in ([], ["--store"], ["--list"]):
        print("Arguments: none, --list or --store.", file=sys.stderr)
        return 2
    if arguments == ["--list"]:
        for counted in now.values():
            for place in (*counted.retired, *counted.questions, *counted.two_clauses):
                print(place)
        return 0
    if arguments == ["--store"]:
        if worse := rises(now, stored()):
            print("\n".join(worse), file=sys.stderr)
            return 1
        store(now)
    for folder, counted in now.items():
        print(
            f"{folder:<30}", *(f"{kind} {number:>5}" for kind, number in counted.numbers().items())
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
