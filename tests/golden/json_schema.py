"""Makes json_schema.json from JSON Schema's official test suite: python3 json_schema.py FOLDER. FOLDER is the folder `json` of an
unpacked source distribution of Python's jsonschema 4.23.0 (pip download --no-binary :all: --no-deps jsonschema==4.23.0).

The files are those of draft 2020-12 that need no other document, (c) 2012 Julian Berman, MIT licence."""

import json
import pathlib
import sys

REMOTE = {"refRemote", "dynamicRef", "vocabulary", "anchor", "unevaluatedItems", "unevaluatedProperties", "defs", "format", "id"}

folder = pathlib.Path(sys.argv[1])
licence = (folder / "LICENSE").read_text()
files = sorted((folder / "tests" / "draft2020-12").glob("*.json"))
suite = {file.stem: json.loads(file.read_text()) for file in files if file.stem not in REMOTE}
for groups in suite.values():
    for group in groups:
        group.pop("comment", None)
        if isinstance(group["schema"], dict):
            group["schema"].pop("$schema", None)
        for test in group["tests"]:
            test.pop("comment", None)
out = pathlib.Path(__file__).with_name("json_schema.json")
out.write_text(json.dumps({"licence": licence, "suite": suite}, ensure_ascii=True, separators=(",", ":")) + "\n")
