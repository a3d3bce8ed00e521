// The ledger of known failures (`check --known-failures FILE`): failures that somebody has looked
// at and that need not fail a run. A listed failure is `known`; a listed one that does not happen
// any more is `unexpectedly-conforms`, a failure, so that the ledger does not outlive its reasons.
//
//   {"format": "kvconform-known-failures-1",
//    "failures": [{"property": "rollback", "subject": "process:python3 engine.py",
//                  "where": {"layer": 3, "part": "attention"},     (optional, each half too)
//                  "verdict": "differs",                           (optional; or "broken")
//                  "reason": "…", "link": "https://…"}]}
//
// Entries about a property explain its generated and its kept cases. The checks of what is stored,
// `oracle` and `golden`, have entries too: of the subject reference, and `where` names one of what
// is stored ({"case": "gemma3n-base"}).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "properties/verdict.h"

namespace kvconform {

struct KnownFailure {
  std::string property, subject, reason, link;
  VerdictKind verdict = VerdictKind::differs;  ///< or broken
  int layer = -1;                              ///< −1: any
  std::string part = {};                       ///< empty: any
  std::string stored_case = {};                ///< of `oracle` or `golden`; empty: any

  bool has_place() const { return layer >= 0 || !part.empty(); }
  bool operator==(const KnownFailure&) const = default;
};

/// What `check` verifies besides properties, on the subject reference, when a whole check is asked
/// for.
inline constexpr const char* kStoredChecks[] = {"oracle", "golden"};

/// An entry about one property and subject, and how many cases of a run it explained.
struct ListedFailure {
  KnownFailure entry;
  std::int64_t matched = 0;
};

/// Error KV2304 (not readable or malformed), KV2301 (no such property), KV2305 (two entries about
/// the same failure).
std::vector<KnownFailure> read_known_failures(const std::filesystem::path& file);
std::vector<KnownFailure> parse_known_failures(const std::string& text, const std::string& origin);

nlohmann::json to_json(const KnownFailure& entry);
KnownFailure known_failure_from_json(const nlohmann::json& value, const std::string& where);

/// Entries about a property and a subject, with nothing matched yet.
std::vector<ListedFailure> listed_for(const std::vector<KnownFailure>& ledger,
                                      const std::string& property, const std::string& subject);

/// Does an entry ask where a failure is, so that failing cases must be located?
bool asks_for_place(const std::vector<ListedFailure>& listed);

/// Index of the first entry that this verdict fits; −1: none does.
int find_listed(const std::vector<ListedFailure>& listed, const Verdict& verdict);
/// The same for a check of what is stored.
int find_listed(const std::vector<ListedFailure>& listed, VerdictKind kind,
                const std::string& stored_case);

}  // namespace kvconform
