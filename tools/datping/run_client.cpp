// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "dat/words.hpp"
#include "datping/client.hpp"
#include "datping/stop.hpp"

#include <fmt/format.h>
#include <memory>

namespace tools::datping {
namespace {

constexpr std::uint64_t SHOWN_WRONG = 5; // of each mode, unless all is to be seen

class runner {
  public:
    runner(const options &given, client_result &result, std::FILE *where)
        : asked(given)
        , all(result)
        , out(where) {}

    bool run() {
        auto chosen = std::make_unique<choice>(choose(asked.ia, dat::resolve(asked.host)));
        all.address = chosen->there.text();
        all.ia = chosen->ia.name();
        all.ia_address = chosen->ia.own_address().text();
        all.library = chosen->ia.library();
        all.sync_here = chosen->ia.sync_required();
        auto peer = std::make_unique<client>(asked, *chosen);
        bool tidy = false;
        try {
            converse(*peer);
            tidy = true;
        } catch (const client::stopped &) {
            all.stopped = true;
        } catch (const dat::error &problem) { // a call may be refused since the peer is gone
            all.problem = all.connected ? peer->cause(problem.what()) : problem.what();
        } catch (const std::exception &problem) {
            all.problem = problem.what();
        }
        take_time();
        // To free an endpoint may take as long as the kernel goes on trying to connect it, two
        // minutes on iWARP. The process ends soon, and the kernel cleans up better than that.
        if (!tidy) {
            static_cast<void>(peer.release());
            static_cast<void>(chosen.release());
        }
        return tidy;
    }

  private:
    void converse(client &peer) {
        all.sync_there = peer.connect().sync_required;
        all.connected = true;
        if (talks())
            fmt::print(out, "{}", header(asked, all));
        begin = clock::now();
        peer.offer();
        rounds(peer);
        peer.leave(wrong);
    }

    void take_time() {
        if (all.connected)
            all.seconds = std::chrono::duration<double>(clock::now() - begin).count();
    }

    void rounds(client &peer) {
        for (const mode which : asked.modes) {
            all.modes.emplace_back().mode = which;
            for (std::uint64_t done = 0; asked.count == 0 || done < asked.count; ++done) {
                if (number > 0 && asked.interval.count() > 0)
                    peer.rest(asked.interval);
                all.stopped = stop_wished();
                if (all.stopped)
                    return;
                one(peer, which);
            }
        }
    }

    void one(client &peer, mode which) {
        const client::outcome got = peer.round(which, ++number);
        mode_result &result = all.modes.back();
        result.times.add(got.microseconds);
        const bool right = got.here.count == 0 && got.at_server.count == 0;
        if (right && asked.verbose && talks())
            fmt::print(out, "{} bytes from {}: round={} mode={} time={:.1f} us\n", asked.size,
                       all.address, number, name_of(which), got.microseconds);
        if (right)
            return;
        ++wrong;
        if (got.at_server.count > 0)
            ++result.at_server;
        const std::string words = got.at_server.count > 0
                                      ? describe(which, number, asked.size, got.at_server, "there")
                                      : describe(which, number, asked.size, got.here, "here");
        if (result.first_wrong.empty())
            result.first_wrong = words;
        if (++result.wrong <= SHOWN_WRONG || asked.verbose)
            fmt::print(talks() ? out : stderr, "{}\n", words);
    }

    bool talks() const { return !asked.quiet && !asked.json; }

    const options &asked;
    client_result &all;
    std::FILE *out;
    clock::time_point begin;
    std::uint64_t number = 0, wrong = 0;
};

} // namespace

bool run_client(const options &asked, client_result &all, std::FILE *out) {
    return runner(asked, all, out).run();
}

} // namespace tools::datping
