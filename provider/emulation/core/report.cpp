// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "report.hpp"

#include <cctype>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace coherdma::emulation {
namespace {

using json = nlohmann::ordered_json;
using bytes = std::vector<unsigned char>;

constexpr std::size_t FRAMES_SHOWN = 4; // to people: the log has all

const char *sentence_for(kind which) noexcept {
    switch (which) {
    case kind::UNSYNCED_READ:
        return "a peer reads lines that this program has changed and not synced";
    case kind::UNSYNCED_WRITE:
        return "a peer writes lines that this program has changed and not synced";
    case kind::CONFLICT:
        return "both the program and the device have changed these lines since they were last\n"
               "  the same: what one of them wrote is lost";
    case kind::STALE:
        return "the device has written these lines, and the program never synced them: it\n"
               "  has what was there before";
    case kind::DISCARDED:
        return "the program's changes of these lines were lost: the region was deregistered\n"
               "  before they were synced";
    case kind::BESIDE:
        return "data have arrived in lines that the program has changed beside them: on some\n"
               "  machines either is lost";
    case kind::REDUNDANT:
        return "a sync of lines that have not changed since the last one";
    }
    return "?";
}

std::string hex_of(std::uintptr_t number) {
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), "%#zx", static_cast<std::size_t>(number));
    return text.data();
}

std::string hex_of(const bytes &all, const char *between) {
    std::string text;
    for (const unsigned char each : all) {
        std::array<char, 4> two;
        std::snprintf(two.data(), two.size(), "%02x", each);
        text += (text.empty() ? "" : between) + std::string(two.data());
    }
    return text;
}

/// Lines may begin before their region.
std::int64_t offset_of(std::uintptr_t at, const finding &which) noexcept {
    return static_cast<std::int64_t>(at - which.in.where.begin);
}

/// "  device   61 62 63  |abc|"
std::string row_of(const char *name, const bytes &all) {
    std::array<char, 96> row;
    const std::string shown(all.begin(), all.end());
    std::string text;
    for (const char each : shown)
        text += each >= ' ' && each <= '~' ? each : '.';
    std::snprintf(row.data(), row.size(), "  %-8s %s  |%s|\n", name, hex_of(all, " ").c_str(),
                  text.c_str());
    return all.empty() ? "" : row.data();
}

std::string text_of(const char *name, const std::string &words,
                    const std::vector<std::string> &frames) {
    std::string text = std::string("  ") + name + ": " + printable(words) + "\n";
    for (std::size_t each = 0; each < frames.size() && each < FRAMES_SHOWN; ++each)
        text += "    at " + printable(frames[each]) + "\n";
    return text;
}

json json_of(const deed &one) {
    if (one.words.empty())
        return nullptr;
    return {{"words", one.words}, {"stack", frames_of(one)}};
}

json json_of(const bytes &all) {
    return all.empty() ? json(nullptr) : json(hex_of(all, ""));
}

/// On one line, whatever the bytes of names are.
std::string line_of(const json &all) {
    return all.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace

std::size_t counts::all() const noexcept {
    std::size_t sum = 0;
    for (const auto &[which, count] : of)
        sum += count;
    return sum;
}

std::string printable(std::string_view text) {
    std::string safe(text);
    for (char &each : safe)
        if (std::iscntrl(static_cast<unsigned char>(each)) != 0)
            each = '?';
    return safe;
}

std::vector<std::string> frames_of(const deed &one) {
    return one.there.empty() ? in_words(one.where) : one.there;
}

std::string as_text(const finding &which) {
    std::string title = name_of(which.is);
    for (char &each : title)
        each = each == '-' ? ' ' : static_cast<char>(each - 'a' + 'A');
    std::string text = "coherdma: " + title + ": " + printable(which.in.device) + " region " +
                       std::to_string(which.in.number) + ", bytes " +
                       std::to_string(offset_of(which.where.begin, which)) + ".." +
                       std::to_string(offset_of(which.where.end, which) - 1) + " of " +
                       std::to_string(which.in.where.size()) + "\n  " + sentence_for(which.is) +
                       "\n";
    if (*missing_for(which.is) != '\0')
        text += std::string("  missing: ") + missing_for(which.is) + "\n";
    if (which.is != kind::REDUNDANT) {
        text += "  from byte " + std::to_string(offset_of(which.first, which)) + " (" +
                hex_of(which.first) + "):\n" + row_of("program", which.program) +
                row_of("device", which.device) + row_of("agreed", which.agreed);
    }
    if (!which.request.words.empty())
        text += text_of("request", which.request.words, frames_of(which.request));
    text += text_of("last sync", which.last_sync.words.empty() ? "none" : which.last_sync.words,
                    frames_of(which.last_sync));
    if (const auto frames = in_words(which.in.registered); !frames.empty())
        text += text_of("registered", hex_of(which.in.where.begin), frames);
    return text;
}

std::string as_json(const finding &which, const telling &how) {
    json all = {{"coherdma", "finding"},
                {"kind", name_of(which.is)},
                {"missing", missing_for(which.is)},
                {"device", which.in.device},
                {"region", which.in.number},
                {"region_begin", hex_of(which.in.where.begin)},
                {"region_length", which.in.where.size()},
                {"rkey", which.in.rkey},
                {"begin", hex_of(which.where.begin)},
                {"offset", offset_of(which.where.begin, which)},
                {"length", which.where.size()},
                {"first", hex_of(which.first)},
                {"first_offset", offset_of(which.first, which)},
                {"program", json_of(which.program)},
                {"device_bytes", json_of(which.device)},
                {"agreed", json_of(which.agreed)},
                {"request", json_of(which.request)},
                {"last_sync", json_of(which.last_sync)},
                {"registered", in_words(which.in.registered)},
                {"pid", getpid()},
                {"suppressed", how.suppressed},
                {"repeated", how.repeated}};
    if (*missing_for(which.is) == '\0')
        all["missing"] = nullptr;
    return line_of(all);
}

std::string as_text(const counts &all, const std::string &log) {
    std::string text;
    const auto row = [&](std::size_t count, const char *name, const char *missing) {
        std::array<char, 128> line;
        std::snprintf(line.data(), line.size(), "  %8zu  %-14s  %s", count, name, missing);
        text += line.data();
        text.erase(text.find_last_not_of(' ') + 1);
        text += "\n";
    };
    text = all.all() == 0 ? "coherdma: emulation: nothing was found\n"
                          : "coherdma: emulation: " + std::to_string(all.all()) +
                                (all.all() == 1 ? " finding\n" : " findings\n");
    for (const auto &[which, count] : all.of)
        row(count, name_of(which), missing_for(which));
    if (all.suppressed != 0)
        row(all.suppressed, "suppressed", "not counted above");
    if (all.repeated != 0)
        row(all.repeated, "repeated", "only counted, after others of the same site");
    if (!log.empty())
        text += "  as JSON: " + printable(log) + "\n";
    return text;
}

std::string as_json(const counts &all) {
    json kinds = json::object();
    for (const auto &[which, count] : all.of)
        kinds[name_of(which)] = count;
    return line_of({{"coherdma", "summary"},
                    {"findings", all.all()},
                    {"kinds", kinds},
                    {"suppressed", all.suppressed},
                    {"repeated", all.repeated},
                    {"pid", getpid()}});
}

} // namespace coherdma::emulation
