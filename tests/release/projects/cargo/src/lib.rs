// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

use std::os::raw::{c_int, c_void};

#[link(name = "ibverbs")]
extern "C" {
    fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut c_void;
    fn ibv_free_device_list(list: *mut *mut c_void);
}

pub fn count_devices() -> i32 {
    let mut count = 0;
    unsafe {
        let list = ibv_get_device_list(&mut count);
        assert!(!list.is_null());
        ibv_free_device_list(list);
    }
    count
}
