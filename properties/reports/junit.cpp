// JUnit XML, as CI systems read it: a test suite a subject, a test case a property.
#include <fmt/format.h>

#include <pugixml.hpp>
#include <sstream>

#include "properties/case_judge.h"
#include "properties/reports/plain_text.h"
#include "properties/reports/report.h"

namespace kvconform {
namespace {

void set(pugi::xml_node node, const char* name, const std::string& value) {
  node.append_attribute(name).set_value(plain_text(value).c_str());
}

struct Totals {
  int tests = 0, failures = 0, errors = 0, skipped = 0;
  double seconds = 0;
};

void write_totals(pugi::xml_node node, const Totals& totals) {
  set(node, "tests", std::to_string(totals.tests));
  set(node, "failures", std::to_string(totals.failures));
  set(node, "errors", std::to_string(totals.errors));
  set(node, "skipped", std::to_string(totals.skipped));
  set(node, "time", fmt::format("{:.3f}", totals.seconds));
}

void add_result(pugi::xml_node suite, const PropertyResult& result, Totals& totals) {
  pugi::xml_node test = suite.append_child("testcase");
  set(test, "classname", result.subject);
  set(test, "name", result.property);
  set(test, "time", fmt::format("{:.3f}", result.seconds));
  ++totals.tests;
  totals.seconds += result.seconds;
  const char* kind = nullptr;
  if (result.verdict == VerdictKind::broken) {
    kind = "error";
    ++totals.errors;
  } else if (is_failure(result.verdict)) {
    kind = "failure";
    ++totals.failures;
  } else if (!was_compared(result.verdict) || result.verdict == VerdictKind::known) {
    kind = "skipped";
    ++totals.skipped;
  }
  if (kind == nullptr) return;
  pugi::xml_node node = test.append_child(kind);
  set(node, "message", result.message);
  if (std::string(kind) == "skipped") return;
  set(node, "type", to_string(result.verdict));
  node.append_child(pugi::node_pcdata).set_value(plain_text(failure_text(result)).c_str());
}

}  // namespace

std::string junit_xml(const RunSummary& summary) {
  pugi::xml_document document;
  pugi::xml_node root = document.append_child("testsuites");
  set(root, "name", "kvconform");
  std::map<std::string, std::pair<pugi::xml_node, Totals>> suites;
  Totals all;
  for (const PropertyResult& result : summary.results) {
    auto& [suite, totals] = suites[result.subject];
    if (!suite) suite = root.append_child("testsuite");
    add_result(suite, result, totals);
  }
  for (auto& [subject, entry] : suites) {
    auto& [suite, totals] = entry;
    set(suite, "name", subject);
    write_totals(suite, totals);
    all.tests += totals.tests;
    all.failures += totals.failures;
    all.errors += totals.errors;
    all.skipped += totals.skipped;
    all.seconds += totals.seconds;
  }
  write_totals(root, all);
  std::ostringstream out;
  document.save(out, "  ");
  return out.str();
}

}  // namespace kvconform
