"""Files of tensors: `.npy`, `.npz`, `.tns` and `.mtx`, as far as they are needed here."""

import ast
import io
import os
import struct
import zipfile


def npy_bytes(shape, values):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}d", *values)


def write_npz(path, arrays):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, (shape, values) in arrays.items():
            archive.writestr(f"{name}.npy", npy_bytes(shape, values))


def read_npy(path):
    """Shape and values."""
    with open(path, "rb") as f:
        data = f.read()
    if data[:6] != b"\x93NUMPY":
        raise ValueError(f"{path}: not a NumPy file")
    wide = data[6] >= 2
    (length,) = struct.unpack_from("<I" if wide else "<H", data, 8)
    start = (12 if wide else 10) + length
    header = ast.literal_eval(data[start - length : start].decode())
    if header["fortran_order"] and len(header["shape"]) > 1 or header["descr"] != "<f8":
        raise ValueError(f"{path}: {header}")
    values = struct.unpack(f"<{(len(data) - start) // 8}d", data[start:])
    count = 1
    for n in header["shape"]:
        count *= n
    if count != len(values):
        raise ValueError(f"{path}: {len(values)} values for {header['shape']}")
    return tuple(header["shape"]), values


def write_tns(path, shape, entries):
    """Entries are {place: value}, or a set of places."""
    out = io.StringIO()
    out.write(f"# shape: {' '.join(map(str, shape))}\n")
    for place in sorted(entries):
        out.write(" ".join(str(k + 1) for k in place))
        out.write(f" {number(entries[place])}\n" if isinstance(entries, dict) else "\n")
    with open(path, "w") as f:
        f.write(out.getvalue())


def number(v):
    return {"inf": "inf", "-inf": "-inf", "nan": "nan"}.get(repr(v), repr(v))


def read_sparse(path):
    """Shape and {place: value} of a `.tns` or `.mtx` file."""
    with open(path) as f:
        lines = [x.strip() for x in f if x.strip()]
    if os.path.splitext(path)[1] == ".mtx":
        lines = [x for x in lines if not x.startswith("%")]
        *shape, count = map(int, lines[0].split())
    else:
        shape = list(map(int, lines[0].split(":")[1].split()))
        count = None
    entries = {}
    for line in lines[1:]:
        *place, value = line.split()
        entries[tuple(int(k) - 1 for k in place)] = float(value)
    if count not in (None, len(entries)) or len(entries) != len(lines) - 1:
        raise ValueError(f"{path}: {len(entries)} entries in {len(lines)} lines")
    return tuple(shape), entries
