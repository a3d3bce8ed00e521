// The workflow of goldens: compute, compare, record, approve, prune.
#include "golden/golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "golden/oracle_cases.h"
#include "reference/counted.h"
#include "reference/error.h"

namespace kvconform {
namespace {

namespace fs = std::filesystem;

GoldenResult& finish(GoldenResult& result, GoldenStatus status, const std::string& detail) {
  result.status = status;
  result.message = fmt::format("golden {} ({}): {}", result.name, result.kind, detail);
  return result;
}

/// Compares what was computed without a trace; `explain_difference` looks closer.
GoldenResult judge(const Recipe& recipe, const std::optional<ApprovedGolden>& approved,
                   const std::string& kind, const CallLogits& computed) {
  GoldenResult result{recipe.name, kind, GoldenStatus::same, hash_of(computed), {}, {}, {}, {}};
  const ApprovedNumerics* numerics = approved ? approved->find(kind) : nullptr;
  if (!numerics) return finish(result, GoldenStatus::not_approved, "not approved yet");
  result.approved_sha256 = numerics->sha256;
  if (approved->fingerprint != recipe.fingerprint) {
    return finish(result, GoldenStatus::recipe_changed, "the recipe changed since it was approved");
  }
  if (result.sha256 == numerics->sha256) return finish(result, GoldenStatus::same, "same bits");
  if (numerics->logits && same_shapes(*numerics->logits, computed)) {
    result.difference = compare_logits(recipe, *numerics->logits, computed);
  }
  return finish(
      result, GoldenStatus::differs,
      fmt::format("differs, approved {:.16}, computed {:.16}", numerics->sha256, result.sha256));
}

void explain_difference(GoldenResult& result, const Recipe& recipe, const ModelSource& model,
                        const Numerics& numerics, const ApprovedGolden& approved) {
  const auto checkpoint = model.checkpoint();
  const Explanation explanation =
      explain(recipe, *checkpoint, waypoints_of(recipe, *checkpoint), approved,
              *approved.find(numerics.kind), compute(recipe, model, numerics, true));
  result.cause = explanation.cause;
  result.message += explanation.text;
}

GoldenResult failure(const Recipe& recipe, const std::string& kind, GoldenStatus status,
                     const std::string& what) {
  GoldenResult result{recipe.name, kind, status, {}, {}, {}, {}, {}};
  return finish(result, status, what);
}

/// An approved golden that the subject cannot compute any more is a failure; what it never could
/// is not applicable.
GoldenResult refusal(const Recipe& recipe, const std::string& kind, const SubjectRefusal& refused) {
  const auto approved = read_golden(recipe.name, Stage::approved);
  const bool never =
      refused.kind == SubjectRefusal::Kind::unsupported && !(approved && approved->find(kind));
  return failure(recipe, kind, never ? GoldenStatus::not_applicable : GoldenStatus::failed,
                 std::string("refused: ") + refused.what());
}

GoldenResult verify_guarded(const Recipe& recipe, const Numerics& numerics) {
  try {
    return verify(recipe, numerics);
  } catch (const HarnessError&) {
    throw;
  } catch (const SubjectRefusal& refused) {
    return refusal(recipe, numerics.kind, refused);
  } catch (const std::exception& e) {
    return failure(recipe, numerics.kind, GoldenStatus::failed, e.what());
  }
}

/// Names of the files in approved/ that hold an approved golden.
std::vector<std::string> approved_names() {
  std::vector<std::string> names;
  const fs::path folder = golden_dir() / "approved";
  if (!fs::exists(folder)) return names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().stem();
    if (entry.path().extension() == ".json" && !name.ends_with(".pending")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void require_finite(const Recipe& recipe, const Computation& computed) {
  for (std::size_t call = 0; call < computed.logits.size(); ++call) {
    for (double value : computed.logits[call].values) {
      if (std::isfinite(value)) continue;
      throw Error("KV3009", fmt::format("golden {}: call {} yields {}", recipe.name, call, value),
                  "choose a model whose logits are finite: a golden must be worth approving");
    }
  }
}

/// The computation with its trace, whose logits must be those of the computation without.
Computation compute_to_keep(const Recipe& recipe, const ModelSource& model,
                            const Numerics& numerics) {
  Computation traced = compute(recipe, model, numerics, true);
  require_finite(recipe, traced);
  if (hash_of(traced.logits) == hash_of(compute(recipe, model, numerics, false).logits)) {
    return traced;
  }
  throw Error("KV3012",
              fmt::format("golden {}: {} computes other logits when it is traced", recipe.name,
                          numerics.kind),
              "make the subject compute the same with and without a trace; only then can a change "
              "be located");
}

/// Equal but for where it comes from.
bool same_numbers(const ApprovedNumerics& a, const ApprovedNumerics& b) {
  return a.sha256 == b.sha256 && a.call_hashes == b.call_hashes &&
         a.stages.stages == b.stages.stages && a.stages.calls == b.stages.calls;
}

bool same_golden(const ApprovedGolden& a, const ApprovedGolden& b) {
  return a.about == b.about && a.fingerprint == b.fingerprint && a.way.calls == b.way.calls &&
         a.way.config == b.way.config && a.way.weights_sha256 == b.way.weights_sha256 &&
         a.way.tensor_hashes == b.way.tensor_hashes &&
         std::equal(
             a.numerics.begin(), a.numerics.end(), b.numerics.begin(), b.numerics.end(),
             [](const auto& x, const auto& y) { return x.kind == y.kind && same_numbers(x, y); });
}

PendingGolden::Change change_of(const Recipe& recipe, const ApprovedGolden& approved,
                                const ApprovedNumerics& pending) {
  PendingGolden::Change change{pending.kind, pending.sha256, {}, {}, {}};
  const ApprovedNumerics* before = approved.find(pending.kind);
  if (!before) return change;
  change.approved_sha256 = before->sha256;
  if (approved.fingerprint != recipe.fingerprint) return change;
  change.departure = first_departure(before->stages, pending.stages);
  if (before->logits && pending.logits && same_shapes(*before->logits, *pending.logits)) {
    change.difference = compare_logits(recipe, *before->logits, *pending.logits);
  }
  return change;
}

std::string in_words(const Recipe& recipe, const PendingGolden::Change& change, bool comparable) {
  if (change.approved_sha256.empty())
    return fmt::format("\n  {}: new, {:.16}", change.kind, change.sha256);
  if (change.approved_sha256 == change.sha256) {
    return fmt::format("\n  {}: the logits keep every bit", change.kind);
  }
  std::string text = fmt::format("\n  {}: {:.16} becomes {:.16}", change.kind,
                                 change.approved_sha256, change.sha256);
  if (!comparable) return text + "\n  another recipe: not comparable number by number";
  if (change.departure) text += "\n  begins in " + in_words(recipe, nullptr, *change.departure);
  if (change.difference) text += "\n  " + in_words(recipe, *change.difference);
  return text;
}

/// Which cause explains the others, where goldens differ for several: with configuration or weights
/// the logits change too, and a small error of a formula hides in the rounding of some.
int weight_of(GoldenCause cause) {
  switch (cause) {
    case GoldenCause::tokens:
    case GoldenCause::configuration:
    case GoldenCause::weights:
      return 3;
    case GoldenCause::formula:
    case GoldenCause::position:
    case GoldenCause::approved_wrong:
      return 2;
    case GoldenCause::rounding:
      return 1;
    case GoldenCause::none:
      return 0;
  }
  return 0;
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
    case GoldenStatus::no_recipe:
      return "no-recipe";
    case GoldenStatus::failed:
      return "failed";
    case GoldenStatus::not_applicable:
      return "not-applicable";
  }
  return "?";
}

bool passes(GoldenStatus status) {
  return status == GoldenStatus::same || status == GoldenStatus::not_applicable;
}

GoldenResult verify(const Recipe& recipe, const Numerics& numerics) {
  const auto model = make_model(recipe);
  const auto approved = read_golden(recipe.name, Stage::approved);
  GoldenResult result =
      judge(recipe, approved, numerics.kind, compute(recipe, *model, numerics, false).logits);
  if (result.status == GoldenStatus::differs) {
    explain_difference(result, recipe, *model, numerics, *approved);
  }
  return result;
}

std::vector<GoldenResult> verify_all(const std::vector<Numerics>& numerics,
                                     const std::string& filter) {
  std::vector<GoldenResult> results;
  std::set<std::string> known;
  for (const Recipe& recipe : list_recipes()) {
    known.insert(recipe.name);
    if (recipe.name.find(filter) == std::string::npos) continue;
    for (const Numerics& one : numerics) results.push_back(verify_guarded(recipe, one));
  }
  for (const std::string& name : approved_names()) {
    if (known.count(name) || name.find(filter) == std::string::npos) continue;
    GoldenResult result{name, "all kinds", GoldenStatus::no_recipe, {}, {}, {}, {}, {}};
    results.push_back(finish(result, GoldenStatus::no_recipe,
                             "approved, but no recipe in recipes.json says how to compute it; "
                             "restore the recipe, or remove it with `kvconform golden prune`"));
  }
  return results;
}

std::string summary_of_causes(const std::vector<GoldenResult>& results) {
  std::map<std::string, std::map<GoldenCause, int>> kinds;
  for (const GoldenResult& result : results) {
    if (result.status == GoldenStatus::differs) ++kinds[result.kind][result.cause];
  }
  std::string text;
  for (const auto& [kind, causes] : kinds) {
    int differ = 0;
    std::string parts;
    GoldenCause likely = causes.begin()->first;
    for (const auto& [cause, count] : causes) {
      differ += count;
      parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", count, short_name(cause));
      if (std::pair(weight_of(cause), count) > std::pair(weight_of(likely), causes.at(likely))) {
        likely = cause;
      }
    }
    text += fmt::format("{}: {} {} ({}); likely cause: {}\n", kind, counted(differ, "golden"),
                        agreeing(differ, "differs", "differ"), parts, to_string(likely));
  }
  return text;
}

std::vector<GoldenResult> record(const Recipe& recipe, const std::vector<Numerics>& numerics,
                                 const std::string& commit) {
  const auto model = make_model(recipe);
  const auto approved = read_golden(recipe.name, Stage::approved);
  ApprovedGolden golden{recipe.name,
                        recipe.about,
                        recipe.fingerprint,
                        waypoints_of(recipe, *model->checkpoint()),
                        {}};
  std::vector<GoldenResult> results;
  for (const Numerics& one : numerics) {
    try {
      const Computation computed = compute_to_keep(recipe, *model, one);
      results.push_back(judge(recipe, approved, one.kind, computed.logits));
      golden.numerics.push_back(
          approved_numerics(one.kind, computed, provenance_here(computed.computer, commit)));
    } catch (const SubjectRefusal& refused) {
      results.push_back(refusal(recipe, one.kind, refused));
      continue;
    }
    const ApprovedNumerics* before = approved ? approved->find(one.kind) : nullptr;
    if (before && same_numbers(*before, golden.numerics.back())) {
      golden.numerics.back().provenance = before->provenance;
    }
  }
  if (approved && same_golden(*approved, golden)) {
    remove_golden(recipe.name, Stage::pending);
  } else {
    write_golden(golden, Stage::pending);
  }
  return results;
}

PendingGolden find_pending(const std::string& name) {
  const auto pending = read_golden(name, Stage::pending);
  if (!pending) {
    throw Error("KV3008", fmt::format("golden {} has nothing pending", name),
                fmt::format("run `kvconform golden record {}` first", name));
  }
  const Recipe recipe = find_recipe(name);
  if (pending->fingerprint != recipe.fingerprint) {
    throw Error("KV3013", fmt::format("golden {} was recorded for another recipe", name),
                fmt::format("run `kvconform golden record {}` again", name));
  }
  const auto approved = read_golden(name, Stage::approved);
  const bool comparable = approved && approved->fingerprint == pending->fingerprint;
  PendingGolden golden{name, !approved, {}, fmt::format("golden {}", name)};
  for (const ApprovedNumerics& numerics : pending->numerics) {
    golden.changes.push_back(change_of(recipe, approved.value_or(ApprovedGolden{}), numerics));
    golden.message += in_words(recipe, golden.changes.back(), comparable);
  }
  return golden;
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

void approve(const std::string& name, const std::string& reason) {
  find_pending(name);  // refuses a damaged or missing one before anything is replaced
  promote_golden(name, reason);
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

}  // namespace kvconform
