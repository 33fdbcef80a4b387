#!/usr/bin/env python3
"""Reads checkpoints of the format in docs/checkpoint-format.md, with nothing but Python's standard library.

    pcm_checkpoint.py show DIR                 what it is of
    pcm_checkpoint.py verify DIR               check every block of every part
    pcm_checkpoint.py export DIR REGION FILE   write an array as one .npy file, any other region as raw bytes

As a module: Checkpoint(dir).array("t") gives (dtype, shape, bytes); numpy.frombuffer makes an array of it.
"""

import itertools
import json
import math
import os
import struct
import sys
import zlib

VERSION = 1


class Damaged(Exception):
    """Something of a checkpoint is not what was written."""


def npy_header(dtype, shape):
    text = "{'descr': %r, 'fortran_order': False, 'shape': %r, }" % (dtype, tuple(shape))
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def lz4_frame(data):
    """One LZ4 frame with independent or linked blocks, without a dictionary."""
    if data[:4] != b"\x04\x22\x4d\x18":
        raise Damaged("no LZ4 frame")
    flags = data[4]
    at = 6 + (8 if flags & 8 else 0) + 1
    out = bytearray()
    while True:
        (size,) = struct.unpack_from("<I", data, at)
        at += 4
        if size == 0:
            return bytes(out)
        length = size & 0x7FFFFFFF
        if size >> 31:
            out += data[at : at + length]
        else:
            lz4_block(data[at : at + length], out)
        at += length + (4 if flags & 16 else 0)


def lz4_block(data, out):
    at = 0

    def extended(length):
        nonlocal at
        if length == 15:
            while True:
                more = data[at]
                at += 1
                length += more
                if more < 255:
                    break
        return length

    while at < len(data):
        token = data[at]
        at += 1
        literals = extended(token >> 4)
        out += data[at : at + literals]
        at += literals
        if at >= len(data):
            break
        distance = data[at] | data[at + 1] << 8
        at += 2
        length = extended(token & 15) + 4
        while length > 0:
            piece = out[len(out) - distance :][:length]
            out += piece
            length -= len(piece)


class Checkpoint:
    """A complete checkpoint; opening checks its seal and manifest."""

    def __init__(self, directory):
        self.directory = directory
        with open(os.path.join(directory, "SEAL")) as seal:
            name, version, manifest, length, crc = seal.read().split()
        if name != "pcm-checkpoint" or int(version) > VERSION:
            raise Damaged(f"{directory}: format {name} {version} is not known here")
        with open(os.path.join(directory, manifest), "rb") as file:
            text = file.read()
        if len(text) != int(length) or zlib.crc32(text) != int(crc, 16):
            raise Damaged(f"{directory}: the manifest is not the one that was sealed")
        self.manifest = json.loads(text)

    def region(self, name):
        for region in self.manifest["regions"]:
            if region["name"] == name:
                return region
        raise KeyError(f"no region {name!r}; there are {[r['name'] for r in self.manifest['regions']]}")

    def part(self, part):
        """The data of a part, every block checked."""
        with open(os.path.join(self.directory, part["file"]), "rb") as file:
            data = file.read()
        size = self.manifest["block_bytes"]
        plain = part["data_offset"] + part["data_bytes"]
        lengths = part["stored"] or [min(size, plain - at) for at in range(0, plain, size)]
        if len(data) != sum(lengths):
            raise Damaged(f"{part['file']}: {len(data)} bytes instead of {sum(lengths)}")
        blocks, at = [], 0
        for length, crc in zip(lengths, part["crc32"]):
            block = data[at : at + length]
            if zlib.crc32(block) != crc:
                raise Damaged(f"{part['file']}: the block at byte {at} has another checksum")
            blocks.append(lz4_frame(block) if part["stored"] else block)
            at += length
        return b"".join(blocks)[part["data_offset"] :]

    def array(self, name):
        """(dtype, shape, bytes) of a whole array, in global order."""
        region = self.region(name)
        array = region["contents"]["array"]
        shape = array["extents"]
        size = array["partition"]["spec"]["element_size"]
        whole = bytearray(size * math.prod(shape))
        for part in region["parts"]:
            data = self.part(part)
            # Runs along the last axis; every combination of indices along the others.
            outer = [list(indices(stripes)) for stripes in part["owned"][:-1]]
            inner = list(intervals(part["owned"][-1]))
            for combination in itertools.product(*outer):
                to = offset(shape, [g for g, _ in combination])
                of = offset(part["shape"], [l for _, l in combination])
                for start, local, length in inner:
                    target, source = (to + start) * size, (of + local) * size
                    whole[target : target + length * size] = data[source : source + length * size]
        return array["dtype"], shape, bytes(whole)

    def raw(self, name):
        """The parts of a region that is no array, by rank."""
        return [self.part(part) for part in self.region(name)["parts"]]


def intervals(stripes):
    for s in stripes:
        for k in range(s["count"]):
            yield s["start"] + k * s["stride"], s["local"] + k * s["local_stride"], s["length"]


def indices(stripes):
    for start, local, length in intervals(stripes):
        for k in range(length):
            yield start + k, local + k


def offset(shape, index):
    """Elements before the row of these indices along all axes but the last."""
    at = 0
    for extent, i in zip(shape, index):
        at = at * extent + i
    return at * shape[-1]


def main(arguments):
    verb, directory, *rest = arguments
    checkpoint = Checkpoint(directory)
    manifest = checkpoint.manifest
    if verb == "show":
        print(f"{manifest['application']['name']}: iteration {manifest['iteration']}, {manifest['ranks']} ranks")
        for region in manifest["regions"]:
            print(f"  {region['name']}: {region['registration']}")
    elif verb == "verify":
        for region in manifest["regions"]:
            for part in region["parts"]:
                checkpoint.part(part)
        print("sound")
    elif verb == "export":
        name, target = rest
        is_array = isinstance(checkpoint.region(name)["contents"], dict)
        with open(target, "wb") as file:
            if is_array:
                dtype, shape, data = checkpoint.array(name)
                file.write(npy_header(dtype, shape) + data)
            else:
                file.write(b"".join(checkpoint.raw(name)))
    else:
        raise ValueError(verb)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (ValueError, KeyError, OSError, Damaged) as error:
        if isinstance(error, ValueError) and not isinstance(error, UnicodeError):
            sys.exit(__doc__)
        sys.exit(f"pcm_checkpoint.py: {error}")
