"""Small packages for package managers that have no network."""

from __future__ import annotations

import zipfile
from pathlib import Path


def build_wheel(folder: Path, name: str, version: str = "1.0") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"version = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},,\n" for file in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(file, text)
    return path


def offline(folder: Path) -> dict[str, str]:
    return {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder),
        "PIP_CONFIG_FILE": "/dev/null",
        "UV_OFFLINE": "1",
        "UV_NO_CONFIG": "1",
        "UV_FIND_LINKS": str(folder),
        "UV_NO_INDEX": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }
