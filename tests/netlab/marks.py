# SPDX-License-Identifier: MIT
"""What a job asks of its laboratory, in mid-run and at a known operation.

    with Marks({'/tmp/x/slow': lambda: lab.set_rate('trunk0', 10e6)}) as marks:
        ...                                  the job
    marks.done                               paths, in the order they came

A job makes a file and waits until it is gone: by then the laboratory has done
what that name stands for.
"""
import os
import threading


class Marks:
    """Looks for files as long as the `with` lasts. An action that fails is
    raised at its end; the file then stays, and so does the job's wait."""

    def __init__(self, actions):
        self.actions, self.done, self.error = dict(actions), [], None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self):
        while not self.over.wait(0.005):
            for path, action in self.actions.items():
                if os.path.exists(path):
                    try:
                        action()
                        self.done.append(path)
                        os.unlink(path)
                    except Exception as error:  # pylint: disable=broad-except
                        self.error = error
                        return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.over.set()
        self.thread.join()
        if self.error and not kind:
            raise self.error
