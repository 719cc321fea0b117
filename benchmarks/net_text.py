# SPDX-License-Identifier: MIT
"""Reads the text of a net; trainer/README.md has the notation."""

FLAGS = ('ceil', 'nobias')


def options_of(words):
    """"stride 2 ceil" is {'stride': 2.0, 'ceil': True}."""
    words, found = iter(words), {}
    for word in words:
        found[word] = True if word in FLAGS else float(next(words))
    return found


def sides_of(word):
    """"3x5" is (3, 5)."""
    return tuple(map(int, word.split('x')))


def layers_of(text):
    """The shape of an image, and of each layer its words and the numbers of
    those whose output it takes; -1 is the images."""
    shape, layers, names = None, [], {'input': -1}
    for line in text.splitlines():
        words = line.split('#')[0].split()
        if not words or words[0] == 'net':
            continue
        if words[0] == 'input':
            shape = sides_of(words[1])
            continue
        if words[0].endswith(':'):
            names[words.pop(0)[:-1]] = len(layers)
        sources = [len(layers) - 1]
        if 'from' in words:
            at = words.index('from')
            sources = [names[name] for name in words[at + 1:]]
            words = words[:at]
        layers.append((words, sources))
    return shape, layers
