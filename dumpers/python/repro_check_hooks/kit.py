# SPDX-License-Identifier: Apache-2.0
"""The probe and the recorder that fit a PyTorch: those in the user's cache, or built now of the kit, against that
PyTorch's own headers; a probe that was installed comes first. Run as a program, by the interpreter whose PyTorch it is,
it says so without importing PyTorch: `kit.py probe|recorder|kept LIBEXEC PRIVATE [LIBTORCH]`, where `kept`
is the recorder if it is there already. PRIVATE is a folder of this run alone, for which the cache is left if others can
write to it; it may be empty. LIBTORCH is the libtorch_cpu.so of a program without Python. On stdout, with zero bytes
between: `file` and where it is; `refused`, why and what to do; `unsafe` and why, if PRIVATE was needed; nothing where
there is no PyTorch.

Imports nothing that the interpreter has not got by itself, before there is something to build."""
import os
import sys

if __package__:
    from .ownership import refusal
else:  # run as a program: what lies beside it is what it finds first
    from ownership import refusal

TYPE_CHECKING = False  # the module typing is not loaded into programs
if TYPE_CHECKING:
    from typing import IO, Any, Dict, Iterable, List, Optional, Sequence, Tuple

    Job = Tuple[List[str], str, str]  # a command, what it makes, where that is kept

# What the sources and our own library need.
_OLDEST_GCC, _OLDEST_CLANG = 11, 16
# What one compiler takes of memory.
_MEMORY = 1.5e9
# Of the kit's folders that include LibTorch, those that are compiled as one file: its headers are most of the time.
# Both products have the engine in them. A recorder waits for nothing that is in a file of its own alone.
_UNITS = {"engine": ("-O2", ["capture/engine", "capture/generators", "capture/tensors", "capture/torch"]),
          "probe": ("-O2", ["capture/settings", "probe"]),
          "recorder": ("-O1", ["capture/settings", "exported", "torchscript", "replay"])}
# Of the kit's libraries. Others are not made for shared ones, and some linkers look at all that is in a file of which
# they want one function.
_PROBE_LIBRARIES = ["librepro_check_journal.a", "librepro_check_core.a"]


class Refused(Exception):
    """It cannot be had; the text says why, `mend` what to do."""

    def __init__(self, text: str, mend: str) -> None:
        super().__init__(f"{text}; {mend}")
        self.text, self.mend = text, mend


class Unsafe(Refused):
    """Others can write to the cache, and there is no folder of this run to build in."""


class Torch:
    """A PyTorch on the disk.

    folder: that of the Python module, or what a LibTorch without Python is installed in.
    libraries: where they are."""

    def __init__(self, version: str, folder: str, libraries: "Optional[str]" = None) -> None:
        self.version = version
        self.folder = folder
        self.library = os.path.join(libraries or os.path.join(folder, "lib"), "libc10.so")
        if not os.path.exists(self.library):
            raise Refused(f"PyTorch {version} has no {self.library}, so no probe or recorder fits it",
                          "use a PyTorch of pip, conda or the distribution")

    @property
    def release(self) -> str:
        return ".".join(self.version.split(".")[:2])

    def has_old_abi(self) -> bool:
        """Whether its strings are those of GCC 4, which those of our library are not."""
        with open(self.library, "rb") as file:
            contents = file.read()
        found = contents.find(b"St7__cxx11")
        while found >= 0:
            if contents.startswith(b"_ZN3c10", contents.rfind(b"\0", 0, found) + 1):
                return False
            found = contents.find(b"St7__cxx11", found + 1)
        return True

    def headers(self, product: str) -> "List[str]":
        place = os.path.join(self.folder, "include")
        if not os.path.exists(os.path.join(place, "ATen", "ATen.h")):
            raise Refused(f"there is no {product} for PyTorch {self.version}, and it has no headers in {place} to "
                          "build one against", "install them (Debian: libtorch-dev), or use a PyTorch that has them")
        # The system's own folder is searched anyway, and works only where it stands in that order.
        return [folder for folder in (place, os.path.join(place, "torch", "csrc", "api", "include"))
                if folder != "/usr/include"]

    def libraries(self) -> "List[str]":
        """As the linker takes them. Debian has only one of the first two beside the module."""
        place = os.path.dirname(os.path.realpath(self.library))
        names = sorted(os.listdir(place))
        found = [next((name for name in names if name.startswith(start)), "")
                 for start in ("libtorch_cpu.so", "libtorch.so")]
        if not all(found):
            raise Refused(f"PyTorch {self.version} has no libtorch_cpu.so in {place}, so no probe or recorder fits it",
                          "use a PyTorch of pip, conda or the distribution")
        return [*(os.path.join(place, name) for name in found), self.library]


def find_torch() -> "Optional[Torch]":
    """The one that the interpreter would import; none where there is none, or where it does not tell its version."""
    for finder in sys.meta_path:
        spec = finder.find_spec("torch", None) if hasattr(finder, "find_spec") else None
        if spec is None:
            continue
        if not spec.origin:
            return None
        folder = os.path.dirname(spec.origin)
        version = _after(os.path.join(folder, "version.py"), "__version__ =")
        return Torch(version, folder) if version else None
    return None


def torch_of(library: str) -> Torch:
    """The one that a libtorch_cpu.so belongs to."""
    place = os.path.realpath(os.path.dirname(library))  # /lib is a link to /usr/lib
    folder = os.path.dirname(place)
    if not os.path.exists(os.path.join(folder, "include")):  # of Debian: /usr/lib/x86_64-linux-gnu
        folder = os.path.dirname(folder)
    version = _after(os.path.join(folder, "version.py"), "__version__ =")
    for header in ("headeronly/version.h", "csrc/api/include/torch/version.h"):
        file = os.path.join(folder, "include", "torch", header)
        parts = [_after(file, f"#define TORCH_VERSION_{part} ") or "" for part in ("MAJOR", "MINOR", "PATCH")]
        version = version or (".".join(parts) if all(parts) else None)
    if not version:
        raise Refused(f"the PyTorch version of {library} is unknown, so no probe or recorder fits it",
                      "install its headers (Debian: libtorch-dev)")
    return Torch(version, folder, place)


def _after(file: str, key: str) -> "Optional[str]":
    """What a line of the file says after `key`; of several the first."""
    try:
        with open(file, encoding="utf-8") as lines:
            found = [line[len(key):].strip().strip("'\"") for line in lines if line.startswith(key)]
    except OSError:
        return None
    return found[0] if found else None


def probe_for(torch: Torch, libexec: str, private: str) -> str:
    """The file, which is built where it is not there yet.

    libexec: where installed probes are, and the kit.
    private: a folder of this run alone, or empty."""
    installed = os.path.join(libexec, f"librepro_check_probe-{torch.release}.so")
    if os.path.exists(installed) and not torch.has_old_abi():
        why = refusal(installed, __file__)
        if why:
            raise Refused(f"{why}, so it is not loaded", "install repro-check again, for you or root alone")
        return installed
    return _Build("probe", "probe.so", torch, libexec).file(private)


def recorder_for(torch: Torch, libexec: str, private: str, may_build: bool = True) -> str:
    """The same of a recorder; an empty name where it would have to be built and may not."""
    import hashlib

    # It finds its PyTorch where that lies: another environment takes another one, linked of the same objects.
    place = os.path.dirname(os.path.realpath(torch.library))
    name = "repro-check-recorder-" + hashlib.sha256(os.fsencode(place)).hexdigest()[:12]
    build = _Build("recorder", name, torch, libexec)
    return build.file(private) if may_build or build.is_kept() else ""


def cache_folder() -> str:
    """Of the user."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(given if os.path.isabs(given) else os.path.expanduser("~/.cache"), "repro-check")


class _Build:
    """Of one product, against one PyTorch. A folder of the cache holds all that was built of one kit against one
    PyTorch: products, the objects that they are linked of, what the compiler said, and a lock.

    place: of the product, there or not, in the folder that was chosen."""

    def __init__(self, product: str, name: str, torch: Torch, libexec: str) -> None:
        self.product, self.torch = product, torch
        self._kit = os.path.abspath(os.path.join(libexec, "kit"))
        if torch.has_old_abi():
            raise Refused(f"PyTorch {torch.version} has the old C++ ABI of GCC, for which there is no {product}",
                          "use release 2.7 or later, or the distribution's package")
        try:
            with open(os.path.join(self._kit, "id"), encoding="utf-8") as file:
                self._id = file.read().strip()
        except OSError:
            raise Refused(f"there is no {product} for PyTorch {torch.version} in {libexec}, and nothing to build "
                          "one of",
                          "install repro-check again") from None
        self._name, self._folder_name = name, f"{torch.version}-cxx11-{self._id}".replace("/", "_")
        self._choose(cache_folder())

    def _choose(self, parent: str) -> None:
        self._folder = os.path.join(parent, self._folder_name)
        self._log = os.path.join(self._folder, self.product + ".log")
        self.place = os.path.join(self._folder, self._name)

    def _refusal(self) -> str:
        """Says why nothing of the folder may be used, nor written there; empty if it may."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            names = []
        return next(filter(None, (refusal(os.path.join(self._folder, name)) for name in ["", *names])), "")

    def is_kept(self) -> bool:
        return os.path.exists(self.place) and not self._refusal()

    def file(self, private: str) -> str:
        why = self._refusal()
        if why:
            if not private:
                raise Unsafe(f"{why}, so the cache is not used",
                             "point XDG_CACHE_HOME at a folder that you alone can write to")
            self._choose(private)
            if self._refusal():
                raise Refused(f"{self._refusal()}, so nothing is built there",
                              "set TMPDIR to a folder that only you can write to")
            if not os.path.exists(self.place):
                _say(f"repro-check: {why}: the cache is not used, and the {self.product} is built for this run only\n")
        if os.path.exists(self.place):
            return self.place
        # Asked first: without them nothing else matters.
        headers, libraries = self.torch.headers(self.product), self.torch.libraries()
        compiler = _compiler(self.torch, self.product)
        try:
            _make_folder(self._folder)
            with _Lock(os.path.join(self._folder, "lock"), self.torch) as lock:
                if not os.path.exists(self.place):  # which another process has built meanwhile
                    self._make(lock, compiler, headers, libraries)
        except OSError as error:
            raise Refused(f"the {self.product} for PyTorch {self.torch.version} cannot be kept in {self._folder}: "
                          f"{error.strerror}", "set XDG_CACHE_HOME to a writable folder") from None
        return self.place

    def _make(self, lock: "_Lock", compiler: "List[str]", headers: "List[str]", libraries: "List[str]") -> None:
        import hashlib
        import shutil
        import tempfile

        _make_folder(self._folder)  # may have been cleaned while the lock was waited for
        if lock.held:
            for entry in os.listdir(self._folder):  # of builds that were killed
                if entry.startswith("building-"):
                    shutil.rmtree(os.path.join(self._folder, entry), ignore_errors=True)
        work = tempfile.mkdtemp(prefix="building-", dir=self._folder)
        try:
            # What one compiler made is nothing that another one may link.
            maker = hashlib.sha256(" ".join(compiler).encode(errors="replace")).hexdigest()[:8]
            objects = {unit: os.path.join(self._folder, f"{unit}-{maker}.o") for unit in ("engine", self.product)}
            compiling = [self._compiling(unit, place, compiler, headers, work) for unit, place in objects.items()
                         if not os.path.exists(place)]
            linking = self._linking(objects.values(), compiler, libraries, work)
            with open(self._log, "w", encoding="utf-8", opener=_owned) as output, \
                    _Progress(self, len(compiling) + 1) as progress:
                self._run(compiling, output, progress)
                self._run([linking], output, progress)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _compiling(self, unit: str, place: str, compiler: "List[str]", headers: "List[str]", work: str) -> "Job":
        """(command, what it makes, where that is kept)"""
        level, folders = _UNITS[unit]
        source, made = os.path.join(work, unit + ".cpp"), os.path.join(work, unit + ".o")
        with open(source, "w", encoding="utf-8") as file:
            for folder in folders:
                sources = os.path.join(self._kit, "dumpers", folder)
                file.writelines(f'#include "{os.path.join(sources, name)}"\n' for name in sorted(os.listdir(sources))
                                if name.endswith(".cpp"))
        version = self._id.rpartition("-")[0]
        return ([*compiler, level, f'-DREPRO_CHECK_VERSION="{version}"', f"-I{self._kit}",
                 *(flag for folder in headers for flag in ("-isystem", folder)), "-c", source, "-o", made], made, place)

    def _linking(self, objects: "Iterable[str]", compiler: "List[str]", libraries: "List[str]", work: str) -> "Job":
        made = os.path.join(work, "made")
        ours = os.path.join(self._kit, "lib")
        cpu, whole, c10 = libraries
        names = _PROBE_LIBRARIES if self.product == "probe" else sorted(os.listdir(ours))
        archives = ["-Wl,--start-group", *(os.path.join(ours, name) for name in names), "-Wl,--end-group"]
        if self.product == "probe":
            what = ["-shared", *objects, *archives, cpu, c10, "-Wl,--as-needed", "-Wl,-z,defs",
                    "-Wl,--version-script=" + os.path.join(self._kit, "dumpers", "probe", "probe.map")]
        else:
            with open(os.path.join(self._kit, "shared"), encoding="utf-8") as file:
                shared = file.read().split()
            # Of archives that hold more than is used, the distribution's LibTorch brings what that asks for, and the
            # linker wants to be allowed to look there.
            if os.path.realpath(whole).startswith("/usr/lib/"):
                shared.append("-Wl,--copy-dt-needed-entries")
            # No symbol is in `whole`: it is what brings a GPU's operators in.
            what = [*objects, *archives, *shared, "-Wl,--no-as-needed", whole, "-Wl,--as-needed", cpu, c10,
                    "-Wl,--gc-sections", "-Xlinker", "-rpath", "-Xlinker", os.path.dirname(os.path.realpath(c10))]
        return ([*compiler, *what, "-ldl", "-Wl,-z,now", "-Wl,--exclude-libs,ALL", "-Wl,-s", "-o", made], made,
                self.place)

    def _run(self, commands: "Sequence[Job]", output: "IO[str]", progress: "_Progress") -> None:
        """As many at once as there are processors and memory for. Keeps what was made, whole or not at all."""
        import shlex
        import subprocess
        import time

        waiting = list(commands)
        running: List[Any] = []
        failed: List[Tuple[str, int]] = []
        try:
            while (waiting and not failed) or running:
                while waiting and not failed and len(running) < _at_once():
                    command = waiting[0][0]
                    output.write(shlex.join(command) + "\n")
                    output.flush()
                    running.append((subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output),
                                    *waiting.pop(0)))
                for process, command, made, kept in [job for job in running if job[0].poll() is not None]:
                    running = [job for job in running if job[0] is not process]
                    if process.returncode != 0:
                        failed.append((command[0], process.returncode))
                        continue
                    with open(made, "rb") as file:
                        os.fsync(file.fileno())
                        os.fchmod(file.fileno(), os.fstat(file.fileno()).st_mode & ~0o022)
                    os.replace(made, kept)
                    progress.built()
                progress.show()
                time.sleep(0.1)
        finally:
            for process, *_ in running:
                process.kill()
                process.wait()
        if failed:
            compiler, code = failed[0]
            how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
            raise Refused(f"the {self.product} for PyTorch {self.torch.version} could not be built: {compiler} {how}",
                          f"its output is in {self._log}")


def _make_folder(folder: str) -> None:
    """With those above it. Whatever the umask, its owner alone can write to it."""
    if not os.path.isdir(folder):
        _make_folder(os.path.dirname(folder))
        try:
            os.mkdir(folder, 0o755)
        except FileExistsError:
            pass


def _owned(path: str, flags: int) -> int:
    return os.open(path, flags, 0o644)


def _at_once() -> int:
    """How many compilers."""
    processors = len(os.sched_getaffinity(0))
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return processors
    return max(1, min(processors, int(free // _MEMORY)))


class _Lock:
    """Held by one process at a time; goes with the process. Where files cannot be locked nobody is kept out, which
    costs time alone."""

    def __init__(self, path: str, torch: Torch) -> None:
        self._file = open(path, "w", encoding="utf-8", opener=_owned)
        self._torch = torch
        self.held = False

    def __enter__(self) -> "_Lock":
        import fcntl

        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _say(f"repro-check: waiting for another process that builds for PyTorch {self._torch.version}\n")
                fcntl.flock(self._file, fcntl.LOCK_EX)
            self.held = True
        except OSError:
            pass
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()


def _compiler(torch: Torch, product: str) -> "List[str]":
    """Its words, with the flags that it takes."""
    import shlex
    import shutil

    words = shlex.split(os.environ.get("CXX", ""))
    names = [words] if words else [["c++"], ["g++"], ["clang++"]]
    found = next((name for name in names if shutil.which(name[0])), None)
    if found is None:
        raise Refused(f"there is no {product} for PyTorch {torch.version}, and no C++ compiler to build one: looked "
                      "for " + ", ".join(name[0] for name in names), "install g++, or name a compiler in CXX")
    macros = _macros(found)
    clang, gcc = macros.get("__clang_major__"), macros.get("__GNUC__")
    kind, major, oldest = ("Clang", clang, _OLDEST_CLANG) if clang else ("GCC", gcc, _OLDEST_GCC)
    if not major or int(major) < oldest:
        what = f"{kind} {major}" if major else "no compiler of C++20 that answers"
        raise Refused(f"there is no {product} for PyTorch {torch.version}, and {' '.join(found)} cannot build one: "
                      f"it is {what}",
                      f"install GCC {_OLDEST_GCC} or Clang {_OLDEST_CLANG}, or newer, or name one in CXX")
    flags = ["-std=c++20", "-DNDEBUG", "-fPIC", "-pthread", "-w", "-fvisibility=hidden",
             "-fvisibility-inlines-hidden", "-ffp-contract=off", "-DFMT_HEADER_ONLY=1", "-D_GLIBCXX_USE_CXX11_ABI=1"]
    # Clang's OpenMP is another one than PyTorch's, and two in one process get in each other's way.
    return [*found, *flags] if clang else [*found, *flags, "-fopenmp"]


def _macros(compiler: "List[str]") -> "Dict[str, str]":
    import subprocess

    asked = subprocess.run([*compiler, "-std=c++20", "-x", "c++", "-dM", "-E", "/dev/null"], capture_output=True,
                           text=True, errors="replace", stdin=subprocess.DEVNULL)
    lines = [line.split(None, 2) for line in asked.stdout.splitlines()]
    return {line[1]: line[2] for line in lines if len(line) == 3} if asked.returncode == 0 else {}


def _say(text: str) -> None:
    try:
        os.write(2, text.encode())
    except OSError:
        pass


class _Progress:
    """One line on stderr: how many of the units are built, and the seconds so far. On a terminal it counts the seconds,
    in a log they stand behind each unit."""

    def __init__(self, build: _Build, units: int) -> None:
        import time

        self._clock = time.monotonic
        self._begun = self._clock()
        self._units, self._built = units, 0
        self._line = f"repro-check: building the {build.product} for PyTorch {build.torch.version}, once:"
        self._terminal = os.isatty(2)
        self._shown = 0

    def __enter__(self) -> "_Progress":
        _say(f"{self._line} {self._state()} ...")
        return self

    def _state(self) -> str:
        return f"{self._built} of {self._units} units, {self._clock() - self._begun:.0f} s"

    def built(self) -> None:
        """Another unit is."""
        self._built += 1
        if not self._terminal:
            _say(f" {self._state()} ...")

    def show(self) -> None:
        seconds = int(self._clock() - self._begun)
        if self._terminal and seconds > self._shown:
            self._shown = seconds
            _say(f"\r{self._line} {self._state()} ...")

    def __exit__(self, kind: object, *_error: object) -> None:
        end = "done" if kind is None else "ended"
        seconds = self._clock() - self._begun
        _say(f"\r\033[K{self._line} {end} after {seconds:.0f} s\n" if self._terminal
             else f" {end} after {seconds:.0f} s\n")


def main() -> None:
    answer: List[str] = []
    try:
        product, libexec, private, *library = sys.argv[1:]
        torch = torch_of(library[0]) if library else find_torch()
        if torch is not None:
            file = (probe_for(torch, libexec, private) if product == "probe"
                    else recorder_for(torch, libexec, private, product != "kept"))
            answer = ["file", file] if file else []
    except Unsafe as refused:
        answer = ["unsafe", refused.text]
    except Refused as refused:
        answer = ["refused", refused.text, refused.mend]
    os.write(1, os.fsencode("\0".join(answer)))


if __name__ == "__main__":
    main()
