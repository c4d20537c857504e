// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Private data of requests and connections. InfiniBand's CM fills them with zeros to the size of
// its field: 56 bytes for a request, 196 for a reply.

#include "../lib/device.hpp"
#include "../lib/invalid.hpp"

#include <algorithm>

namespace conform {

namespace {

/// The data begin with the expected ones; zeros may follow.
void expect_data(const rpma_conn_private_data &pdata, const std::string &expected,
                 source_location loc = current_location()) {
    if (expected.empty() && !pdata.ptr) {
        expect_eq(pdata.len, std::uint8_t{0}, "the length", loc);
        return;
    }
    require(pdata.ptr != nullptr && pdata.len >= expected.size(),
            concat("there are ", unsigned{pdata.len}, " bytes"), loc);
    const std::string data(static_cast<const char *>(pdata.ptr), pdata.len);
    expect_eq(data.substr(0, expected.size()), expected, "the data", loc);
    expect_true(data.find_first_not_of('\0', expected.size()) == std::string::npos,
                "bytes follow that are not 0", loc);
    if (is_iwarp())
        expect_eq(data.size(), expected.size(), "the length", loc);
}
rpma_conn_private_data data_of(const rpma_conn *conn) {
    rpma_conn_private_data pdata{nullptr, 77};
    require_ok(rpma_conn_get_private_data(conn, &pdata));
    return pdata;
}
rpma_conn_private_data data_of(const rpma_conn_req *req) {
    rpma_conn_private_data pdata{nullptr, 77};
    require_ok(rpma_conn_req_get_private_data(req, &pdata));
    return pdata;
}

std::string make_data(std::size_t length) {
    std::string data(length, 0);
    for (std::size_t i = 0; i < length; ++i)
        data[i] = static_cast<char>('A' + i % 50);
    return data;
}

void add_sizes(case_list &cases) {
    struct sizes {
        std::size_t client, server;
    };
    for (const auto &test : {sizes{1, 1}, {17, 3}, {56, 196}, {0, 9}, {9, 0}}) {
        add_case(cases, concat("private_data.", test.client, "_", test.server), [=] {
            const test_peer peer;
            const std::string client_data = make_data(test.client),
                              server_data = make_data(test.server);
            const conn_pair conns(peer, {.client_data = client_data,
                                         .server_data = server_data,
                                         .prepare_server = [&](rpma_conn_req *req) {
                                             expect_data(data_of(req), client_data);
                                         }});
            expect_data(data_of(conns.client()), server_data);
            expect_data(data_of(conns.server()), client_data);
        });
    }
    add_case(cases, "private_data.too_long", [] {
        if (is_iwarp())
            throw case_skipped{"siw does not check the length of a request"};
        const test_peer peer;
        const ep_handle ep = listen(peer);
        std::string data = make_data(57);
        const rpma_conn_private_data pdata{data.data(), 57};
        req_handle req = request(peer);
        expect_fails<rpma_conn *>(
            [&](rpma_conn **conn) { return rpma_conn_req_connect(req.out(), &pdata, conn); },
            RPMA_E_PROVIDER);
        expect_true(req.get() == nullptr, "the request is not NULL");

        const conn_handle client = connect(request(peer));
        req = next_request(ep);
        data = make_data(197);
        const rpma_conn_private_data server_pdata{data.data(), 197};
        expect_fails<rpma_conn *>(
            [&](rpma_conn **conn) { return rpma_conn_req_connect(req.out(), &server_pdata, conn); },
            RPMA_E_PROVIDER);
        expect_true(req.get() == nullptr, "the request is not NULL");
    });
    // With MPA's four bytes of IRD and ORD they are 256, the limit of siw.
    add_case(cases, "private_data.252_252", [] {
        if (!is_iwarp())
            throw case_skipped{"InfiniBand takes 56 bytes"};
        const test_peer peer;
        const std::string data = make_data(252);
        const conn_pair conns(peer, {.client_data = data, .server_data = data});
        expect_data(data_of(conns.client()), data);
        expect_data(data_of(conns.server()), data);
    });
}

void add_lifetimes(case_list &cases) {
    add_case(cases, "private_data.outgoing_request", [] {
        const test_peer peer;
        const req_handle req = request(peer);
        const rpma_conn_private_data pdata = data_of(req.get());
        expect_true(pdata.ptr == nullptr && pdata.len == 0, "there are data");
        expect_return(rpma_conn_req_get_private_data(req.get(), nullptr), RPMA_E_INVAL);
    });
    add_case(cases, "private_data.before_established", [] {
        const test_peer peer;
        const ep_handle ep = listen(peer);
        const conn_handle client = connect(request(peer), "to the server");
        rpma_conn_private_data pdata = data_of(client.get());
        expect_true(pdata.ptr == nullptr && pdata.len == 0, "there are data");
        const conn_handle server = connect(next_request(ep), "to the client");
        expect_data(data_of(server.get()), "to the server");
        expect_event(client.get(), RPMA_CONN_ESTABLISHED);
        expect_data(data_of(client.get()), "to the client");
        expect_event(server.get(), RPMA_CONN_ESTABLISHED);
        expect_data(data_of(server.get()), "to the server");
    });
    // The caller's are copied, and the peer's are kept until the connection is deleted.
    add_case(cases, "private_data.after_closed", [] {
        const test_peer peer;
        conn_pair conns(peer, {.client_data = "to the server", .server_data = "to the client"});
        conns.disconnect();
        expect_data(data_of(conns.client()), "to the client");
        expect_data(data_of(conns.server()), "to the server");
        expect_return(rpma_conn_get_private_data(conns.client(), nullptr), RPMA_E_INVAL);
    });
}

} // namespace

void add_private_data(case_list &cases) {
    add_sizes(cases);
    add_lifetimes(cases);
}

} // namespace conform
