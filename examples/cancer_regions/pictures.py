# SPDX-License-Identifier: MIT
"""Grey pictures as PGM, and several side by side as PNG."""
import os
import struct
import zlib


def write(path, data):
    """The file appears whole."""
    with open(path + '.tmp', 'wb') as file:
        file.write(data)
    os.replace(path + '.tmp', path)


def write_pgm(path, pixels, width):
    write(path, b'P5\n%d %d\n255\n' % (width, len(pixels) // width) + pixels)


def write_png(path, pictures, side, gap=8):
    """Square pictures of bytes, side by side, in every second pixel."""
    def chunk(name, data):
        return (struct.pack('>I', len(data)) + name + data
                + struct.pack('>I', zlib.crc32(name + data)))
    rows = [(b'\xff' * gap).join(p[y * side:(y + 1) * side:2] for p in pictures)
            for y in range(0, side, 2)]
    write(path, b'\x89PNG\r\n\x1a\n'
          + chunk(b'IHDR', struct.pack('>IIBBBBB', len(rows[0]), len(rows),
                                       8, 0, 0, 0, 0))
          + chunk(b'IDAT', zlib.compress(b''.join(b'\0' + r for r in rows), 9))
          + chunk(b'IEND', b''))
