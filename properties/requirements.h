// What a case asks of a subject: capabilities of the protocol, a family, a margin for rewinds. What
// is missing makes a case not applicable, by name; it is never passed.
#pragma once

#include <set>
#include <string>

#include "properties/case.h"

namespace kvconform {

/// Capabilities that the calls and the model of a case need.
std::set<std::string> needed_capabilities(const Case& test_case, const ModelConfig& config);

/// How far behind its longest length a row is rewound once a window has wrapped; 0: never.
int needed_margin(const Case& test_case, const ModelConfig& config);

/// What `info` lacks for the case, in words ("ragged, save"); empty where nothing is missing.
std::string missing_for(const Case& test_case, const ModelConfig& config, const SubjectInfo& info);

/// Hard classes a case belongs to, for the coverage of a report: "gemma3n: window crossed", ….
std::set<std::string> coverage_classes(const Case& test_case, const ModelConfig& config);

/// Whether cases of a class can be compared on a subject at all: it has the family, the
/// capabilities and, for rewinds past the wrap, the margin.
bool can_meet(const std::string& coverage_class, const SubjectInfo& info);

/// The generators see to it that of the cases compared on any subject that can meet the class at
/// least one in so many belongs to it.
int one_case_in(const std::string& coverage_class);

/// Every class there is.
std::set<std::string> all_coverage_classes();

}  // namespace kvconform
