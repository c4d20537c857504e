# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

import ctypes


def test_verbs_have_a_device() -> None:
    verbs = ctypes.CDLL("libibverbs.so.1")
    count = ctypes.c_int()
    verbs.ibv_get_device_list.restype = ctypes.c_void_p
    assert verbs.ibv_get_device_list(ctypes.byref(count))
    assert count.value == 1
