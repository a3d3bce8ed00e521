// Reads the rotary position embeddings of both families, see rope_config.h.
// Frequencies themselves are computed elsewhere; here only which formula and with which numbers.
#include "reference/rope_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reference/error.h"

namespace kvconform {
namespace {

using nlohmann::json;

constexpr NumberRange theta_range{1e-6, 1e30};
constexpr NumberRange factor_range{1e-6, 1e6};

Rope::Kind rope_kind(const std::string& name, const std::string& value) {
  if (value == "default") return Rope::Kind::plain;
  if (value == "linear") return Rope::Kind::linear;
  if (value == "proportional") return Rope::Kind::proportional;
  throw Error(
      "KV1011", fmt::format("{} is {}", name, shown(json(value))),
      "use a model with rotary type default, linear or proportional; others are not supported");
}

// The type may be spelled rope_type or, in old files, type.
Rope::Kind read_kind(Fields& entry) {
  const bool old_name = entry.has("type");
  if (old_name && entry.has("rope_type") && entry.text("type", "") != entry.text("rope_type", "")) {
    throw Error(
        "KV1012",
        fmt::format("{} and {} differ", entry.full_name("rope_type"), entry.full_name("type")),
        "keep rope_type alone");
  }
  const char* name = old_name ? "type" : "rope_type";
  return rope_kind(entry.full_name(name), entry.text(name, "default"));
}

// A value that the formula of this kind does not use must be the neutral one.
void require_neutral(Fields& entry, const char* name, double value, const char* kind) {
  if (value == 1.0) return;
  throw Error("KV1011",
              fmt::format("{} is {}, but rotary type {} does not use it", entry.full_name(name),
                          value, kind),
              "remove the field, or name the rotary type that uses it");
}

void read_factors(Fields& entry, Rope& rope) {
  const double factor = entry.number("factor", 1.0, factor_range);
  const double share = entry.number("partial_rotary_factor", 1.0, {0.0, 1.0});
  if (rope.kind == Rope::Kind::plain) require_neutral(entry, "factor", factor, "default");
  if (rope.kind == Rope::Kind::linear && !entry.has("factor")) {
    throw Error("KV1011", entry.full_name("factor") + " is missing for rotary type linear",
                "give the factor by which positions are stretched");
  }
  if (rope.kind != Rope::Kind::proportional) {
    require_neutral(entry, "partial_rotary_factor", share, "default or linear");
  }
  rope.factor = factor;
  rope.partial_rotary_factor = share;
}

Rope read_entry(const json& object, const std::string& prefix, double theta) {
  Fields entry(object, prefix);
  Rope rope;
  rope.kind = read_kind(entry);
  rope.theta = entry.number("rope_theta", theta, theta_range);
  read_factors(entry, rope);
  entry.refuse_unknown();
  return rope;
}

struct Thetas {
  double full, sliding;
};

// Gemma 3n before rope_parameters: two bases, and scaling for the full layers only.
void read_old_spelling(Fields& fields, Thetas thetas, Rope& full, Rope& sliding) {
  sliding = Rope{};
  sliding.theta = thetas.sliding;
  full = Rope{};
  full.theta = thetas.full;
  if (fields.has_value("rope_scaling")) {
    full = read_entry(*fields.find("rope_scaling"), fields.full_name("rope_scaling."), thetas.full);
  }
}

[[noreturn]] void refuse_contradiction(Fields& fields, const char* old_key) {
  throw Error("KV1012",
              fmt::format("{} contradicts {}", fields.full_name(old_key),
                          fields.full_name("rope_parameters")),
              "keep rope_parameters alone");
}

void check_old_keys_agree(Fields& fields, Thetas thetas, const Rope& full, const Rope& sliding) {
  if (fields.has("rope_theta") && thetas.full != full.theta) {
    refuse_contradiction(fields, "rope_theta");
  }
  if (fields.has("rope_local_base_freq") && thetas.sliding != sliding.theta) {
    refuse_contradiction(fields, "rope_local_base_freq");
  }
  if (fields.has_value("rope_scaling")) {
    Rope old_full, old_sliding;
    read_old_spelling(fields, thetas, old_full, old_sliding);
    if (!(old_full == full)) refuse_contradiction(fields, "rope_scaling");
  }
}

bool occurs(const ModelConfig& config, AttentionType type) {
  return std::count(config.layer_types.begin(), config.layer_types.end(), type) != 0;
}

// Gemma 4 has no fallback for a missing entry or a missing base: transformers fails late there.
Rope read_required_entry(Fields& entries, AttentionType type, const ModelConfig& config,
                         Rope fallback) {
  const std::string name = to_string(type);
  if (!entries.has_value(name)) {
    if (!occurs(config, type)) return fallback;
    throw Error("KV1011", fmt::format("{} is missing", entries.full_name(name)),
                "give rope_type and rope_theta of every attention type that occurs");
  }
  const json& entry = *entries.find(name);
  if (entry.is_object() && !entry.contains("rope_theta")) {
    throw Error("KV1011", fmt::format("{}.rope_theta is missing", entries.full_name(name)),
                "give the base of the rotary frequencies");
  }
  return read_entry(entry, entries.full_name(name) + ".", fallback.theta);
}

}  // namespace

void read_gemma3n_ropes(Fields& fields, ModelConfig& config) {
  const Thetas thetas{fields.number("rope_theta", 1e6, theta_range),
                      fields.number("rope_local_base_freq", 1e4, theta_range)};
  read_old_spelling(fields, thetas, config.full_rope, config.sliding_rope);
  if (!fields.has_value("rope_parameters")) return;

  Fields entries(*fields.find("rope_parameters"), fields.full_name("rope_parameters."));
  Rope full, sliding;  // an entry that is missing: the plain formula with the family's base
  full.theta = thetas.full;
  sliding.theta = thetas.sliding;
  if (entries.has_value("full_attention")) {
    full = read_entry(*entries.find("full_attention"), entries.full_name("full_attention."),
                      full.theta);
  }
  if (entries.has_value("sliding_attention")) {
    sliding = read_entry(*entries.find("sliding_attention"),
                         entries.full_name("sliding_attention."), sliding.theta);
  }
  entries.refuse_unknown();
  check_old_keys_agree(fields, thetas, full, sliding);
  config.full_rope = full;
  config.sliding_rope = sliding;
}

void read_gemma4_ropes(Fields& fields, ModelConfig& config) {
  config.sliding_rope = Rope{Rope::Kind::plain, 1e4, 1.0, 1.0};
  config.full_rope = Rope{Rope::Kind::proportional, 1e6, 1.0, 0.25};
  if (!fields.has_value("rope_parameters")) return;

  Fields entries(*fields.find("rope_parameters"), fields.full_name("rope_parameters."));
  config.sliding_rope =
      read_required_entry(entries, AttentionType::sliding, config, config.sliding_rope);
  config.full_rope = read_required_entry(entries, AttentionType::full, config, config.full_rope);
  entries.refuse_unknown();
}

}  // namespace kvconform
