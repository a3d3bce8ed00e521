// From the JSON of a config.json to a ModelConfig: which family, nested or flat, and the fields
// that both families share. What is special to one stands in gemma3n_config.cpp and
// gemma4_config.cpp.
#include "reference/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reference/error.h"
#include "reference/family_config.h"
#include "reference/harmless_fields.h"

namespace kvconform {
namespace {

using nlohmann::json;

[[noreturn]] void refuse_model_type(const std::string& name, const std::string& problem) {
  throw Error("KV1004", name + problem, "use a gemma3n, gemma3n_text, gemma4 or gemma4_text model");
}

Family family_of(const std::string& name, const std::string& model_type) {
  if (model_type == "gemma3n" || model_type == "gemma3n_text") return Family::gemma3n;
  if (model_type == "gemma4" || model_type == "gemma4_text") return Family::gemma4;
  refuse_model_type(name, fmt::format(" is {}, which is not supported", shown(json(model_type))));
}

AttentionType attention_type(const std::string& name, const std::string& value) {
  if (value == "sliding_attention") return AttentionType::sliding;
  if (value == "full_attention") return AttentionType::full;
  throw Error("KV1009", fmt::format("{} is {}", name, shown(json(value))),
              "a layer type is sliding_attention or full_attention");
}

void read_layer_types(Fields& fields, ModelConfig& config, int period) {
  if (fields.has_value("layer_types")) {
    for (const std::string& type : fields.texts("layer_types", config.num_layers)) {
      const std::string entry = fmt::format("layer_types[{}]", config.layer_types.size());
      config.layer_types.push_back(attention_type(fields.full_name(entry), type));
    }
    fields.ignore("sliding_window_pattern", "layer_types is given");
    fields.ignore("_sliding_window_pattern", "layer_types is given");
    return;
  }
  for (int i = 0; i < config.num_layers; ++i) {
    config.layer_types.push_back((i + 1) % period == 0 ? AttentionType::full
                                                       : AttentionType::sliding);
  }
}

void read_softcap(Fields& fields, ModelConfig& config, const double* fallback) {
  if (fallback != nullptr) config.final_logit_softcapping = *fallback;
  const json* given = fields.find("final_logit_softcapping");
  if (given == nullptr) return;
  config.final_logit_softcapping.reset();
  if (given->is_null()) return;
  config.final_logit_softcapping =
      fields.number("final_logit_softcapping", 0.0, {0.0, 1e30, true});  // z / c
}

void read_sharing(Fields& fields, ModelConfig& config, int fallback) {
  // The plan judges S, with an id for each rule; here it need only be an integer.
  config.num_kv_shared_layers =
      fields.integer("num_kv_shared_layers", fallback, {INT32_MIN, INT32_MAX});
  if (!fields.has_value("kv_sharing_map")) return;
  const json& map = *fields.find("kv_sharing_map");
  if (!map.is_array() || map.size() > static_cast<std::size_t>(layer_count_range.high)) {
    throw Error("KV1006", fmt::format("{} is {}", fields.full_name("kv_sharing_map"), shown(map)),
                "give a list with the number of the owning layer for each layer");
  }
  config.kv_sharing_map =
      fields.integers("kv_sharing_map", static_cast<int>(map.size()), {INT32_MIN, INT32_MAX});
  if (fields.has("num_kv_shared_layers")) {
    fields.note("num_kv_shared_layers", "kv_sharing_map is given and decides alone");
  }
  config.num_kv_shared_layers = 0;
}

void check_heads(const Fields& fields, const ModelConfig& config) {
  for (int i = 0; i < config.num_layers; ++i) {
    const int kv_heads = config.key_value_heads[i], head_dim = config.head_dims[i];
    if (config.num_attention_heads % kv_heads != 0) {
      throw Error(
          "KV1013",
          fmt::format("layer {} has {} query heads over {} key/value heads", i,
                      config.num_attention_heads, kv_heads),
          fields.full_name("num_attention_heads") + " must be a multiple of the key/value heads");
    }
    if (head_dim % 2 != 0) {
      throw Error("KV1014", fmt::format("layer {} has head size {}, an odd number", i, head_dim),
                  "give an even head size: rotary position embedding turns pairs");
    }
  }
}

// Products that index rows of one tensor; they must fit an int everywhere.
void check_product(const char* what, std::int64_t a, std::int64_t b) {
  constexpr std::int64_t largest = std::int64_t{1} << 30;
  if (a * b <= largest) return;
  throw Error("KV1018", fmt::format("{} is {} x {} = {}", what, a, b, a * b),
              fmt::format("give sizes whose product is at most {}", largest));
}

void check_products(const ModelConfig& config) {
  const int widest = *std::max_element(config.head_dims.begin(), config.head_dims.end());
  check_product("layers times per-layer input width", config.num_layers,
                config.hidden_size_per_layer_input);
  check_product("query heads times head size", config.num_attention_heads, widest);
  check_product("experts times expert width", config.num_experts, config.moe_intermediate_size);
}

ModelConfig read_text_config(Fields& fields, Family family) {
  ModelConfig config;
  config.family = family;
  if (family == Family::gemma3n) {
    read_gemma3n(fields, config);
  } else {
    read_gemma4(fields, config);
  }
  check_heads(fields, config);
  check_products(config);
  refuse_unsupported_values(fields, config.bidirectional_all);
  ignore_harmless_fields(fields);
  fields.refuse_unknown();
  config.ignored = fields.ignored();
  return config;
}

ModelConfig read_flat(Fields& fields) {
  if (!fields.has("model_type")) refuse_model_type("model_type", " is missing");
  const std::string model_type = fields.text("model_type", "");
  const Family family = family_of("model_type", model_type);
  if (model_type != to_string(family)) {
    refuse_model_type("model_type", fmt::format(" is {}, but text_config is missing", model_type));
  }
  return read_text_config(fields, family);
}

Family nested_family(Fields& outer, Fields& text) {
  const bool outside = outer.has("model_type"), inside = text.has("model_type");
  if (!outside && !inside) refuse_model_type("model_type", " is missing");
  const std::string inner_type = text.text("model_type", "");
  const std::string outer_type = outer.text("model_type", "");
  if (!outside) return family_of("text_config.model_type", inner_type);
  const Family family = family_of("model_type", outer_type);
  if (inside && inner_type != to_string(family)) {
    refuse_model_type("text_config.model_type",
                      fmt::format(" is {} inside a {} model", shown(json(inner_type)), outer_type));
  }
  return family;
}

// Both levels of a multimodal configuration may say whether the head is tied; if only the outer
// does, it holds. Two different answers are refused by the check for repeated fields.
bool tied_outside(Fields& outer, const json& text_config, bool fallback) {
  if (text_config.contains("tie_word_embeddings")) return fallback;
  return outer.boolean("tie_word_embeddings", fallback);
}

ModelConfig read_nested(Fields& outer) {
  const json& inner = *outer.find("text_config");
  Fields text(inner, "text_config.");
  const Family family = nested_family(outer, text);
  refuse_unsupported_values(outer, false);
  ModelConfig config = read_text_config(text, family);
  config.tie_word_embeddings = tied_outside(outer, inner, config.tie_word_embeddings);
  ignore_outer_fields(outer, inner);
  outer.refuse_unknown(
      "move the field into text_config if it belongs to the text model, or remove it");
  config.ignored.insert(config.ignored.end(), outer.ignored().begin(), outer.ignored().end());
  return config;
}

}  // namespace

void read_common(Fields& fields, ModelConfig& config, const SizeDefaults& defaults, int period) {
  config.vocab_size = fields.integer("vocab_size", defaults.vocab_size, size_range);
  config.hidden_size = fields.integer("hidden_size", defaults.hidden_size, size_range);
  config.num_layers = fields.integer("num_hidden_layers", defaults.num_layers, layer_count_range);
  config.num_attention_heads =
      fields.integer("num_attention_heads", defaults.num_attention_heads, head_count_range);
  config.hidden_size_per_layer_input =
      fields.integer("hidden_size_per_layer_input", 256, size_or_none_range);
  config.vocab_size_per_layer_input =
      fields.integer("vocab_size_per_layer_input", defaults.vocab_size_per_layer_input,
                     config.hidden_size_per_layer_input == 0 ? size_or_none_range : size_range);
  config.rms_norm_eps = fields.number("rms_norm_eps", 1e-6, {1e-30, 1.0});
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings", true);
  config.attention_bias = fields.boolean("attention_bias", false);
  read_layer_types(fields, config, period);
  read_softcap(fields, config, defaults.softcap);
  read_sharing(fields, config, defaults.num_kv_shared_layers);
}

// Windows matter only where something slides; a model of full layers may say anything.
void read_window(Fields& fields, ModelConfig& config) {
  const bool slides =
      std::count(config.layer_types.begin(), config.layer_types.end(), AttentionType::sliding) != 0;
  if (!slides) {
    fields.ignore("sliding_window", "no layer slides");
    return;
  }
  const json* given = fields.find("sliding_window");
  if (given != nullptr && given->is_null()) {
    throw Error("KV1016", fields.full_name("sliding_window") + " is null, but layers slide",
                "give a window of at least 1");
  }
  if (given != nullptr && given->is_number_integer() && *given < 1)
    throw Error("KV1016",
                fmt::format("{} is {}", fields.full_name("sliding_window"), given->dump()),
                "give a window of at least 1: a token sees itself");
  config.sliding_window = fields.integer("sliding_window", 512, {1, 1 << 30});
}

ModelConfig parse_model_config(const json& config) {
  Fields fields(config, "");
  return fields.has("text_config") ? read_nested(fields) : read_flat(fields);
}

const char* to_string(Family family) {
  return family == Family::gemma3n ? "gemma3n_text" : "gemma4_text";
}

const char* to_string(AttentionType type) {
  return type == AttentionType::sliding ? "sliding_attention" : "full_attention";
}

}  // namespace kvconform
