// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma check --html: the page.

#include "../cmocka.hpp"
#include "check/report.hpp"
#include "check_findings.hpp"

#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace tools::check;
using namespace check_findings;

namespace {

void assert_contains(const std::string &text, const std::string &part) {
    if (text.find(part) == std::string::npos)
        fail_msg("\"%s\" is not in:\n%s", part.c_str(), text.c_str());
}

void assert_lacks(const std::string &text, const std::string &part) {
    if (text.find(part) != std::string::npos)
        fail_msg("\"%s\" is in:\n%s", part.c_str(), text.c_str());
}

std::string page_of(std::initializer_list<json> lines) {
    return as_html(make_run(lines), {"./x", "a b"});
}

void page_tells_the_history(void **) {
    const std::string page = page_of({make_finding("cq-overflow", 120), make_summary(1)});
    assert_contains(page, "<code>./x &#39;a b&#39; </code>");
    assert_contains(page, "<h2 id=place1>1. 64 completions can come");
    assert_contains(page, "<code>x.c:120 in main</code>");
    assert_contains(page, "<p>A CQ has &lt;cqe&gt; entries.</p>");
    assert_contains(
        page, "<span class=hit><b>  120 </b>    ibv_post_send(qp, &amp;wr, &amp;bad);</span>");
    assert_contains(page, "<li><b>QP 17 created</b>");
    assert_contains(page, "<li class=\"wrong\"><b>the post</b>");
    assert_contains(page, "<p>Create a larger CQ.</p>");
    assert_contains(page, "<code>cq-overflow:rxe0:main</code>");
    assert_contains(page, "Process 7, device rxe0, 0.250000 s");
    assert_lacks(page, "class=contents"); // of a single place
    assert_lacks(page, "<p class=warning>");
}

/// With a request that is posted after 0.125 s; the finding is made after 0.25 s.
json make_timed_finding(const char *posted) {
    json finding = make_finding("early-access", 120);
    finding["events"][0]["time"] = 0.125;
    finding["events"][0]["posted"] = posted;
    finding["events"][1]["time"] = 0.125004;
    return finding;
}

void request_is_outstanding_until_the_end(void **) {
    const std::string page = page_of({make_timed_finding("outstanding"), make_summary(1)});
    assert_contains(page, "<ol class=\"history card\" style=\"--bars:1\">");
    assert_contains(page, "<li><i class=begin style=\"--bar:0\"></i><b>QP 17 created</b> "
                          "<span class=time>at 0.125000 s</span>");
    assert_contains(page, "<li class=\"wrong\"><i style=\"--bar:0\"></i><b>the post</b> "
                          "<span class=time>4.0 µs later</span>");
    assert_contains(page, "<li class=\"open\"><i class=fade style=\"--bar:0\"></i> "
                          "<span class=time>no completion has been polled</span></li>");
    assert_contains(page, "the device has the request</span>");
    // Logs without times and requests.
    const std::string other = page_of({make_finding("cq-overflow", 120), make_summary(1)});
    assert_lacks(other, "<i ");
    assert_lacks(other, "<span class=time>");
    assert_lacks(other, "the device has the request</span>");
}

void request_is_complete_when_it_is_polled(void **) {
    json finding = make_timed_finding("complete");
    const std::string page = page_of({finding, make_summary(1)});
    assert_contains(page, "<li class=\"wrong\"><i style=\"--bar:0\"></i><b>the post</b>");
    assert_contains(page, "<li class=\"polled\"><i class=end style=\"--bar:0\"></i>"
                          "<b>the program has polled the completion</b> "
                          "<span class=time>125.0 ms later</span></li>");
    assert_lacks(page, "has been polled");
    // The change is not seen: it was between the post and the completion.
    finding["events"].erase(1);
    const std::string unseen = page_of({finding, make_summary(1)});
    assert_contains(unseen, "<li><i class=begin style=\"--bar:0\"></i><b>QP 17 created</b>");
    assert_contains(unseen, "<li class=\"wrong unknown\"><i style=\"--bar:0\"></i><b>the program "
                            "wrote to its memory</b> <span class=time>at a time that is not known");
    assert_contains(unseen, "<li class=\"polled\"><i class=end");
}

void callers_are_folded_and_have_source_lines(void **) {
    const std::string file =
        std::filesystem::temp_directory_path() / ("callers" + std::to_string(getpid()) + ".c");
    std::ofstream(file) << "one\n    connect_qp(<2>);\n";
    json finding = make_finding("cq-overflow", 120);
    finding["events"].push_back(make_event("again", "/src/x.c", 130, {"caller (" + file + ":2)"}));
    const std::string page = page_of({finding, make_summary(1)});
    assert_contains(page, "<details><summary>called by</summary><code title=");
    assert_contains(page, "<span class=soft> connect_qp(&lt;2&gt;);</span>");
    std::filesystem::remove(file);
}

void places_are_linked_and_others_folded(void **) {
    json other = make_finding("cq-overflow", 120);
    other["title"] = "another CQ";
    const std::string page =
        page_of({make_finding("cq-overflow", 120), other, make_finding("local-key", 9)});
    assert_contains(page, "<a href=#place2>");
    assert_contains(page, "<summary>1 more here</summary>\n<h3>another CQ</h3>");
    assert_contains(page, "rxe0, 2 times</span>");
}

void page_is_escaped(void **) {
    json hostile = make_finding("<kind>", 120);
    for (const char *pointer : {"/title", "/why", "/fix", "/suppression", "/device",
                                "/place/function", "/place/file", "/place/source/0/text",
                                "/events/0/description", "/events/0/stack/0", "/events/1/stack/0"})
        hostile[json::json_pointer(pointer)] = "<script>'\"&";
    const std::string page = page_of({hostile, hostile, make_finding("local-key", 9)});
    assert_lacks(page, "<script>");
    assert_lacks(page, "<kind>");
}

void page_without_place_or_events(void **) {
    json bare = make_finding("leaked", 1);
    bare["level"] = "warning";
    bare["place"] = nullptr;
    bare["events"] = json::array();
    const std::string page = page_of({bare, make_summary(0, 1)});
    assert_contains(page, "<span class=\"level warning-level\">warning</span>");
    assert_lacks(page, "What happened");
    assert_contains(page_of({make_finding_without_lines("leaked", "main (/nonexistent+0x12)")}),
                    "<dt>nonexistent</dt><dd>compile it with -g</dd>");
}

void page_says_what_can_be_missing(void **) {
    assert_contains(page_of({}), "Process 7 ended without a summary");
    assert_contains(page_of({make_summary(0)}), "No findings.");
    assert_contains(as_html(run_result{}, {}), "Nothing was checked");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(page_tells_the_history),
        cmocka_unit_test(request_is_outstanding_until_the_end),
        cmocka_unit_test(request_is_complete_when_it_is_polled),
        cmocka_unit_test(callers_are_folded_and_have_source_lines),
        cmocka_unit_test(places_are_linked_and_others_folded),
        cmocka_unit_test(page_is_escaped),
        cmocka_unit_test(page_without_place_or_events),
        cmocka_unit_test(page_says_what_can_be_missing),
    };
    return cmocka_run_group_tests_name("check_page", tests, nullptr, nullptr);
}
