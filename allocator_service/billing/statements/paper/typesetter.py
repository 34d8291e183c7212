"""Process that typesets one sheet into a PDF file.

A script without the project's modules, so that it starts at once and has none of the service's secrets.
"""

import json
import os
import resource
import sys


def typeset() -> None:
    """Read a request from standard input, and write the file to standard output."""
    request = json.load(sys.stdin.buffer)
    limit = request["memory_bytes"]
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    os.nice(request["niceness"])
    # After the limit, which then holds for the library, too.
    import typst

    # The sheet is a value in the template, so that no text in it is read as markup. PDF/UA requires that
    # every character has a glyph: it fails instead of leaving a text out.
    content = typst.compile(
        request["template"].encode(),
        root=request["root"],
        ignore_system_fonts=True,
        sys_inputs={"sheet": json.dumps(request["sheet"])},
        timestamp=request["timestamp"],
        format="pdf",
        pdf_standards=["ua-1"],
    )
    sys.stdout.buffer.write(content)


if __name__ == "__main__":
    typeset()
