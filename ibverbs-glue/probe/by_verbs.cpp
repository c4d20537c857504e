// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "loopback.hpp"
#include "owned.hpp"

#include <cerrno>

namespace coherdma::probe {
namespace {

// The index of a GID that can be used, best the RoCE v2 one of an IPv4 address. -1: none.
int usable_gid(ibv_context *context, std::uint8_t port, int length) {
    int found = -1;
    for (int index = 0; index < length; ++index) {
        ibv_gid_entry entry = {};
        if (ibv_query_gid_ex(context, port, static_cast<std::uint32_t>(index), &entry, 0) != 0)
            continue;
        const bool is_empty = entry.gid.global.interface_id == 0;
        const bool is_ipv4 = entry.gid.global.subnet_prefix == 0;
        if (!is_empty && found < 0)
            found = index;
        if (!is_empty && entry.gid_type == IBV_GID_TYPE_ROCE_V2 && is_ipv4)
            return index;
    }
    return found;
}

void must(int error, const char *what) {
    if (error != 0)
        throw_error(error, what);
}

void connect(ibv_qp *pair, const ibv_ah_attr &way, std::uint32_t to, ibv_mtu mtu) {
    ibv_qp_attr next = {};
    next.qp_state = IBV_QPS_INIT;
    next.port_num = way.port_num;
    next.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    must(ibv_modify_qp(pair, &next,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
         "beginning a connection");
    next.qp_state = IBV_QPS_RTR;
    next.ah_attr = way;
    next.path_mtu = mtu;
    next.dest_qp_num = to;
    next.max_dest_rd_atomic = 1;
    next.min_rnr_timer = 12;
    must(ibv_modify_qp(pair, &next,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
         "connecting the device to itself");
    next.qp_state = IBV_QPS_RTS;
    next.timeout = 14;
    next.retry_cnt = 7;
    next.rnr_retry = 7;
    next.max_rd_atomic = 1;
    must(ibv_modify_qp(pair, &next,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
         "finishing a connection");
}

class by_verbs final : public loopback {
  public:
    explicit by_verbs(const wish &wanted)
        : patience(wanted.patience)
        , protection(got(ibv_alloc_pd(wanted.context), "a domain"))
        , completions(got(ibv_create_cq(wanted.context, 4, nullptr, nullptr, 0), "a queue"))
        , source(register_memory(protection.get(), wanted.source))
        , sink(register_memory(protection.get(), wanted.sink)) {
        ibv_port_attr port = {};
        must(ibv_query_port(wanted.context, wanted.port, &port), "asking the port");
        ibv_ah_attr way = {};
        way.port_num = wanted.port;
        way.dlid = port.lid;
        if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
            const int index = usable_gid(wanted.context, wanted.port, port.gid_tbl_len);
            if (index < 0)
                throw_error(EADDRNOTAVAIL, "looking for an address of the port");
            way.is_global = 1;
            way.grh.sgid_index = static_cast<std::uint8_t>(index);
            way.grh.hop_limit = 1;
            must(ibv_query_gid(wanted.context, wanted.port, index, &way.grh.dgid),
                 "asking for an address of the port");
        }
        ibv_qp_init_attr one = one_transfer(completions.get()), other = one;
        reads.reset(got(ibv_create_qp(protection.get(), &one), "a queue pair"));
        answers.reset(got(ibv_create_qp(protection.get(), &other), "a queue pair"));
        connect(reads.get(), way, answers->qp_num, port.active_mtu);
        connect(answers.get(), way, reads->qp_num, port.active_mtu);
    }

    int move() override {
        return read_over(reads.get(), completions.get(), source.get(), sink.get(), patience);
    }

  private:
    std::chrono::milliseconds patience;
    owned_domain protection;
    owned_queue completions;
    owned_region source, sink;
    owned_pair reads, answers;
};

} // namespace

std::unique_ptr<loopback> connect_by_verbs(const wish &wanted) {
    return std::make_unique<by_verbs>(wanted);
}

} // namespace coherdma::probe
