// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "scenario.hpp"

#include "address.hpp"
#include "device_limits.hpp"
#include "names.hpp"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

namespace coherdma::faults {
namespace {

struct named_class {
    const char *name;
    request_class value;
};

/// Each also in the plural.
constexpr std::array CLASSES = {
    named_class{.name = "request", .value = request_class::REQUEST},
    named_class{.name = "send", .value = request_class::SEND},
    named_class{.name = "write", .value = request_class::WRITE},
    named_class{.name = "read", .value = request_class::READ},
    named_class{.name = "atomic", .value = request_class::ATOMIC},
    named_class{.name = "receive", .value = request_class::RECEIVE},
};

struct word {
    std::string_view text;
    std::size_t line = 0, column = 0; ///< from 1
};

/// The words of one fault; a comment goes from # to the end of its line.
class word_reader {
  public:
    explicit word_reader(std::string_view text)
        : rest_(text) {}

    /// "": the fault has ended.
    word next() {
        skip_blanks();
        word result = {.text = {}, .line = line_, .column = column_};
        std::size_t length = 0;
        while (length < rest_.size() && !is_end_of_word(rest_[length]))
            ++length;
        result.text = rest_.substr(0, length);
        skip(length);
        return result;
    }
    /// To the next fault. False: there is none.
    bool skip_to_fault() {
        for (;;) {
            skip_blanks();
            if (rest_.empty())
                return false;
            if (rest_.front() != ';' && rest_.front() != '\n')
                return true;
            skip(1);
        }
    }
    [[nodiscard]] std::string_view rest() const noexcept { return rest_; }

  private:
    static bool is_end_of_word(char c) noexcept {
        return c == ';' || c == '#' || std::isspace(static_cast<unsigned char>(c)) != 0;
    }
    /// Not over the end of the line, which ends a fault.
    void skip_blanks() {
        for (;;) {
            if (!rest_.empty() && rest_.front() == '#')
                skip(std::min(rest_.find('\n'), rest_.size()));
            else if (!rest_.empty() && rest_.front() != '\n' && rest_.front() != ';' &&
                     is_end_of_word(rest_.front()))
                skip(1);
            else
                return;
        }
    }
    void skip(std::size_t count) {
        for (; count > 0; --count) {
            ++column_;
            if (rest_.front() == '\n') {
                ++line_;
                column_ = 1;
            }
            rest_.remove_prefix(1);
        }
    }

    std::string_view rest_;
    std::size_t line_ = 1, column_ = 1;
};

[[noreturn]] void refuse(const word &refused, const std::string &expected) {
    throw scenario_error((refused.text.empty() ? "the fault ends here; expected: "
                                               : "'" + std::string(refused.text) +
                                                     "' is not understood; expected: ") +
                             expected,
                         refused.line, refused.column);
}

/// The number at the beginning of the text, which is left with its unit. No value: there is none,
/// or it is negative or too large.
template <class number>
std::optional<number> take_number(std::string_view &text) {
    number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || std::isdigit(static_cast<unsigned char>(text.front())) == 0)
        return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

/// 50us, 5ms, 2s
std::chrono::microseconds parse_duration(const word &duration) {
    constexpr std::uint64_t MAX_SECONDS = 1'000'000;
    std::string_view unit = duration.text;
    const auto value = take_number<std::uint64_t>(unit);
    const std::uint64_t factor = unit == "us"   ? 1
                                 : unit == "ms" ? 1'000
                                 : unit == "s"  ? 1'000'000
                                                : 0;
    if (!value || factor == 0)
        refuse(duration, "a duration such as 50us, 5ms or 2s");
    if (*value > MAX_SECONDS)
        refuse(duration, "a duration of at most 1000000 of its unit");
    return std::chrono::microseconds(*value * factor);
}

std::chrono::microseconds parse_duration_above_0(const word &duration) {
    const std::chrono::microseconds parsed = parse_duration(duration);
    if (parsed.count() == 0)
        refuse(duration, "a duration above 0");
    return parsed;
}

/// 1st, 100th
std::uint64_t parse_ordinal(const word &ordinal, const char *expected) {
    std::string_view suffix = ordinal.text;
    const auto value = take_number<std::uint64_t>(suffix);
    if (!value || *value == 0 ||
        (suffix != "st" && suffix != "nd" && suffix != "rd" && suffix != "th"))
        refuse(ordinal, expected);
    return *value;
}

bool is_number(std::string_view text) noexcept {
    return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) != 0;
}

/// 0.5% of
double parse_share(const word &share, word_reader &words) {
    constexpr double PERCENT = 100;
    std::string_view unit = share.text;
    const auto value = take_number<double>(unit);
    if (!value || unit != "%" || !(*value > 0 && *value <= PERCENT))
        refuse(share, "a share above 0% and up to 100%");
    if (const word next = words.next(); next.text != "of")
        refuse(next, "of, as in 1% of writes");
    return *value / PERCENT;
}

/// Returns the word after the selection.
word parse_selection(word current, word_reader &words, selection &selected) {
    if (current.text == "each")
        return words.next();
    if (current.text == "every") {
        current = words.next();
        selected.first = selected.step = parse_ordinal(current, "a number such as 100th, or 2nd");
        return words.next();
    }
    if (is_number(current.text) && current.text.ends_with('%')) {
        selected.share = parse_share(current, words);
        return words.next();
    }
    selected.first = parse_ordinal(current, "each, every 100th, 2nd, 1% of, event, limit, port, "
                                            "run, or after 2s before one of them");
    selected.step = 0;
    return words.next();
}

void parse_target(const word &target, fault &parsed) {
    if (find_call(target.text) != nullptr) {
        parsed.call = target.text;
        return;
    }
    for (const named_class &known : CLASSES)
        if (target.text == known.name || target.text == std::string(known.name) + "s")
            parsed.requests = known.value;
    if (parsed.requests == request_class::NONE)
        refuse(target, "request, send, write, read, atomic, receive, or a call such as ibv_reg_mr "
                       "(all of them: coherdma fault --list)");
}

/// "of qp 2", "to 198.18.0.2", or none. Returns the word after it.
word parse_queues(word current, word_reader &words, queue_selection &queues) {
    if (current.text == "to") {
        const word address = words.next();
        queues.peer = normalize_address(address.text);
        if (queues.peer.empty())
            refuse(address, "the address of a peer such as 198.18.0.2");
        return words.next();
    }
    if (current.text != "of")
        return current;
    if (const word qp = words.next(); qp.text != "qp")
        refuse(qp, "qp, as in of qp 2");
    const word number = words.next();
    std::string_view rest = number.text;
    const auto value = take_number<std::uint64_t>(rest);
    if (!value || *value == 0 || !rest.empty())
        refuse(number, "the number of a queue pair, from 1, in the order of their creation");
    queues.number = *value;
    return words.next();
}

/// All sends of a queue pair are late: the driver has to get them in their order.
void parse_late_requests(const word &verb, fault &parsed) {
    const bool is_each =
        parsed.selected.first == 1 && parsed.selected.step == 1 && parsed.selected.share >= 1;
    if (parsed.requests != request_class::REQUEST || !is_each || parsed.begin.count() != 0 ||
        !parsed.queues.peer.empty())
        refuse(verb, "fails; only \"each request\" or \"each request of qp 2\" takes a time");
}

void parse_action(const word &verb, word_reader &words, fault &parsed) {
    const bool is_call = !parsed.call.empty();
    if (verb.text == "takes" || verb.text == "take") {
        if (!is_call)
            parse_late_requests(verb, parsed);
        parsed.effect = action::DELAY;
        parsed.duration = parse_duration_above_0(words.next());
        return;
    }
    if (verb.text != "fails" && verb.text != "fail")
        refuse(verb, is_call                  ? "fails or takes"
                     : parsed.queues.is_any() ? "fails, takes, of or to"
                                              : "fails");
    const word error = words.next();
    parsed.error = is_call ? find_errno(error.text) : find_status(error.text);
    if (parsed.error == 0)
        refuse(error, is_call ? "an error number such as ENOMEM"
                              : "a status of completions such as retry_exc (all of them: coherdma "
                                "fault --list)");
}

void parse_event(const word &name, fault &parsed) {
    const std::optional<ibv_event_type> event = find_event(name.text);
    if (!event)
        refuse(name, "an asynchronous event such as port_err (all of them: coherdma fault --list)");
    parsed.effect = action::EVENT;
    parsed.event = *event;
}

/// max_qp 4
void parse_limit(word_reader &words, fault &parsed) {
    const word name = words.next();
    if (!is_limit(name.text))
        refuse(name, "a limit of devices such as max_qp (all of them: coherdma fault --list)");
    const word number = words.next();
    std::string_view rest = number.text;
    const auto value = take_number<std::uint64_t>(rest);
    if (!value || *value == 0 || !rest.empty())
        refuse(number, "a number from 1");
    parsed.effect = action::LIMIT;
    parsed.limit = name.text;
    parsed.value = *value;
}

/// down [for 3s]
void parse_port(word_reader &words, fault &parsed) {
    if (const word state = words.next(); state.text != "down")
        refuse(state, "down, as in port down for 3s");
    parsed.effect = action::PORT_DOWN;
    word_reader ahead = words;
    const word next = ahead.next();
    if (next.text.empty())
        return;
    words = ahead;
    if (next.text != "for")
        refuse(next, "for 3s, ; or the end of the line");
    parsed.duration = parse_duration_above_0(words.next());
}

/// Up to the end of the fault.
void parse_command(word_reader &words, fault &parsed) {
    const word first = words.next();
    if (first.text.empty())
        refuse(first, "a command, as in run softrdma wire --host 1 --loss 5%");
    std::string_view last = first.text;
    for (word_reader ahead = words; !(last = ahead.next().text).empty();)
        words = ahead;
    parsed.effect = action::RUN;
    const char *const begin = first.text.data();
    parsed.command.assign(begin, static_cast<std::size_t>(words.rest().data() - begin));
}

fault parse_fault(word_reader &words) {
    const std::string_view begin = words.rest();
    fault parsed;
    word current = words.next();
    if (current.text == "after") {
        parsed.begin = parse_duration(words.next());
        current = words.next();
    }
    if (current.text == "event") {
        parse_event(words.next(), parsed);
    } else if (current.text == "limit" && parsed.begin.count() == 0) {
        parse_limit(words, parsed);
    } else if (current.text == "port") {
        parse_port(words, parsed);
    } else if (current.text == "run") {
        parse_command(words, parsed);
    } else {
        current = parse_selection(current, words, parsed.selected);
        parse_target(current, parsed);
        current = words.next();
        if (parsed.requests != request_class::NONE)
            current = parse_queues(current, words, parsed.queues);
        parse_action(current, words, parsed);
    }
    parsed.text = begin.substr(0, begin.size() - words.rest().size());
    if (const word extra = words.next(); !extra.text.empty())
        refuse(extra, "; or the end of the line");
    return parsed;
}

} // namespace

std::vector<fault> parse_scenario(std::string_view text) {
    std::vector<fault> faults;
    word_reader words(text);
    while (words.skip_to_fault()) {
        faults.push_back(parse_fault(words));
        faults.back().index = faults.size() - 1;
    }
    if (faults.empty())
        throw scenario_error("the scenario has no fault; for example: 2nd ibv_reg_mr fails ENOMEM",
                             1, 1);
    return faults;
}

std::string point_at(const scenario_error &error, std::string_view text) {
    for (std::size_t line = 1; line < error.line; ++line)
        text.remove_prefix(text.find('\n') + 1);
    // The mark is below the column where a tab is, too.
    const std::string shown(text.substr(0, text.find('\n')));
    std::string mark = shown.substr(0, error.column - 1);
    for (char &c : mark)
        c = c == '\t' ? '\t' : ' ';
    return shown + "\n" + mark + "^\n";
}

} // namespace coherdma::faults
