# SPDX-License-Identifier: Apache-2.0
"""A file may be loaded only if this user and root alone can have put it where it is. The rule is that of
core/system/ownership.h. This is loaded into programs as well: it imports nothing that Python has not got by itself."""
import os
import stat

_MOST_LINKS = 40  # as the kernel


def refusal(path: str, beside: "str | None" = None) -> str:
    """Says why `path` must not be loaded; empty if only this user and root can change it, or it is not there. A
    file or folder must belong to one of them, and others must not be able to write to it, nor to a folder above it;
    folders with the sticky bit pass. A link must lie in a folder that these two alone write to.

    beside: a file that runs already. Its owner, and the folders above it, are trusted as they are."""
    owners, trusted = {0, os.geteuid()}, set()
    if beside:
        place = os.path.realpath(beside)
        owners.add(os.stat(place).st_uid)
        while place != "/":
            place = os.path.dirname(place)
            trusted.add(place)
    place, waiting, links = "/", os.path.join(os.getcwd(), path).split("/")[::-1], 0
    why = "" if "/" in trusted else _refusal_of("/", os.lstat("/"), owners)
    while waiting and not why:
        name = waiting.pop()
        if name in ("", "."):
            continue
        if name == "..":
            place = os.path.dirname(place)
            continue
        at = os.path.join(place, name)
        try:
            found = os.lstat(at)
            if not stat.S_ISLNK(found.st_mode):
                why = "" if at in trusted else _refusal_of(at, found, owners)
                place = at
                continue
            links += 1
            if links > _MOST_LINKS:
                return f"{at}: has too many links"
            target = os.readlink(at)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            return f"{at}: {error.strerror}"
        if found.st_uid not in owners:
            return f"{at}: is a link that belongs to {_user(found.st_uid)}"
        if place not in trusted and _writers(os.lstat(place), owners):
            return f"{at}: is a link in a folder that others can write to"
        place = "/" if target.startswith("/") else place
        waiting += target.split("/")[::-1]
    return why


def _refusal_of(path: str, found: os.stat_result, owners: "set[int]") -> str:
    is_folder = stat.S_ISDIR(found.st_mode)
    if not is_folder and not stat.S_ISREG(found.st_mode):
        return f"{path}: is no file"
    if found.st_uid not in owners and not (is_folder and found.st_uid in _unmapped()):
        return f"{path}: belongs to {_user(found.st_uid)}"
    if is_folder and found.st_mode & stat.S_ISVTX:
        return ""
    writers = _writers(found, owners)
    return f"{path}: {writers} can write to it" if writers else ""


def _writers(found: os.stat_result, owners: "set[int]") -> str:
    """Those who can write to it beside its owner; empty if there are none."""
    if found.st_mode & stat.S_IWOTH:
        return "other users"
    return "its group" if found.st_mode & stat.S_IWGRP and _has_others(found.st_gid, owners) else ""


def _has_others(group: int, owners: "set[int]") -> bool:
    """True if a group has members that are none of `owners`, or is not known."""
    import grp
    import pwd

    try:
        members = set(grp.getgrgid(group).gr_mem)
    except KeyError:
        return True
    users = pwd.getpwall()
    members -= {user.pw_name for user in users if user.pw_uid in owners}
    return bool(members) or any(user.pw_gid == group and user.pw_uid not in owners for user in users)


def _user(number: int) -> str:
    try:
        import pwd

        return f"user {pwd.getpwuid(number).pw_name}"
    except (KeyError, ImportError):
        return f"user {number}"


def _unmapped() -> "set[int]":
    """In a user namespace, as of a container without root, the number that all users from outside have: folders of the
    system belong to it there."""
    try:
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
            number = int(file.read())
        with open("/proc/self/uid_map", encoding="ascii") as file:
            ranges = [line.split() for line in file]
    except (OSError, ValueError):
        return set()
    is_mapped = any(int(first) <= number < int(first) + int(count) for first, _, count in ranges)
    return set() if is_mapped else {number}
