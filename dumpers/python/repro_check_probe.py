# SPDX-License-Identifier: Apache-2.0
"""Which probe a PyTorch takes: one that was installed, one out of the user's cache, or one that is built now, against
that PyTorch's own headers. Run as a program, by the interpreter of a program that is to be recorded, it says so before
the program starts, without importing PyTorch: `repro_check_probe.py LIBEXEC [LIBTORCH]`. LIBTORCH is the libtorch_cpu.so
of a program without Python. On stdout, with zero bytes between: `probe` and its file, or `refused`, why and what to do;
nothing where there is no PyTorch.

Imports nothing that the interpreter has not got by itself, before there is something to build."""
import os
import sys

# What the sources and our own library need.
_OLDEST_GCC, _OLDEST_CLANG = 11, 16
_HALF_A_MINUTE = 30


class Refused(Exception):
    """There can be no probe; the text says why, `mend` what to do."""

    def __init__(self, text, mend):
        super().__init__(f"{text}; {mend}")
        self.text, self.mend = text, mend


class Torch:
    """A PyTorch on the disk.

    folder: that of the Python module, or what a LibTorch without Python is installed in.
    libraries: where they are."""

    def __init__(self, version, folder, libraries=None):
        self.version = version
        self.folder = folder
        self.library = os.path.join(libraries or os.path.join(folder, "lib"), "libc10.so")
        if not os.path.exists(self.library):
            raise Refused(f"PyTorch {version} has no {self.library}, so no probe fits it",
                          "take one of pip, conda or the distribution")

    @property
    def release(self):
        return ".".join(self.version.split(".")[:2])

    def has_old_abi(self):
        """Whether its strings are those of GCC 4, which those of our library are not."""
        with open(self.library, "rb") as file:
            contents = file.read()
        found = contents.find(b"St7__cxx11")
        while found >= 0:
            if contents.startswith(b"_ZN3c10", contents.rfind(b"\0", 0, found) + 1):
                return False
            found = contents.find(b"St7__cxx11", found + 1)
        return True

    def headers(self):
        place = os.path.join(self.folder, "include")
        if not os.path.exists(os.path.join(place, "ATen", "ATen.h")):
            raise Refused(f"there is no probe for PyTorch {self.version}, and it has no headers in {place} to build "
                          "one against", "install them (Debian: libtorch-dev), or a PyTorch that brings them")
        # The system's own folder is searched anyway, and works only where it stands in that order.
        return [folder for folder in (place, os.path.join(place, "torch", "csrc", "api", "include"))
                if folder != "/usr/include"]

    def libraries(self):
        """As the linker takes them. Debian has only one of the two beside the module."""
        place = os.path.dirname(os.path.realpath(self.library))
        for name in sorted(os.listdir(place)):
            if name.startswith("libtorch_cpu.so"):
                return [os.path.join(place, name), self.library]
        raise Refused(f"PyTorch {self.version} has no libtorch_cpu.so in {place}, so no probe fits it",
                      "take one of pip, conda or the distribution")


def find_torch():
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


def torch_of(library):
    """The one that a libtorch_cpu.so belongs to."""
    place = os.path.realpath(os.path.dirname(library))  # /lib is a link to /usr/lib
    folder = os.path.dirname(place)
    if not os.path.exists(os.path.join(folder, "include")):  # of Debian: /usr/lib/x86_64-linux-gnu
        folder = os.path.dirname(folder)
    version = _after(os.path.join(folder, "version.py"), "__version__ =")
    for header in ("headeronly/version.h", "csrc/api/include/torch/version.h"):
        file = os.path.join(folder, "include", "torch", header)
        parts = [_after(file, f"#define TORCH_VERSION_{part} ") for part in ("MAJOR", "MINOR", "PATCH")]
        version = version or (".".join(parts) if all(parts) else None)
    if not version:
        raise Refused(f"nothing tells which PyTorch {library} is of, so there is no probe for it",
                      "install its headers (Debian: libtorch-dev)")
    return Torch(version, folder, place)


def _after(file, key):
    """What a line of the file says after `key`; of several the first."""
    try:
        with open(file, encoding="utf-8") as lines:
            found = [line[len(key):].strip().strip("'\"") for line in lines if line.startswith(key)]
    except OSError:
        return None
    return found[0] if found else None


def probe_for(torch, libexec):
    """The file, which is built where it is not there yet.

    libexec: where installed probes are, and what one is built of."""
    old_abi = torch.has_old_abi()
    installed = os.path.join(libexec, f"librepro_check_probe-{torch.release}.so")
    if os.path.exists(installed) and not old_abi:
        return installed
    if old_abi:
        raise Refused(f"PyTorch {torch.version} has the old C++ ABI of GCC, for which there is no probe",
                      "take a release from 2.7 on, or the distribution's package")
    kit = os.path.join(libexec, "probe")
    try:
        with open(os.path.join(kit, "id"), encoding="utf-8") as file:
            ours = file.read().strip()
    except OSError:
        raise Refused(f"there is no probe for PyTorch {torch.version} in {libexec}, and nothing to build one of",
                      "install repro-check again") from None
    name = f"probe-{torch.version}-cxx11-{ours}".replace("/", "_")
    place = os.path.join(cache_folder(), name + ".so")
    return place if os.path.exists(place) else _build(torch, kit, cache_folder(), name)


def cache_folder():
    """Of the user."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(given if os.path.isabs(given) else os.path.expanduser("~/.cache"), "repro-check")


def _build(torch, kit, cache, name):
    import shutil
    import tempfile

    # Asked first: without them nothing else matters.
    headers, libraries = torch.headers(), torch.libraries()
    compiler, flags = _compiler(torch)
    built = os.path.join(cache, name + ".so")
    try:
        os.makedirs(cache, exist_ok=True)
        with _Lock(os.path.join(cache, name + ".lock")) as lock:
            if os.path.exists(built):
                return built  # by another process meanwhile
            if lock.held:
                for entry in os.listdir(cache):  # of builds that were killed
                    if entry.startswith(name + ".building-"):
                        shutil.rmtree(os.path.join(cache, entry), ignore_errors=True)
            work = tempfile.mkdtemp(prefix=name + ".building-", dir=cache)
            try:
                log = os.path.join(cache, name + ".log")
                made = _compile(torch, work, log, compiler, [
                    *flags, f"-I{kit}", *(flag for place in headers for flag in ("-isystem", place))], kit, libraries)
                with open(made, "rb") as file:
                    os.fsync(file.fileno())
                os.replace(made, built)  # whole or not at all
            finally:
                shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise Refused(f"the probe for PyTorch {torch.version} cannot be kept in {cache}: {error.strerror}",
                      "point XDG_CACHE_HOME at a folder that can be written") from None
    return built


class _Lock:
    """Held by one process at a time; goes with the process. Where files cannot be locked nobody is kept out, which
    costs time alone."""

    def __init__(self, path):
        self._file = open(path, "w", encoding="utf-8")
        self.held = False

    def __enter__(self):
        import fcntl

        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _say("repro-check: another process is building the probe, which is waited for\n")
                fcntl.flock(self._file, fcntl.LOCK_EX)
            self.held = True
        except OSError:
            pass
        return self

    def __exit__(self, *_error):
        self._file.close()


def _compiler(torch):
    """Its words, and the flags that it takes."""
    import shlex
    import shutil

    words = shlex.split(os.environ.get("CXX", ""))
    names = [words] if words else [["c++"], ["g++"], ["clang++"]]
    found = next((name for name in names if shutil.which(name[0])), None)
    if found is None:
        raise Refused(f"there is no probe for PyTorch {torch.version}, and no C++ compiler to build one: looked for "
                      + ", ".join(name[0] for name in names), "install g++, or name a compiler in CXX")
    macros = _macros(found)
    clang, gcc = macros.get("__clang_major__"), macros.get("__GNUC__")
    kind, major, oldest = ("Clang", clang, _OLDEST_CLANG) if clang else ("GCC", gcc, _OLDEST_GCC)
    if not major or int(major) < oldest:
        what = f"{kind} {major}" if major else "no compiler of C++20 that answers"
        raise Refused(f"there is no probe for PyTorch {torch.version}, and {' '.join(found)} cannot build one: it is "
                      + what, f"install GCC {_OLDEST_GCC} or Clang {_OLDEST_CLANG}, or newer, or name one in CXX")
    flags = ["-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-pthread", "-w", "-fvisibility=hidden",
             "-fvisibility-inlines-hidden", "-ffp-contract=off", "-DFMT_HEADER_ONLY=1", "-D_GLIBCXX_USE_CXX11_ABI=1"]
    # Clang's OpenMP is another one than PyTorch's, and two in one process get in each other's way.
    return found, flags if clang else [*flags, "-fopenmp"]


def _macros(compiler):
    import subprocess

    asked = subprocess.run([*compiler, "-std=c++20", "-x", "c++", "-dM", "-E", "/dev/null"], capture_output=True,
                           text=True, errors="replace", stdin=subprocess.DEVNULL)
    lines = [line.split(None, 2) for line in asked.stdout.splitlines()]
    return {line[1]: line[2] for line in lines if len(line) == 3} if asked.returncode == 0 else {}


def _compile(torch, work, log, compiler, flags, kit, libraries):
    """The library, in `work`."""
    made = os.path.join(work, "probe.so")
    with _Progress(torch) as progress, open(log, "w", encoding="utf-8") as output:
        objects, commands = [], []
        for name, sources in _halves(os.path.join(kit, "dumpers")):
            unit = os.path.join(work, name + ".cpp")
            with open(unit, "w", encoding="utf-8") as file:
                file.writelines(f'#include "{source}"\n' for source in sources)
            objects.append(os.path.join(work, name + ".o"))
            commands.append([*compiler, *flags, "-c", unit, "-o", objects[-1]])
        _run(torch, commands, log, output, progress)
        archives = [os.path.join(kit, "lib", name) for name in sorted(os.listdir(os.path.join(kit, "lib")))]
        _run(torch, [[*compiler, *flags, "-shared", "-o", made, *objects, "-Wl,--start-group", *archives,
                      "-Wl,--end-group", *libraries, "-ldl", "-Wl,--as-needed", "-Wl,-z,defs", "-Wl,-z,now",
                      "-Wl,--exclude-libs,ALL", "-Wl,-s",
                      "-Wl,--version-script=" + os.path.join(kit, "dumpers", "probe", "probe.map")]],
             log, output, progress)
    return made


def _halves(dumpers):
    """Of the sources, which take equally long. LibTorch's headers are most of that: they are read once for each."""
    halves = {"engine": [], "rest": []}
    for folder, _, names in sorted(os.walk(dumpers)):
        half = "rest" if os.path.basename(folder) in ("settings", "probe") else "engine"
        halves[half] += [os.path.join(folder, name) for name in sorted(names) if name.endswith(".cpp")]
    return halves.items()


def _run(torch, commands, log, output, progress):
    """All at once."""
    import shlex
    import subprocess
    import time

    running = []
    try:
        for command in commands:
            output.write(shlex.join(command) + "\n")
            output.flush()
            running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output))
        while any(process.poll() is None for process in running):
            progress.show()
            time.sleep(0.1)
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()
    ended = [process.returncode for process in running if process.returncode != 0]
    if ended:
        how = f"was killed by signal {-ended[0]}" if ended[0] < 0 else f"ended with {ended[0]}"
        raise Refused(f"the probe for PyTorch {torch.version} could not be built: {commands[0][0]} {how}",
                      f"what it said is in {log}")


def _say(text):
    try:
        os.write(2, text.encode())
    except OSError:
        pass


class _Progress:
    """One line on stderr. On a terminal it counts the seconds, in a log they stand at its end."""

    def __init__(self, torch):
        import time

        self._clock = time.monotonic
        self._begun = self._clock()
        self._line = f"repro-check: building the probe for PyTorch {torch.version}, once:"
        self._terminal = os.isatty(2)
        self._shown = 0

    def __enter__(self):
        _say(f"{self._line} about {_HALF_A_MINUTE} s ...")
        return self

    def show(self):
        seconds = int(self._clock() - self._begun)
        if self._terminal and seconds > self._shown:
            self._shown = seconds
            _say(f"\r{self._line} {seconds} s of about {max(_HALF_A_MINUTE, seconds)} s ...")

    def __exit__(self, kind, *_error):
        end = "done" if kind is None else "ended"
        seconds = self._clock() - self._begun
        _say(f"\r\033[K{self._line} {end} after {seconds:.0f} s\n" if self._terminal
             else f" {end} after {seconds:.0f} s\n")


def main():
    answer = []
    try:
        torch = torch_of(sys.argv[2]) if len(sys.argv) > 2 else find_torch()
        if torch is not None:
            answer = ["probe", probe_for(torch, sys.argv[1])]
    except Refused as refused:
        answer = ["refused", refused.text, refused.mend]
    os.write(1, os.fsencode("\0".join(answer)))


if __name__ == "__main__":
    main()
