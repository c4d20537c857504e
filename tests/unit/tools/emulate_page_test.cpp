// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma emulate --html: what follows from the history of a finding, and the page.

#include "../cmocka.hpp"
#include "emulate/report.hpp"
#include "emulate/timeline.hpp"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <unistd.h>

using namespace tools::emulate;
using namespace coherdma::reports;
using json = nlohmann::ordered_json;

namespace {

constexpr std::size_t NONE = timeline_row::NONE;
constexpr int PID = 7;

json line_run(int offset, int length, const char *state) {
    return {{"offset", offset}, {"length", length}, {"state", state}};
}

json event(const char *name, const json &lines, const json &stack = json::array(),
           const json &description = nullptr) {
    return {{"event", name},  {"time_us", 1500}, {"times", 1},
            {"offset", 0},    {"length", 256},   {"description", description},
            {"stack", stack}, {"lines", lines}};
}

/// A call that the finding names: "main (/src/a.c:5)" without its parts.
json place(const char *description, const std::string &file, int line) {
    return {{"description", description}, {"function", "main"},     {"file", file}, {"line", line},
            {"stack", json::array()},     {"source", json::array()}};
}

/// A finding of two lines of 64 bytes, as the emulation logs it, with a sync missing before this
/// event.
json make_finding(const char *kind, const json &history, int length = 128,
                  const json &missing_before = nullptr) {
    return {{"coherdma", "finding"},
            {"kind", kind},
            {"certainty", "certain"},
            {"doubt", nullptr},
            {"missing", "sync after the Write"},
            {"insert",
             {{"text", "src/a.c:5: insert sync(<&>); between A and B"},
              {"place", "src/a.c:5"},
              {"before_event", missing_before}}},
            {"after", nullptr},
            {"before", nullptr},
            {"device", "rxe0"},
            {"region", 1},
            {"region_name", "inbox<"},
            {"region_length", 256},
            {"offset", 0},
            {"length", length},
            {"request", nullptr},
            {"last_sync", nullptr},
            {"registered", json::array({"reg (/src/a.c:3)"})},
            {"pid", PID},
            {"suppressed", false},
            {"suppression", "stale:rxe0:f<"},
            {"repeated", 0},
            {"line_size", 64},
            {"history", history}};
}

/// Both lines of a finding, clean.
json clean() {
    return json::array({line_run(0, 128, "clean")});
}

std::string describe(const timeline_row &row) {
    const char *const kinds[] = {"event ", "cpu ", "device ", "missing "};
    std::string text = kinds[static_cast<int>(row.kind)] + std::to_string(row.event);
    for (const line_segment &segment : row.segments)
        text += " " + segment.state + (segment.is_part ? "*" : "");
    return text;
}

void assert_rows(const timeline &line_timeline, const std::vector<std::string> &expected) {
    assert_int_equal(line_timeline.rows.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        assert_string_equal(describe(line_timeline.rows[i]).c_str(), expected[i].c_str());
}

/// The store of the CPU is between the registration and the Read, and concerns one line of two. A
/// row has its kind, the index of the event that it is or precedes, and the state of each run of
/// lines.
void store_of_cpu_is_inferred(void **) {
    const timeline result = make_timeline(make_finding(
        "unsynced-read",
        json::array({event("reg_mr", json::array()),
                     event("peer_rdma_read",
                           json::array({line_run(0, 64, "clean"), line_run(64, 64, "dirty")}))}),
        128, 1));
    assert_rows(result, {"event 0 clean* clean*", "cpu 1 clean dirty*", "missing 1",
                         "event 1 clean* dirty*"});
    assert_int_equal(result.rows[1].since, 0);
    assert_int_equal(result.missing_before, 1);
}

void write_of_device_is_inferred_with_its_request(void **) {
    const json stale = json::array({line_run(0, 128, "stale")});
    const timeline result = make_timeline(make_finding(
        "stale",
        json::array({event("sync_invalidate", clean()), event("peer_rdma_write", clean()),
                     event("sync_invalidate", stale), event("peer_rdma_write", clean()),
                     event("peer_rdma_read", stale), event("dereg_mr", stale)}),
        128, 4));
    assert_rows(result, {"event 0 clean*", "event 1 clean*", "device 2 stale*", "event 2 clean*",
                         "event 3 clean*", "device 4 stale*", "missing 4", "event 4 stale*",
                         "event 5 stale*"});
    assert_int_equal(result.rows[2].cause, 1);
    assert_int_equal(result.rows[5].cause, 3);
    assert_int_equal(result.rows[5].since, 3);
}

void write_without_request_has_no_cause(void **) {
    const timeline result = make_timeline(make_finding(
        "conflict",
        json::array({event("sync_writeback", clean()),
                     event("sync_writeback", json::array({line_run(0, 128, "conflict")}))}),
        128, 1));
    assert_rows(result, {"event 0 clean*", "cpu 1 dirty*", "device 1 conflict*", "missing 1",
                         "event 1 clean*"});
    assert_int_equal(result.rows[2].cause, NONE);
}

/// Nothing is inferred before the first event that is known.
void first_event_implies_nothing(void **) {
    const timeline result = make_timeline(make_finding(
        "redundant",
        json::array({event("sync_writeback", json::array({line_run(0, 128, "dirty")}))})));
    assert_rows(result, {"event 0 clean*"});
    assert_int_equal(result.missing_before, NONE);
    assert_rows(make_timeline(make_finding("stale", json::array())), {});
}

void events_change_states_as_documented(void **) {
    const struct {
        const char *event, *before, *after;
    } rows[] = {
        {"sync_writeback", "dirty", "clean"},    {"sync_writeback", "stale", "stale"},
        {"sync_writeback", "conflict", "clean"}, {"sync_invalidate", "stale", "clean"},
        {"post_source", "dirty", "clean"},       {"post_sink", "stale", "stale"},
        {"complete_sink", "stale", "clean"},     {"complete_sink", "conflict", "dirty"},
        {"peer_rdma_write", "dirty", "dirty"},   {"evict_writeback", "dirty", "clean"},
        {"evict_fetch", "stale", "clean"},       {"dereg_mr", "dirty", "dirty"},
    };
    for (const auto &row : rows) {
        const timeline result = make_timeline(make_finding(
            "beside",
            json::array({event(row.event, json::array({line_run(0, 128, row.before)}))})));
        assert_string_equal(result.rows.back().segments[0].state.c_str(), row.after);
    }
}

void frame_is_parsed(void **) {
    const source_frame frame = parse_frame("f(int (*)()) (/src/a (1):b.c:12)");
    assert_string_equal(frame.function.c_str(), "f(int (*)())");
    assert_string_equal(frame.file.c_str(), "/src/a (1):b.c");
    const source_frame plain = parse_frame("ns::f(int) (/src/b.c:12)");
    assert_string_equal(plain.function.c_str(), "ns::f(int)");
    assert_string_equal(plain.file.c_str(), "/src/b.c");
    assert_int_equal(plain.line, 12);
    for (const char *const text : {"main (/usr/bin/rping+0x1234)", "??", "", "f (/a:12", "f (/a:0)",
                                   "f (/a:99999999999999)", "f (/a:1x)"}) {
        assert_string_equal(parse_frame(text).file.c_str(), "");
        assert_int_equal(parse_frame(text).line, 0);
    }
}

/// A source file in a temporary folder.
class source_file {
  public:
    explicit source_file(const std::string &text) {
        assert_non_null(mkdtemp(folder_.data()));
        path_ = folder_ + "/a<b>.c";
        std::ofstream(path_) << text;
    }
    ~source_file() {
        unlink(path_.c_str());
        rmdir(folder_.c_str());
    }
    source_file(const source_file &) = delete;
    source_file &operator=(const source_file &) = delete;
    [[nodiscard]] const std::string &path() const { return path_; }

  private:
    std::string folder_ = "/tmp/coherdma-page.XXXXXX", path_;
};

void source_lines_are_read(void **) {
    const source_file file("one\n\ttwo\x1b\r\n");
    source_files files;
    assert_string_equal(files.line(file.path(), 1).c_str(), "one");
    assert_string_equal(files.line(file.path(), 2).c_str(), "        two?");
    assert_string_equal(trim(files.line(file.path(), 2)).c_str(), "two?");
    assert_false(files.has_line(file.path(), 0) || files.has_line(file.path(), 3));
    assert_false(files.has_line("/nonexistent", 1) || files.has_line("/tmp", 1) ||
                 files.has_line("/dev/zero", 1) || files.has_line("relative.c", 1));
}

std::string page_of(const json &finding) {
    run_result run;
    run.emulation_mode = "stale<";
    read_log(finding.dump(), PID, run);
    return as_html({run}, {"./a", "b & c"});
}

void assert_contains(const std::string &page, const std::string &part) {
    if (page.find(part) == std::string::npos)
        fail_msg("the page does not have: %s", part.c_str());
}

void page_names_the_missing_sync_and_its_place(void **) {
    const source_file file("first\npost(); // <&>\nuse();\n");
    const json stale = json::array({line_run(0, 128, "stale")});
    json finding = make_finding(
        "stale",
        json::array({event("peer_rdma_write", clean(), {"main (" + file.path() + ":2)"},
                           "RDMA Write of 8 bytes, wr_id 0x1 of QP 2, by process 7 (a)"),
                     event("dereg_mr", stale, {"main (" + file.path() + ":3)"})}),
        128, 1);
    finding["after"] = place("the post", file.path(), 2);
    finding["before"] = place("the deregistration", file.path(), 3);
    const std::string page = page_of(finding);
    assert_contains(page, "<h2>1. Missing: sync after the Write</h2>");
    assert_contains(page, "<code>src/a.c:5: insert sync(&lt;&amp;&gt;);</code> between A and B");
    assert_contains(page, "region 1: <code>inbox&lt;</code>");
    assert_contains(page, "To suppress: <code>stale:rxe0:f&lt;</code>");
    assert_contains(page, "<span class=hit><b>    2 </b>post(); // &lt;&amp;&gt;</span>");
    assert_contains(page, "RDMA Write of 8 bytes is posted");
    assert_contains(page, "inferred: the device wrote lines between 1 and 2 (the request of 1)");
    assert_contains(page, "missing here: sync after the Write");
    assert_contains(page, "<b>found here</b>");
    assert_contains(page, "./a &#39;b &amp; c&#39;");
    assert_contains(page, "Earlier events are not known any more.");
    assert_null(std::strstr(page.c_str(), "http")); // nothing from elsewhere
    assert_null(std::strstr(page.c_str(), "<script"));
}

/// Whatever a program's log has, it is text of the page.
void page_is_escaped(void **) {
    const char *const markup = "<i>\"'&";
    json finding = make_finding(
        "stale",
        json::array({event(markup, json::array({line_run(0, 128, markup)}), {markup}, markup)}));
    for (const char *const name :
         {"kind", "missing", "device", "suppression", "region_name", "doubt", "certainty"})
        finding[name] = markup;
    finding["insert"]["text"] = finding["insert"]["place"] = markup;
    finding["after"] = finding["before"] = place(markup, markup, 1);
    finding["registered"] = {markup, std::string(markup) + " (/" + markup + ":1)"};
    finding["request"] = finding["last_sync"] = {{"description", markup}, {"stack", {markup}}};
    const std::string page = page_of(finding);
    assert_null(std::strstr(page.c_str(), "<i>"));
    assert_null(std::strstr(page.c_str(), "\"'&"));
    assert_contains(page, "&lt;i&gt;&quot;&#39;&amp;");
    assert_contains(page, "stale&lt;");
}

/// 1000 lines are 16 cells, each with the worst state of its lines.
void many_lines_are_grouped(void **) {
    const std::string page = page_of(make_finding(
        "beside",
        json::array({event("peer_rdma_read",
                           json::array({line_run(0, 64, "clean"), line_run(64, 64, "dirty"),
                                        line_run(128, 63872, "clean")}))}),
        64000));
    const std::size_t legend = page.find("How to read");
    std::size_t count = 0;
    for (std::size_t pos = page.find("<h2>"); (pos = page.find("class=\"cell ", pos)) < legend;
         ++pos)
        ++count;
    assert_int_equal(count, 16);
    assert_contains(page, "class=\"cell dirty part\" title=\"bytes 0..3999: dirty\">d<");
}

void invalid_history_makes_the_log_incomplete(void **) {
    json wrong_state = event("exit", json::array({line_run(0, 1, "x")}));
    wrong_state["lines"][0]["state"] = 1;
    json no_stack = event("exit", json::array());
    no_stack.erase("stack");
    for (const json &invalid :
         {json(5), json::array({5}), json::array({wrong_state}), json::array({no_stack})}) {
        run_result run;
        read_log(make_finding("stale", invalid).dump(), PID, run);
        assert_int_equal(run.findings.size(), 0);
        assert_false(run.has_all_summaries());
    }
    json negative = make_finding("stale", json::array({event("exit", clean())}), -5);
    assert_contains(page_of(negative), "found here");
}

void page_says_what_is_only_possible(void **) {
    json finding = make_finding("stale", json::array({event("exit", clean())}));
    finding["certainty"] = "possible";
    finding["doubt"] = "same-bytes";
    const std::string page = page_of(finding);
    assert_contains(page, "<h2>1. Possible: Missing: sync after the Write</h2>");
    assert_contains(page, "<p>Possible: the bytes were the same this time.</p>");
    assert_contains(page, "<td>0</td><td>1</td>"); // certain, possible
}

void page_without_findings(void **) {
    assert_contains(as_html({run_result{}}, {}), "No findings.");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(store_of_cpu_is_inferred),
        cmocka_unit_test(write_of_device_is_inferred_with_its_request),
        cmocka_unit_test(write_without_request_has_no_cause),
        cmocka_unit_test(first_event_implies_nothing),
        cmocka_unit_test(events_change_states_as_documented),
        cmocka_unit_test(frame_is_parsed),
        cmocka_unit_test(source_lines_are_read),
        cmocka_unit_test(page_names_the_missing_sync_and_its_place),
        cmocka_unit_test(page_is_escaped),
        cmocka_unit_test(many_lines_are_grouped),
        cmocka_unit_test(invalid_history_makes_the_log_incomplete),
        cmocka_unit_test(page_says_what_is_only_possible),
        cmocka_unit_test(page_without_findings),
    };
    return cmocka_run_group_tests_name("emulate_page", tests, nullptr, nullptr);
}
