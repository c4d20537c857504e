// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#[test]
fn verbs_have_a_device() {
    assert_eq!(devices::count_devices(), 1);
}
