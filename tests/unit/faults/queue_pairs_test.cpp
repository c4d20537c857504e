// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How a scenario names the queue pairs of a process.

#include "../cmocka.hpp"
#include "faults/address.hpp"
#include "faults/queue_pairs.hpp"

#include <arpa/inet.h>
#include <cstring>

namespace {

using namespace coherdma::faults;

ibv_qp first_qp, second_qp; ///< only their addresses matter

coherdma::interposer::object object_of(const ibv_qp &qp, std::uint64_t number) {
    coherdma::interposer::object object;
    object.kind = coherdma::interposer::object_kind::QP;
    object.handle = &qp;
    object.number = number;
    return object;
}

ibv_ah_attr path_to(const char *address) {
    ibv_ah_attr path = {};
    path.is_global = 1;
    assert_int_equal(inet_pton(AF_INET6, address, &path.grh.dgid), 1);
    return path;
}

void numbers_are_in_the_order_of_creation(void **) {
    queue_pairs tested;
    // The first thread is overtaken.
    assert_int_equal(tested.announce(object_of(first_qp, 10)), 1);
    assert_int_equal(tested.announce(object_of(second_qp, 11)), 2);
    tested.add(object_of(second_qp, 11));
    tested.add(object_of(first_qp, 10));
    assert_int_equal(tested.find(&first_qp).number, 1);
    assert_int_equal(tested.find(&second_qp).number, 2);
    tested.add(object_of(first_qp, 12)); // another one at the same address
    assert_int_equal(tested.find(&first_qp).number, 3);
    tested.remove(object_of(first_qp, 10)); // the end of the first, which is noted late
    assert_int_equal(tested.find(&first_qp).number, 3);
    tested.remove(object_of(first_qp, 12));
    assert_int_equal(tested.find(&first_qp).number, 0);
}

void the_peer_of_a_path(void **) {
    queue_pairs tested;
    tested.add(object_of(first_qp, 10));
    assert_string_equal(tested.find(&first_qp).path_peer.c_str(), "");
    tested.set_peer(&first_qp, {}); // InfiniBand, within the subnet
    assert_string_equal(tested.find(&first_qp).path_peer.c_str(), "");
    tested.set_peer(&first_qp, path_to("::ffff:198.18.0.2"));
    assert_string_equal(tested.find(&first_qp).path_peer.c_str(), "198.18.0.2");
    tested.set_peer(&first_qp, path_to("fd00:0::2"));
    assert_string_equal(tested.find(&first_qp).path_peer.c_str(), "fd00::2");
    tested.clear_peer(&first_qp);
    assert_string_equal(tested.find(&first_qp).path_peer.c_str(), "");
    tested.set_peer(&second_qp, path_to("fd00::3"));
    assert_string_equal(tested.find(&second_qp).path_peer.c_str(), "");
}

void the_peer_of_an_id_of_rdma_cm(void **) {
    queue_pairs tested;
    tested.add(object_of(first_qp, 10));
    rdma_cm_id other = {}, id = {};
    tested.add_cm_id(&other);
    tested.add_cm_id(&id);
    assert_string_equal(tested.find(&first_qp).cm_peer.c_str(), "");
    id.qp = &first_qp;
    assert_string_equal(tested.find(&first_qp).cm_peer.c_str(), ""); // it is not connected
    id.route.addr.dst_sin.sin_family = AF_INET;
    id.route.addr.dst_sin.sin_addr.s_addr = htonl(0xc6120002);
    assert_string_equal(tested.find(&first_qp).cm_peer.c_str(), "198.18.0.2");
    tested.remove_cm_id(&id);
    tested.add(object_of(second_qp, 11));
    id.qp = &second_qp;
    assert_string_equal(tested.find(&second_qp).cm_peer.c_str(), "");
}

void addresses_are_compared_in_one_form(void **) {
    assert_string_equal(normalize_address("::ffff:10.0.0.1").c_str(), "10.0.0.1");
    assert_string_equal(normalize_address("FD00:0:0::2").c_str(), "fd00::2");
    for (const char *const wrong : {"", "10.0.0", "10.0.0.256", "host", "fd00::2%eth0"})
        assert_string_equal(normalize_address(wrong).c_str(), "");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_in_the_order_of_creation),
        cmocka_unit_test(the_peer_of_a_path),
        cmocka_unit_test(the_peer_of_an_id_of_rdma_cm),
        cmocka_unit_test(addresses_are_compared_in_one_form),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
