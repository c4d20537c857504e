// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "dat_common/to_string.hpp"
#include "datping/client.hpp"
#include "datping/interrupt.hpp"

#include <fmt/core.h>
#include <memory>

namespace tools::datping {
namespace {

constexpr std::uint64_t MAX_PRINTED = 5; // wrong rounds printed per mode without --verbose

/// Runs the client's test and collects its result.
class runner {
  public:
    runner(const options &opts, client_result &result, std::FILE *out)
        : opts_(opts)
        , result_(result)
        , out_(out) {}

    /// False: the connection was not closed, and its objects are leaked.
    bool run() {
        auto selected =
            std::make_unique<selected_ia>(select_ia(opts_.ia, dat::resolve(opts_.host)));
        result_.address = selected->destination.to_string();
        result_.ia = selected->ia.name();
        result_.ia_address = selected->ia.ia_address().to_string();
        result_.library = selected->ia.provider_library();
        result_.local_needs_sync = selected->ia.needs_sync();
        auto peer = std::make_unique<client>(opts_, *selected);
        bool is_closed = false;
        try {
            run_test(*peer);
            is_closed = true;
        } catch (const client::interrupted &) {
            result_.interrupted = true;
        } catch (const dat::error &e) { // a call can fail because the peer has disconnected
            result_.problem = result_.connected ? peer->failure_reason(e.what()) : e.what();
        } catch (const std::exception &e) {
            result_.problem = e.what();
        }
        record_duration();
        // dat_ep_free can block while the kernel still tries to connect, on iWARP up to two
        // minutes. Leak the objects: the process exits soon, and the kernel cleans up.
        if (!is_closed) {
            static_cast<void>(peer.release());
            static_cast<void>(selected.release());
        }
        return is_closed;
    }

  private:
    void run_test(client &peer) {
        result_.peer_needs_sync = peer.connect().needs_sync;
        result_.connected = true;
        if (prints_text())
            fmt::print(out_, "{}", format_header(opts_, result_));
        start_ = clock::now();
        peer.exchange_buffers();
        run_rounds(peer);
        peer.finish(wrong_rounds_);
    }

    void record_duration() {
        if (result_.connected)
            result_.seconds = std::chrono::duration<double>(clock::now() - start_).count();
    }

    void run_rounds(client &peer) {
        for (const mode round_mode : opts_.modes) {
            result_.modes.emplace_back().mode = round_mode;
            for (std::uint64_t i = 0; opts_.count == 0 || i < opts_.count; ++i) {
                if (round_number_ > 0 && opts_.interval.count() > 0)
                    peer.wait_between_rounds(opts_.interval);
                result_.interrupted = is_interrupted();
                if (result_.interrupted)
                    return;
                run_one_round(peer, round_mode);
            }
        }
    }

    void run_one_round(client &peer, mode round_mode) {
        const client::round_result round = peer.run_round(round_mode, ++round_number_);
        mode_result &totals = result_.modes.back();
        totals.times.add(round.microseconds);
        const bool is_correct = round.at_client.count == 0 && round.at_server.count == 0;
        if (is_correct && opts_.verbose && prints_text())
            fmt::print(out_, "{} bytes from {}: round={} mode={} time={:.1f} us\n", opts_.size,
                       result_.address, round_number_, mode_name(round_mode), round.microseconds);
        if (is_correct)
            return;
        ++wrong_rounds_;
        if (round.at_server.count > 0)
            ++totals.wrong_at_server;
        const std::string description =
            round.at_server.count > 0
                ? describe_mismatch(round_mode, round_number_, opts_.size, round.at_server, "there")
                : describe_mismatch(round_mode, round_number_, opts_.size, round.at_client, "here");
        if (totals.first_wrong.empty())
            totals.first_wrong = description;
        if (++totals.wrong_rounds <= MAX_PRINTED || opts_.verbose)
            fmt::print(prints_text() ? out_ : stderr, "{}\n", description);
    }

    bool prints_text() const { return !opts_.quiet && !opts_.json; }

    const options &opts_;
    client_result &result_;
    std::FILE *out_;
    clock::time_point start_;
    std::uint64_t round_number_ = 0, wrong_rounds_ = 0;
};

} // namespace

bool run_client(const options &opts, client_result &result, std::FILE *out) {
    return runner(opts, result, out).run();
}

} // namespace tools::datping
