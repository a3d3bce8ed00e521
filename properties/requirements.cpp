// Reading off a case what it needs and how hard it is.
#include "properties/requirements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "properties/generators/session_life.h"
#include "properties/history.h"
#include "reference/layer_plan.h"

namespace kvconform {
namespace {

/// What happens to the lengths of rows along a case.
struct Course {
  std::set<std::string> capabilities;
  int longest = 0;        ///< length that any row reaches
  int longest_chunk = 0;  ///< tokens of one row in one call
  int margin = 0;
  int last_start = 0;  ///< the furthest position at which a session begins
  int most_rows = 0;   ///< of a session
  bool crossed_in_decode = false, chunk_over_window = false, chunk_after_decode = false;
  bool chunk_of_window = false;  ///< exactly
  bool wrapped = false, wrapped_in_batch = false, empty_row = false, diverged = false;
  bool restored_wrapped = false, restored_rewound = false;
  bool rewound_to_nothing = false, rewound_by_nothing = false, rewound_beside_others = false;
  bool saved_straight_after_copy = false;  ///< a fork or a reordering, no call in between
};

class CourseReader {
 public:
  explicit CourseReader(int window) : window_(window) {}

  Course read(const std::vector<Call>& calls) {
    for (const Call& call : calls) follow(call);
    return course_;
  }

 private:
  struct Row {
    int length = 0, mark = 0;
    bool decoded = false, rewound = false;
  };

  struct Twin {
    int copy = 0, original = 0;
    bool copy_fed = false, original_fed = false;
  };

  void need(const char* capability) { course_.capabilities.insert(capability); }

  void follow(const Call& call) {
    auto& rows = sessions_[call.session];
    if (call.kind == Call::Kind::extend) copied_.erase(call.session);
    switch (call.kind) {
      case Call::Kind::score:
        return follow_score(call);
      case Call::Kind::open:
        need("cache");
        if (call.batch > 1) need("batch");
        if (call.start != 0) need("start");
        rows.assign(call.batch, {});
        course_.last_start = std::max(course_.last_start, call.start);
        course_.most_rows = std::max(course_.most_rows, call.batch);
        return;
      case Call::Kind::extend:
        return follow_extend(call, rows);
      case Call::Kind::rewind:
        return follow_rewind(call, rows);
      case Call::Kind::fork:
        need("fork");
        rows = sessions_[call.from];
        twins_.push_back({call.session, call.from});
        if (reach(rows) > 0) copied_.insert(call.session);
        return;
      case Call::Kind::reorder:
        return follow_reorder(call, rows);
      case Call::Kind::save:
        need("save");
        saved_[call.session] = rows;
        course_.saved_straight_after_copy |= copied_.count(call.session) > 0;
        return;
      case Call::Kind::restore:
        rows = saved_[call.from];
        for (const Row& row : rows) {
          if (window_ > 0 && row.mark > window_) course_.restored_wrapped = true;
          if (row.rewound) course_.restored_rewound = true;
        }
        return;
      case Call::Kind::close:
        return;
    }
  }

  void follow_score(const Call& call) {
    need("score");
    if (call.tokens.size() > 1) need("batch");
    for (const auto& row : call.tokens) {
      if (row.size() != call.tokens[0].size()) need("ragged");
      note(0, static_cast<int>(row.size()));
    }
  }

  void note(int past, int count) {
    course_.longest = std::max(course_.longest, past + count);
    course_.longest_chunk = std::max(course_.longest_chunk, count);
    if (window_ == 0) return;
    if (count > window_) course_.chunk_over_window = true;
    if (count == window_) course_.chunk_of_window = true;
    if (count == 1 && past >= window_) course_.crossed_in_decode = true;
  }

  void follow_extend(const Call& call, std::vector<Row>& rows) {
    const std::size_t known = std::min(rows.size(), call.tokens.size());
    int fed = 0;
    for (const auto& row : call.tokens) fed += !row.empty();
    if (fed > 0 && fed < static_cast<int>(call.tokens.size())) course_.empty_row = true;
    if (fed > 0) note_fed(call.session);
    for (std::size_t r = 0; r < known; ++r) {
      const int count = static_cast<int>(call.tokens[r].size());
      if (call.tokens[r].size() != call.tokens[0].size() || rows[r].length != rows[0].length) {
        need("ragged");
      }
      if (rows[r].length > 0 && count > 1) need("chunked");
      if (rows[r].decoded && count > 1) course_.chunk_after_decode = true;
      if (count == 1 && rows[r].length > 0) rows[r].decoded = true;
      note(rows[r].length, count);
      if (window_ > 0 && rows[r].length + count > window_) {
        course_.wrapped = true;
        if (known > 1) course_.wrapped_in_batch = true;
      }
    }
    for (std::size_t r = 0; r < known; ++r) {
      rows[r].length += static_cast<int>(call.tokens[r].size());
      rows[r].mark = std::max(rows[r].mark, rows[r].length);
    }
  }

  /// Copy and original both go on.
  void note_fed(int session) {
    for (Twin& twin : twins_) {
      twin.copy_fed |= twin.copy == session;
      twin.original_fed |= twin.original == session;
      course_.diverged |= twin.copy_fed && twin.original_fed;
    }
  }

  void follow_rewind(const Call& call, std::vector<Row>& rows) {
    need("rewind");
    bool some = false, others = false;
    for (std::size_t r = 0; r < std::min(rows.size(), call.numbers.size()); ++r) {
      const int length = call.numbers[r];
      const bool wrapped = window_ > 0 && rows[r].mark > window_;
      if (wrapped && length != rows[r].length && length > 0) {
        course_.margin = std::max(course_.margin, rows[r].mark - length);
      }
      if (length == 0 && rows[r].length > 0) course_.rewound_to_nothing = true;
      if (length == rows[r].length && length > 0) course_.rewound_by_nothing = true;
      if (length < rows[r].length) rows[r].rewound = some = true;
      if (length == rows[r].length && length > 0) others = true;
      rows[r].length = length;
      if (length == 0) rows[r].mark = 0;
    }
    course_.rewound_beside_others |= some && others;
  }

  void follow_reorder(const Call& call, std::vector<Row>& rows) {
    need("reorder");
    const std::vector<Row> old = rows;
    for (std::size_t r = 0; r < std::min(rows.size(), call.numbers.size()); ++r) {
      const int source = call.numbers[r];
      if (source >= 0 && source < static_cast<int>(old.size())) rows[r] = old[source];
    }
    if (reach(rows) > 0) copied_.insert(call.session);
  }

  static int reach(const std::vector<Row>& rows) {
    int longest = 0;
    for (const Row& row : rows) longest = std::max(longest, row.length);
    return longest;
  }

  int window_;
  Course course_;
  std::map<int, std::vector<Row>> sessions_, saved_;
  std::vector<Twin> twins_;
  std::set<int> copied_;  ///< sessions on which no call has computed since
};

int window_of(const ModelConfig& config) {
  const bool slides =
      std::count(config.layer_types.begin(), config.layer_types.end(), AttentionType::sliding) > 0;
  return slides ? config.sliding_window : 0;
}

Course course_of(const Case& test_case, const ModelConfig& config) {
  return CourseReader(window_of(config)).read(test_case.calls);
}

constexpr int kCommon = 16;

/// The classes that one family has, and how rare they are.
const std::map<std::string, int>& family_classes() {
  static const std::map<std::string, int> classes = {
      {"gemma4: experts", kCommon},
      {"gemma4: two head sizes", 70},
      {"gemma4: values from keys", kCommon},
      {"gemma4: partial rotary", kCommon},
      {"gemma3n: activation sparsity", kCommon},
      {"gemma3n: smaller per-layer vocabulary", kCommon}};
  return classes;
}

bool shares_of_type(const std::vector<LayerPlan>& plan, AttentionType type) {
  return std::any_of(plan.begin(), plan.end(),
                     [type](const LayerPlan& l) { return !l.owns_keys() && l.type == type; });
}

/// A hard class that both families have, what a subject needs for it, and how rare it is: of the
/// cases compared on a subject, one in so many at least, whatever else the subject can do.
struct HardClass {
  const char* name;
  std::vector<std::string> needs;
  int one_in = kCommon;
};

const std::vector<HardClass>& hard_classes() {
  static const std::vector<HardClass> classes = {
      {"window crossed", {}},
      {"window crossed in decode", {"cache"}, 30},
      {"ring wrapped", {"cache"}},
      {"chunk longer than the window", {}},
      {"chunk as long as the window", {}, 80},
      {"window of one", {}, 65},
      {"chunk after decode", {"cache", "chunked"}, 55},
      {"several chunks", {"cache", "chunked"}},
      {"batch of unequal rows", {"batch", "ragged"}},
      {"batch of four rows or more", {"cache", "batch", "ragged"}, 160},
      {"no layer shared", {}},
      {"layers shared", {}},
      {"both attention types shared", {}, 160},
      {"several key/value heads shared", {}},
      {"all but one layer shared", {}, 20},
      {"explicit sharing map", {"sharing_map"}},
      {"owner not adjacent", {}},
      {"heads 6 over 2 or 3", {}},
      {"soft cap", {}},
      {"rewind", {"cache", "rewind"}, 45},
      {"rewind to nothing", {"cache", "rewind"}, 70},
      {"rewind by nothing", {"cache", "rewind"}, 120},
      {"row rewound beside others", {"cache", "batch", "ragged", "rewind"}, 250},
      {"fork, reorder or save", {"cache", "fork", "reorder", "save"}, 20},
      {"rewind past the wrap", {"cache", "rewind"}, 80},
      {"window wrapped in a batch", {"cache", "batch", "ragged"}, 20},
      {"batch with an empty row", {"cache", "batch", "ragged"}, 20},
      {"fork, then both go on", {"cache", "fork"}, 65},
      {"save straight after a fork or reordering", {"cache", "fork", "reorder", "save"}, 250},
      {"restore after the wrap", {"cache", "save"}, 130},
      {"restore after a rewind", {"cache", "save", "rewind"}, 250},
      {"position near 2^8 or later", {"cache", "start"}, 70},
      {"position near 2^11 or later", {"cache", "start"}, 80},
      {"position near 2^14 or later", {"cache", "start"}, 95},
      {"position near 2^17", {"cache", "start"}, 220}};
  return classes;
}

}  // namespace

std::set<std::string> needed_capabilities(const Case& test_case, const ModelConfig& config) {
  std::set<std::string> needed = course_of(test_case, config).capabilities;
  if (config.kv_sharing_map) needed.insert("sharing_map");
  return needed;
}

int needed_margin(const Case& test_case, const ModelConfig& config) {
  return course_of(test_case, config).margin;
}

std::string missing_for(const Case& test_case, const ModelConfig& config, const SubjectInfo& info) {
  std::vector<std::string> missing;
  if (!info.families.count(to_string(config.family))) missing.push_back(to_string(config.family));
  for (const std::string& name : needed_capabilities(test_case, config)) {
    if (!info.capabilities.count(name)) missing.push_back(name);
  }
  return fmt::format("{}", fmt::join(missing, ", "));
}

std::set<std::string> coverage_classes(const Case& test_case, const ModelConfig& config) {
  const Course course = course_of(test_case, config);
  const std::vector<LayerPlan> plan = plan_layers(config);
  const int window = window_of(config);
  const auto consumers =
      std::count_if(plan.begin(), plan.end(), [](const LayerPlan& l) { return !l.owns_keys(); });
  const bool distant = std::any_of(plan.begin(), plan.end(), [](const LayerPlan& l) {
    return !l.owns_keys() && l.owner < l.layer - 1;
  });
  const std::string family = config.family == Family::gemma3n ? "gemma3n: " : "gemma4: ";
  std::set<std::string> classes;
  const auto add = [&](bool met, const char* name) {
    if (met) classes.insert(family + name);
  };
  const auto has = [&](const char* name) { return course.capabilities.count(name) > 0; };
  add(window > 0 && course.longest > window, "window crossed");
  add(course.crossed_in_decode, "window crossed in decode");
  add(course.wrapped, "ring wrapped");
  add(course.chunk_over_window, "chunk longer than the window");
  add(course.chunk_of_window, "chunk as long as the window");
  add(window == 1, "window of one");
  add(course.chunk_after_decode, "chunk after decode");
  add(has("chunked"), "several chunks");
  add(has("ragged"), "batch of unequal rows");
  add(course.most_rows >= 4, "batch of four rows or more");
  add(consumers == 0, "no layer shared");
  add(consumers > 0, "layers shared");
  add(shares_of_type(plan, AttentionType::full) && shares_of_type(plan, AttentionType::sliding),
      "both attention types shared");
  add(std::any_of(plan.begin(), plan.end(),
                  [](const LayerPlan& l) { return !l.owns_keys() && l.key_value_heads > 1; }),
      "several key/value heads shared");
  add(consumers > 0 && consumers == config.num_layers - 1, "all but one layer shared");
  add(config.kv_sharing_map.has_value() && consumers > 0, "explicit sharing map");
  add(distant, "owner not adjacent");
  add(config.num_attention_heads == 6, "heads 6 over 2 or 3");
  add(config.final_logit_softcapping.has_value(), "soft cap");
  add(has("rewind"), "rewind");
  add(course.rewound_to_nothing, "rewind to nothing");
  add(course.rewound_by_nothing, "rewind by nothing");
  add(course.rewound_beside_others, "row rewound beside others");
  add(has("fork") || has("reorder") || has("save"), "fork, reorder or save");
  add(course.margin > 0, "rewind past the wrap");
  add(course.wrapped_in_batch, "window wrapped in a batch");
  add(course.empty_row, "batch with an empty row");
  add(course.diverged, "fork, then both go on");
  add(course.saved_straight_after_copy, "save straight after a fork or reordering");
  add(course.restored_wrapped, "restore after the wrap");
  add(course.restored_rewound, "restore after a rewind");
  const auto starts_near = [&](int position) { return course.last_start > position - 16; };
  add(starts_near(1 << 8), "position near 2^8 or later");
  add(starts_near(1 << 11), "position near 2^11 or later");
  add(starts_near(1 << 14), "position near 2^14 or later");
  add(starts_near(1 << 17), "position near 2^17");
  const auto family_class = [&](bool met, const char* name) {
    if (met) classes.insert(name);
  };
  const auto differ = [](const auto& list) {
    return std::adjacent_find(list.begin(), list.end(), std::not_equal_to<>()) != list.end();
  };
  if (config.family == Family::gemma4) {
    family_class(config.enable_moe_block, "gemma4: experts");
    family_class(differ(config.head_dims), "gemma4: two head sizes");
    family_class(config.attention_k_eq_v, "gemma4: values from keys");
    family_class(config.full_rope.partial_rotary_factor < 1, "gemma4: partial rotary");
  } else {
    family_class(std::any_of(config.activation_sparsity.begin(), config.activation_sparsity.end(),
                             [](double s) { return s > 0; }),
                 "gemma3n: activation sparsity");
    family_class(config.vocab_size_per_layer_input < config.vocab_size,
                 "gemma3n: smaller per-layer vocabulary");
  }
  return classes;
}

bool can_meet(const std::string& coverage_class, const SubjectInfo& info) {
  const std::size_t colon = coverage_class.find(": ");
  if (!info.families.count(coverage_class.substr(0, colon) + "_text")) return false;
  const std::string name = coverage_class.substr(colon + 2);
  if (name == "rewind past the wrap" && info.margin < SessionLives::kRewindMargin) return false;
  for (const HardClass& hard : hard_classes()) {
    if (name != hard.name) continue;
    return std::all_of(hard.needs.begin(), hard.needs.end(),
                       [&](const std::string& need) { return info.capabilities.count(need) > 0; });
  }
  return true;  // classes of one family's models need nothing more
}

int one_case_in(const std::string& coverage_class) {
  const auto found = family_classes().find(coverage_class);
  if (found != family_classes().end()) return found->second;
  const std::string name = coverage_class.substr(coverage_class.find(": ") + 2);
  for (const HardClass& hard : hard_classes()) {
    if (name == hard.name) return hard.one_in;
  }
  return kCommon;
}

std::set<std::string> all_coverage_classes() {
  std::set<std::string> classes;
  for (const auto& [name, one_in] : family_classes()) classes.insert(name);
  for (const HardClass& hard : hard_classes()) {
    classes.insert(std::string("gemma3n: ") + hard.name);
    classes.insert(std::string("gemma4: ") + hard.name);
  }
  return classes;
}

}  // namespace kvconform
