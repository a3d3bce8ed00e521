// A property: one sentence about every healthy implementation, with its source, what it needs of a
// subject, how to make cases that could refute it, and how to judge one case. One file each under
// invariants/.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "properties/case.h"
#include "properties/subject.h"
#include "properties/verdict.h"

namespace kvconform {

/// `emulated` is what `standard` becomes for a subject on emulated threads: smaller models, but now
/// and then an inner size above 256 and more than 64 cached positions, where such engines cut sums.
enum class CaseSize { smoke, standard, deep, emulated };

/// Computes what a case costs in a subject's precision, and the truth to hold it against
/// (comparison.h).
class Yardstick;

/// What a property judges with: the subject, the implementation it is held against, the case's
/// model and the yardstick for it.
struct Judgement {
  const ModelSource& model;
  Subject& subject;
  Subject& against;
  Yardstick& yardstick;
  bool traces = false;  ///< locate differences layer by layer (failures and replays)
  /// Another instance of the subject (another process, where it is one), started when first asked
  /// for; empty: there is none to be had.
  std::function<Subject&()> another = {};
};

class Property {
 public:
  virtual ~Property() = default;
  virtual const char* name() const = 0;                ///< e.g. "cache-independence"
  virtual const char* sentence() const = 0;            ///< what must hold, one sentence
  virtual const char* source() const = 0;              ///< the report or standard it comes from
  virtual std::vector<std::string> needs() const = 0;  ///< capabilities of the protocol

  /// Case `index`: valid by construction, a pure function of (seed, index, size).
  virtual Case generate(std::uint64_t seed, std::uint64_t index, CaseSize size) const = 0;

  /// Random prompts and calls for a given checkpoint (`check --model`).
  virtual Case generate_for(const ModelSpec& model, std::uint64_t seed, std::uint64_t index,
                            CaseSize size) const = 0;

  /// Is its sentence true of every valid case, also of one that another property drew? Such a
  /// property, found violated, is looked for in the failures of those after it.
  virtual bool holds_of_any_case() const { return false; }

  /// Never throws for anything the subject does; SubjectBroken and refusals become verdicts.
  virtual Verdict judge(const Case& test_case, Judgement& judgement) const = 0;
};

/// Every property, in the order in which `check` runs them.
const std::vector<std::unique_ptr<Property>>& all_properties();

}  // namespace kvconform
