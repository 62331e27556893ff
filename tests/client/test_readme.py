"""The README's example of the client works as it is printed."""

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).parent.parent.parent / "README.md"


def test_the_example_runs(server, monkeypatch):
    (program,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    monkeypatch.setenv("PC_API_URL", server.url)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(program, "README.md", "exec"), {})
    (line,) = out.getvalue().splitlines()
    assert line.endswith(" Amounts are integer cents.")
