# SPDX-License-Identifier: MIT
"""The processes of a job, by /proc."""


def ranks_of(pid):
    """The process ids of a job's ranks, which have no children."""
    with open(f'/proc/{pid}/task/{pid}/children', encoding='utf-8') as file:
        children = [int(word) for word in file.read().split()]
    return [rank for child in children for rank in ranks_of(child)] or [pid]
