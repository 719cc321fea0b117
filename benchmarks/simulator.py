# SPDX-License-Identifier: MIT
"""coll_sim, for the programs here that ask it."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ENV = {k: v for k, v in os.environ.items() if not k.startswith("COLL_")}


def simulate(build, *args):
    """The report of one coll_sim; ends the program if that fails."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        command = [str(build / "coll_sim"), *map(str, args), "--json",
                   str(out)]
        done = subprocess.run(command, env=ENV, text=True, check=False,
                              stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE)
        if done.returncode:
            sys.exit(f"{os.path.basename(sys.argv[0])}: {' '.join(command)}: "
                     f"{done.stderr.strip()}")
        return json.loads(out.read_text(encoding="utf-8"))
