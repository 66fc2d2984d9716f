"""Who can write to cache files on Windows, asked of a stand-in for Win32."""

import ctypes
import os
import sys
from types import SimpleNamespace

import pytest

from fdiff.kernels import disk_cache, file_owners

ME, OTHER = "S-1-5-21-11-22-33-1001", "S-1-5-21-11-22-33-1002"
SYSTEM, ADMINISTRATORS, EVERYONE = "S-1-5-18", "S-1-5-32-544", "S-1-1-0"
PROFILE = f"D:(A;OICIID;FA;;;SY)(A;OICIID;FA;;;BA)(A;OICIID;FA;;;{ME})"


class Win32:
    """The functions of advapi32 and kernel32 that are called, with what they allocate."""

    OWNER, USER, DESCRIPTOR = 0x1000, 0x2000, 0x3000

    def __init__(self, owner=ME, access=PROFILE, failing=""):
        self.owner, self.access, self.failing = owner, access, failing
        self.asked, self.rooms, self.handles, self.descriptors = [], {}, 0, 0

    def _named(self, *given):
        where, kind, asked, owner, group, access, system, descriptor = given
        assert (kind, asked, group, access, system) == (1, 5, None, None, None)
        self.asked.append(where.value)
        if self.failing == "security":
            return 5
        owner._obj.value, descriptor._obj.value = self.OWNER, self.DESCRIPTOR
        self.descriptors += 1
        return 0

    GetSecurityInfo = GetNamedSecurityInfoW = _named

    def _give(self, place, text):
        buffer = ctypes.create_unicode_buffer(text)
        place._obj.value = ctypes.addressof(buffer)
        self.rooms[place._obj.value] = buffer
        return 1

    def ConvertSidToStringSidW(self, account, place):  # noqa: N802 - as Windows spells it
        text = {self.OWNER: self.owner, self.USER: ME}[account.value]
        return 0 if self.failing == "text" else self._give(place, text)

    def ConvertSecurityDescriptorToStringSecurityDescriptorW(self, *given):  # noqa: N802 - likewise
        descriptor, revision, asked, place, length = given
        assert (descriptor.value, revision, asked, length) == (self.DESCRIPTOR, 1, 4, None)
        return self._give(place, self.access)

    def OpenProcessToken(self, process, asked, token):  # noqa: N802 - likewise
        assert process.value == ctypes.c_void_p(-1).value
        assert asked == 8
        self.handles += 1
        token._obj.value = 0x4000
        return self.failing != "token"

    def GetTokenInformation(self, token, kind, room, size, _):  # noqa: N802 - likewise
        assert (token.value, kind, size) == (0x4000, 1, len(room))
        ctypes.c_void_p.from_buffer(room).value = self.USER
        return self.failing != "user"

    def CloseHandle(self, _):  # noqa: N802 - likewise
        self.handles -= 1

    def LocalFree(self, place):  # noqa: N802 - likewise
        if place.value == self.DESCRIPTOR:
            self.descriptors -= 1
        else:
            del self.rooms[place.value]


@pytest.fixture
def windows(monkeypatch):
    """Makes this process see a Windows whose files have this owner and these rights."""
    monkeypatch.delattr(os, "geteuid", raising=False)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(get_osfhandle=lambda handle: handle))

    def set_to(**settings):
        file_owners._user.cache_clear()
        system = Win32(**settings)
        monkeypatch.setattr(file_owners, "_library", lambda _: system)
        return system

    yield set_to
    file_owners._user.cache_clear()


RIGHTS = {  # access lists, and whether others are kept out
    PROFILE: True,
    "D:PAI(A;;FA;;;BA)(A;;0x1200a9;;;BU)": True,
    f"D:(A;;FA;;;{ME})(A;;FR;;;WD)(A;;FRFX;;;AU)(A;;GRGX;;;IU)(A;;CCSWWPLORC;;;BU)": True,
    f"D:(D;;FA;;;WD)(A;;FA;;;{ME})": True,
    f"D:(A;OICIIO;GA;;;CO)(A;;FA;;;OW)(A;;FA;;;{ME})": True,
    f"D:(A;OICIIO;FA;;;WD)(A;;FA;;;{ME})": True,
    f"D:(A;;FA;;;{ME})(A;;FA;;;{OTHER})": False,
    f"D:AI(A;ID;FA;;;{ME})(A;ID;0x1301bf;;;AU)(A;ID;0x1200a9;;;BU)": False,
    f"D:(A;;FA;;;{ME})(A;;FW;;;WD)": False,
    f"D:(A;;FA;;;{ME})(A;;GW;;;BU)": False,
    f"D:(A;;FA;;;{ME})(A;;FRWD;;;BU)": False,
    f"D:(A;;FA;;;{ME})(A;;CCDC;;;BU)": False,
    f"D:(A;;FA;;;{ME})(A;;0x2;;;{OTHER})": False,
    f"D:(A;;FA;;;{ME})(A;CI;0x4;;;{OTHER})": False,
    f"D:(A;;FA;;;{ME})(XA;;FA;;;WD;(@User.x))": False,
    "D:NO_ACCESS_CONTROL": False,
    "D:": False,
    "": False,
}


@pytest.mark.parametrize("access", RIGHTS)
@pytest.mark.parametrize("owner", [ME, SYSTEM, ADMINISTRATORS, OTHER, EVERYONE])
def test_a_file_is_trusted_if_only_this_user_and_administrators_can_write_to_it(
    owner, access, windows, tmp_path
):
    system = windows(owner=owner, access=access)
    wanted = RIGHTS[access] and owner not in (OTHER, EVERYONE)
    for where in (tmp_path, 7):
        assert file_owners.trusted(tmp_path.stat(), where) is wanted
    assert system.asked == [str(tmp_path), 7]
    assert (system.rooms, system.handles, system.descriptors) == ({}, 0, 0)


@pytest.mark.parametrize("failing", ["security", "text", "token", "user"])
def test_what_windows_does_not_tell_is_not_trusted(failing, windows, tmp_path):
    system = windows(failing=failing)
    assert not file_owners.trusted(tmp_path.stat(), tmp_path)
    assert system.rooms == {}
    assert system.descriptors == 0


def test_entries_of_others_are_not_read(windows, monkeypatch, tmp_path):
    monkeypatch.setenv("FDIFF_CACHE_DIR", str(tmp_path / "cache"))
    windows()
    disk_cache.write("name", "text", b"content")
    assert disk_cache.read("name", "text") == b"content"
    assert disk_cache.has("name")
    for settings in ({"owner": OTHER}, {"access": f"{PROFILE}(A;;FA;;;WD)"}):
        windows(**settings)
        with pytest.warns(UserWarning, match="others than this user can write to"):
            assert not disk_cache.has("name")
        assert disk_cache.read("name", "text") is None
        disk_cache._tell_unusable.cache_clear()
    windows(owner=ADMINISTRATORS)
    assert disk_cache.read("name", "text") == b"content"
