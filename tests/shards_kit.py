# SPDX-License-Identifier: MIT
"""Pictures in archives and folders, for tests."""
import io
import struct
import tarfile
import zlib


def png(pixel, width, height):
    """Of pixel(x, y), which gives three numbers below 256."""
    def chunk(kind, data):
        return (struct.pack('>I', len(data)) + kind + data
                + struct.pack('>I', zlib.crc32(kind + data)))
    rows = b''.join(b'\0' + bytes(v for x in range(width) for v in pixel(x, y))
                    for y in range(height))
    head = struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head)
            + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))


def picture(number, classes, width=13, height=12):
    """Its class shows, as a colour, from red to blue."""
    blue = number % classes * 200 // (classes - 1)

    def pixel(x, y):
        return [light + (number * 7 + x * y * (c + 1)) % 40
                for c, light in enumerate((200 - blue, 90, blue))]
    return png(pixel, width, height)


def write_tar(path, files, mode='w'):
    """files: of (name, bytes)."""
    with tarfile.open(path, mode) as tar:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def pairs(pictures):
    """pictures: of (key, class, bytes)."""
    for key, label, data in pictures:
        yield key + '.png', data
        yield key + '.cls', str(label).encode()


def write_folder(path, pictures):
    for key, label, data in pictures:
        folder = path / f'{label:03d}'
        folder.mkdir(parents=True, exist_ok=True)
        (folder / (key + '.png')).write_bytes(data)
