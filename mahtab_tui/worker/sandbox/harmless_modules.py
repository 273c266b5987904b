"""The modules of the standard library whose import changes nothing."""

from __future__ import annotations

HARMLESS_MODULES = (
    "__future__ abc argparse array ast asyncio base64 binascii bisect bz2 calendar cmath codecs collections.abc colorsys concurrent.futures.thread"
    " configparser contextlib contextvars copy copyreg csv dataclasses datetime decimal difflib dis email.message email.parser email.policy"
    " email.utils enum errno fnmatch fractions functools gc getopt gettext glob graphlib gzip hashlib heapq hmac html.entities html.parser http"
    " inspect io ipaddress itertools json keyword linecache locale logging lzma math mimetypes numbers operator os pathlib pickle pkgutil"
    " platform plistlib pprint queue quopri random re reprlib sched secrets select selectors shlex shutil signal socket sqlite3 stat statistics string"
    " stringprep struct subprocess symtable tempfile textwrap threading time timeit token tokenize tomllib traceback tracemalloc types typing"
    " unicodedata urllib.parse uuid warnings weakref xml.dom.minidom xml.etree.ElementTree xml.sax zipfile zlib zoneinfo"
    # Imported by the others on first use.
    " _pydatetime _pydecimal _pylong _strptime _zoneinfo asyncio.taskgroups asyncio.timeouts asyncio.unix_events compression.zstd"
    " concurrent.interpreters encodings.idna getpass importlib.metadata importlib.resources json.tool multiprocessing.context"
    " opcode pydoc xml.etree.cElementTree zipfile._path _colorize _pyrepl"
).split()
"""Names of modules; not every version of Python has all of them."""
