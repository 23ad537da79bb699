#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: make_wheel.py BUILD_DIR OUT_DIR

Makes the wheel of the package in BUILD_DIR/python/stepcast: its sources, libstepcast.so, and the libraries that one
needs and that not every Linux has, under names of their own, so that no other package's are taken for them.  Prints
the wheel's path.  The same inputs give the same bytes.
"""
import base64
import ctypes
import hashlib
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
PLATFORM = "manylinux_2_36"
# What that platform promises (PEP 600): the libraries of glibc and g++, up to these versions.
PROVIDED = re.compile(r"(lib(c|m|dl|pthread|rt|stdc\+\+|gcc_s|z)|ld-linux-x86-64)\.so\.[0-9]+$|linux-vdso\.so\.1$")
NEWEST = {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13)}

METADATA = """Metadata-Version: 2.1
Name: stepcast
Version: {version}
Summary: Forecasts one training step of a transformer on a GPU cluster
License: Apache-2.0
Requires-Python: >=3.9
Provides-Extra: pandas
Requires-Dist: pandas; extra == "pandas"
Description-Content-Type: text/markdown

"""


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed(library):
    """{soname: path} of the libraries that it needs, those that are provided apart."""
    found = dict(re.findall(r"^\s*(\S+) => (\S+) \(", output("ldd", str(library)), re.MULTILINE))
    return {name: found[name] for name in output("patchelf", "--print-needed", str(library)).split()
            if not PROVIDED.match(name)}


def check_symbols(library):
    for kind, version in set(re.findall(r"\b(GLIBC|GLIBCXX|CXXABI)_([0-9.]+)", output("objdump", "-T", str(library)))):
        if tuple(map(int, version.split("."))) > NEWEST[kind]:
            sys.exit(f"{library.name} needs {kind}_{version}, which {PLATFORM} does not promise")


def own_name(soname):
    return re.sub("^lib", "libstepcast-", soname)


def copyright_of(path):
    """The licence of a library, as Debian's package of it has it."""
    package = output("dpkg", "-S", str(pathlib.Path(path).resolve())).split(":")[0]
    return package, pathlib.Path("/usr/share/doc", package, "copyright").read_bytes()


def copy_of(path, copy):
    """Without what only debuggers read; before patchelf, whose files strip does not understand."""
    shutil.copy(path, copy)
    subprocess.run(["strip", "--strip-unneeded", str(copy)], check=True)
    check_symbols(copy)
    return copy


def bundle(library, folder):
    """Copies the library and what it needs into the folder; returns {package: licence} of the latter."""
    licences = {}
    copy = copy_of(library, folder / library.name)
    for soname, path in needed(library).items():
        inner = copy_of(path, folder / own_name(soname))
        if needed(inner):
            sys.exit(f"{soname} needs libraries of its own: {', '.join(needed(inner))}")
        subprocess.run(["patchelf", "--set-soname", inner.name, str(inner)], check=True)
        subprocess.run(["patchelf", "--replace-needed", soname, inner.name, str(copy)], check=True)
        package, text = copyright_of(path)
        licences[package] = text
    subprocess.run(["patchelf", "--set-rpath", "$ORIGIN", str(copy)], check=True)
    return licences


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def write_wheel(path, info, files):
    record = "".join(record_line(name, data) for name, data in sorted(files.items())) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in [*sorted(files.items()), (f"{info}/RECORD", record.encode())]:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, data)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if platform.machine() != "x86_64":
        sys.exit("wheels are made for x86_64 alone")
    package, out = pathlib.Path(sys.argv[1]) / "python/stepcast", pathlib.Path(sys.argv[2])
    library = package / "libstepcast.so"
    read_version = ctypes.CDLL(str(library.resolve())).stepcast_version
    read_version.restype = ctypes.c_char_p
    version = read_version().decode()
    info, tag = f"stepcast-{version}.dist-info", f"py3-none-{PLATFORM}_x86_64"
    files = {f"stepcast/{path.name}": path.read_bytes()
             for path in package.iterdir() if path.suffix in (".py", ".pyi") or path.name == "py.typed"}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        licences = bundle(library, folder)
        files |= {f"stepcast/{path.name}": path.read_bytes() for path in folder.iterdir()}
    files[f"{info}/METADATA"] = (METADATA.format(version=version) + (HERE / "README.md").read_text()).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: stepcast {version}\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    files[f"{info}/licenses/LICENSE"] = (HERE.parent / "LICENSE").read_bytes()
    files |= {f"{info}/licenses/{name}": text for name, text in licences.items()}
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"stepcast-{version}-{tag}.whl"
    write_wheel(path, info, files)
    print(path)


if __name__ == "__main__":
    main()
