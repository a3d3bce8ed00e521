// The workflow of goldens: compute, compare, record, approve.
#include "golden/golden.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "golden/approved_file.h"
#include "golden/oracle_cases.h"
#include "reference/error.h"

namespace kvconform {
namespace {

namespace fs = std::filesystem;
using Kind = GoldenCall::Kind;

Logits make_call(GoldenRunner& runner, const GoldenCall& call) {
  switch (call.kind) {
    case Kind::score:
      return runner.score(call.tokens);
    case Kind::extend:
      return runner.extend(call.tokens);
    case Kind::open:
      runner.open(call.length);
      return {};
    case Kind::rewind:
      runner.rewind(call.length);
      return {};
  }
  return {};
}

CallLogits compute(const Recipe& recipe, const RunnerFactory& factory) {
  const auto runner = factory(make_checkpoint(recipe));
  CallLogits calls;
  for (const GoldenCall& call : recipe.calls) calls.push_back(make_call(*runner, call));
  return calls;
}

/// The bits of the float32 value: what a golden compares.
std::uint32_t bits(double value) {
  const float narrow = static_cast<float>(value);
  std::uint32_t b;
  std::memcpy(&b, &narrow, sizeof b);
  return b;
}

/// Adds row `row` of `call` to the difference; returns whether it differs.
bool compare_row(const Logits& approved, const Logits& computed, int call, int row,
                 std::optional<GoldenDifference>& found) {
  bool differs = false;
  for (int i = 0; i < approved.vocab; ++i) {
    const double a = approved.row(row)[i], c = computed.row(row)[i];
    if (bits(a) == bits(c)) continue;
    if (!found) found = GoldenDifference{call, row, i, a, c, 0, 0, 0.0};
    const double d = std::abs(c - a);
    found->largest =
        std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(found->largest, d);
    differs = true;
  }
  return differs;
}

/// Nothing if every bit is the same. Needs results of the same calls with the same shapes.
std::optional<GoldenDifference> compare(const CallLogits& approved, const CallLogits& computed) {
  std::optional<GoldenDifference> found;
  for (std::size_t call = 0; call < approved.size(); ++call) {
    int rows = 0;
    for (int row = 0; row < approved[call].positions; ++row) {
      rows += compare_row(approved[call], computed[call], int(call), row, found);
    }
    if (rows == 0) continue;
    found->rows += rows;
    found->calls += 1;
  }
  return found;
}

bool same_shapes(const CallLogits& a, const CallLogits& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Logits& x, const Logits& y) {
    return x.positions == y.positions && x.vocab == y.vocab && x.values.size() == y.values.size();
  });
}

std::string describe(const GoldenDifference& d) {
  return fmt::format(
      "  first in call {}, row {}, token {}: approved {:.9g}, computed {:.9g}\n"
      "  {} rows of {} calls differ, by at most {:.3g}",
      d.call, d.row, d.column, d.approved, d.computed, d.rows, d.calls, d.largest);
}

/// Without stored logits the hashes still tell which call is the first to differ.
std::string describe_hashes(const ApprovedGolden& approved, const CallLogits& computed) {
  for (std::size_t call = 0; call < std::min(approved.call_hashes.size(), computed.size());
       ++call) {
    const std::string hash = computed[call].positions ? hash_of({computed[call]}) : "";
    if (hash != approved.call_hashes[call]) return fmt::format("  first in call {}", call);
  }
  return fmt::format("  {} calls were approved, {} computed", approved.call_hashes.size(),
                     computed.size());
}

GoldenResult judge(const Recipe& recipe, const CallLogits& computed) {
  GoldenResult result{recipe.name, GoldenStatus::same, hash_of(computed), {}, {}, {}};
  const auto approved = read_golden(recipe.name, Stage::approved);
  const auto finish = [&](GoldenStatus status, const std::string& detail) {
    result.status = status;
    result.message = fmt::format("golden {}: {}", recipe.name, detail);
    return result;
  };
  if (!approved) return finish(GoldenStatus::not_approved, "not approved yet");
  result.approved_sha256 = approved->sha256;
  if (approved->fingerprint != recipe.fingerprint) {
    return finish(GoldenStatus::recipe_changed, "the recipe changed since it was approved");
  }
  if (result.sha256 == approved->sha256) return finish(GoldenStatus::same, "same bits");
  std::string where = describe_hashes(*approved, computed);
  if (approved->logits && same_shapes(*approved->logits, computed)) {
    result.difference = compare(*approved->logits, computed);
    where = describe(result.difference.value());
  }
  return finish(GoldenStatus::differs, fmt::format("differs, approved {:.16}, computed {:.16}\n{}",
                                                   approved->sha256, result.sha256, where));
}

void require_finite(const Recipe& recipe, const CallLogits& computed) {
  for (std::size_t call = 0; call < computed.size(); ++call) {
    for (double value : computed[call].values) {
      if (std::isfinite(value)) continue;
      throw Error("KV3009", fmt::format("golden {}: call {} yields {}", recipe.name, call, value),
                  "choose a model whose logits are finite: a golden must be worth approving");
    }
  }
}

}  // namespace

const char* to_string(GoldenStatus status) {
  switch (status) {
    case GoldenStatus::same:
      return "same";
    case GoldenStatus::differs:
      return "differs";
    case GoldenStatus::recipe_changed:
      return "recipe-changed";
    case GoldenStatus::not_approved:
      return "not-approved";
    case GoldenStatus::failed:
      return "failed";
  }
  return "?";
}

GoldenResult verify(const Recipe& recipe, const RunnerFactory& factory) {
  return judge(recipe, compute(recipe, factory));
}

std::vector<GoldenResult> verify_all(const RunnerFactory& factory, const std::string& filter) {
  std::vector<GoldenResult> results;
  for (const Recipe& recipe : list_recipes()) {
    if (recipe.name.find(filter) == std::string::npos) continue;
    try {
      results.push_back(verify(recipe, factory));
    } catch (const HarnessError&) {
      throw;
    } catch (const std::exception& e) {
      results.push_back({recipe.name,
                         GoldenStatus::failed,
                         {},
                         {},
                         {},
                         fmt::format("golden {}: {}", recipe.name, e.what())});
    }
  }
  return results;
}

GoldenResult record(const Recipe& recipe, const RunnerFactory& factory, const std::string& commit) {
  const CallLogits computed = compute(recipe, factory);
  require_finite(recipe, computed);
  GoldenResult result = judge(recipe, computed);
  if (result.status == GoldenStatus::same) {
    remove_pending(recipe.name);
  } else {
    write_pending(recipe, computed, provenance_here(commit));
  }
  return result;
}

PendingGolden find_pending(const std::string& name) {
  const auto pending = read_golden(name, Stage::pending);
  if (!pending) {
    throw Error("KV3008", fmt::format("golden {} has nothing pending", name),
                fmt::format("run `kvconform golden record {}` first", name));
  }
  const auto approved = read_golden(name, Stage::approved);
  PendingGolden change{name, !approved, pending->sha256, approved ? approved->sha256 : "", {}, {}};
  change.message = approved ? fmt::format("golden {}: {:.16} becomes {:.16}", name,
                                          approved->sha256, pending->sha256)
                            : fmt::format("golden {}: new, {:.16}", name, pending->sha256);
  if (approved && approved->logits && pending->logits &&
      same_shapes(*approved->logits, *pending->logits)) {
    change.difference = compare(*approved->logits, *pending->logits);
    if (change.difference) change.message += "\n" + describe(*change.difference);
  } else if (approved) {
    change.message += "\n  other calls or shapes: not comparable number by number";
  }
  return change;
}

std::vector<PendingGolden> list_pending() {
  std::vector<PendingGolden> all;
  for (const Recipe& recipe : list_recipes()) {
    if (fs::exists(golden_json(recipe.name, Stage::pending))) {
      all.push_back(find_pending(recipe.name));
    }
  }
  return all;
}

void approve(const std::string& name) {
  find_pending(name);  // refuses a damaged or missing one before anything is replaced
  promote_pending(name);
}

std::vector<fs::path> list_prunable() {
  std::vector<fs::path> wanted, prunable;
  for (const Recipe& recipe : list_recipes()) {
    wanted.push_back(golden_json(recipe.name, Stage::approved));
    wanted.push_back(golden_logits(recipe.name, Stage::approved));
  }
  const fs::path folder = golden_dir() / "approved";
  if (!fs::exists(folder)) return {};
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (std::count(wanted.begin(), wanted.end(), entry.path()) == 0) {
      prunable.push_back(entry.path());
    }
  }
  std::sort(prunable.begin(), prunable.end());
  return prunable;
}

std::vector<fs::path> prune() {
  const std::vector<fs::path> files = list_prunable();
  for (const fs::path& file : files) fs::remove(file);
  return files;
}

void export_golden(const Recipe& recipe, const RunnerFactory& factory, const fs::path& folder) {
  const auto checkpoint = make_checkpoint(recipe);
  write_checkpoint(folder, checkpoint->config_json(), checkpoint->tensors());
  write_call_logits(folder / "expected.safetensors", compute(recipe, factory));
  nlohmann::ordered_json calls = nlohmann::ordered_json::array();
  for (const GoldenCall& call : recipe.calls) {
    calls.push_back(
        {{"call", to_string(call.kind)}, {"tokens", call.tokens}, {"length", call.length}});
  }
  const nlohmann::ordered_json j = {
      {"name", recipe.name}, {"about", recipe.about}, {"calls", calls}};
  std::ofstream out(folder / "case.json");
  out << j.dump(1) << '\n';
  if (!out.flush()) {
    throw HarnessError("KV3010", (folder / "case.json").string() + " cannot be written",
                       "check permissions and free space of that folder");
  }
}

}  // namespace kvconform
