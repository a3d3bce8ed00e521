// The allow-list of fields without effect on text inference, see harmless_fields.h.
// Sources: transformers 4.53 to 5.24, PretrainedConfig.to_dict and the configurations of both
// families.
#include "reference/harmless_fields.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "reference/error.h"

namespace kvconform {
namespace {

using nlohmann::json;

constexpr const char* generation = "only a default of text generation";
constexpr const char* bookkeeping = "a record of where the file comes from";
constexpr const char* outputs = "only chooses what a call returns";
constexpr const char* training = "training only";
constexpr const char* classification = "only for classification heads";
constexpr const char* kernels = "only chooses an implementation of the same maths";

struct Harmless {
  const char *name, *reason;
};

constexpr std::array harmless{
    Harmless{"architectures", bookkeeping},
    Harmless{"transformers_version", bookkeeping},
    Harmless{"_name_or_path", bookkeeping},
    Harmless{"name_or_path", bookkeeping},
    Harmless{"_commit_hash", bookkeeping},
    Harmless{"unsloth_fixed", bookkeeping},
    Harmless{"unsloth_version", bookkeeping},
    Harmless{"tokenizer_class", "only names the tokenizer"},
    Harmless{"dtype", "each tensor of the checkpoint says its own number format"},
    Harmless{"torch_dtype", "each tensor of the checkpoint says its own number format"},
    Harmless{"use_bfloat16", "each tensor of the checkpoint says its own number format"},
    Harmless{"use_cache", "a cache must not change the logits; both ways are tested"},
    Harmless{"cache_implementation", "a cache must not change the logits; both ways are tested"},
    Harmless{"max_position_embeddings",
             "rotary frequencies do not depend on it and no length is cut"},
    Harmless{"query_pre_attn_scalar", "scores have scale 1 in these families"},
    Harmless{"attn_logit_softcapping", "scores are not capped in these families"},
    Harmless{"initializer_range", training},
    Harmless{"attention_dropout", training},
    Harmless{"torchscript", kernels},
    Harmless{"attn_implementation", kernels},
    Harmless{"_attn_implementation", kernels},
    Harmless{"_attn_implementation_autoset", kernels},
    Harmless{"_attn_implementation_internal", kernels},
    Harmless{"experts_implementation", kernels},
    Harmless{"_experts_implementation", kernels},
    Harmless{"chunk_size_feed_forward", kernels},
    Harmless{"tf_legacy_loss", training},
    Harmless{"return_dict", outputs},
    Harmless{"output_attentions", outputs},
    Harmless{"output_hidden_states", outputs},
    Harmless{"output_scores", outputs},
    Harmless{"return_dict_in_generate", outputs},
    Harmless{"id2label", classification},
    Harmless{"label2id", classification},
    Harmless{"num_labels", classification},
    Harmless{"problem_type", classification},
    Harmless{"finetuning_task", classification},
    Harmless{"classifier_dropout", classification},
    Harmless{"task_specific_params", generation},
    Harmless{"prefix", generation},
    Harmless{"is_decoder", "these families have no encoder"},
    Harmless{"tie_encoder_decoder", "these families have no encoder"},
    Harmless{"max_length", generation},
    Harmless{"min_length", generation},
    Harmless{"do_sample", generation},
    Harmless{"early_stopping", generation},
    Harmless{"num_beams", generation},
    Harmless{"num_beam_groups", generation},
    Harmless{"diversity_penalty", generation},
    Harmless{"temperature", generation},
    Harmless{"top_k", generation},
    Harmless{"top_p", generation},
    Harmless{"typical_p", generation},
    Harmless{"repetition_penalty", generation},
    Harmless{"length_penalty", generation},
    Harmless{"no_repeat_ngram_size", generation},
    Harmless{"encoder_no_repeat_ngram_size", generation},
    Harmless{"bad_words_ids", generation},
    Harmless{"num_return_sequences", generation},
    Harmless{"remove_invalid_values", generation},
    Harmless{"exponential_decay_length_penalty", generation},
    Harmless{"suppress_tokens", generation},
    Harmless{"begin_suppress_tokens", generation},
};

constexpr std::array other_towers{
    Harmless{"vision_config", "another tower; text only"},
    Harmless{"audio_config", "another tower; text only"},
    Harmless{"vision_soft_tokens_per_image", "another tower; text only"},
    Harmless{"audio_soft_tokens_per_image", "another tower; text only"},
    Harmless{"processor_class", "only names the processor"},
};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// bos_token_id, image_token_id, eoa_token_index, forced_eos_token_id, ...
bool is_token_id(const std::string& name) {
  return ends_with(name, "_token_id") || ends_with(name, "_token_ids") ||
         ends_with(name, "_token_index");
}

void ignore_token_ids(Fields& fields) {
  for (const std::string& name : fields.names()) {
    if (is_token_id(name)) fields.ignore(name, "names a special token; none is treated specially");
  }
}

// A field of the text configuration that stands on the outer level too: equal, or refused.
void ignore_repeated(Fields& outer, const json& text_config, const std::string& name) {
  if (name == "model_type" || !text_config.is_object() || !text_config.contains(name)) return;
  const json* value = outer.find(name);
  // Only scalars are compared: comparing nested values would recurse.
  if (value->is_primitive() && *value == text_config.at(name)) {
    outer.note(name, "repeats text_config." + name);
    return;
  }
  throw Error("KV1012",
              fmt::format("{} is {} outside and {} inside text_config", name, shown(*value),
                          shown(text_config.at(name))),
              "keep the one inside text_config");
}

void require_value(Fields& fields, const char* name, const std::vector<json>& allowed,
                   const char* remedy) {
  const json* value = fields.find(name);
  if (value == nullptr) return;
  for (const json& good : allowed) {
    if (*value == good) return;
  }
  throw Error(
      "KV1010",
      fmt::format("{} is {}, which is not supported", fields.full_name(name), shown(*value)),
      remedy);
}

}  // namespace

void ignore_harmless_fields(Fields& fields) {
  for (const Harmless& field : harmless) fields.ignore(field.name, field.reason);
  ignore_token_ids(fields);
}

void ignore_outer_fields(Fields& outer, const json& text_config) {
  for (const Harmless& field : other_towers) outer.ignore(field.name, field.reason);
  for (const Harmless& field : harmless) outer.ignore(field.name, field.reason);
  ignore_token_ids(outer);
  for (const std::string& name : outer.names()) {
    if (!outer.was_read(name)) ignore_repeated(outer, text_config, name);
  }
}

void refuse_unsupported_values(Fields& fields, bool bidirectional) {
  const json null;
  const char* activation = "only gelu_pytorch_tanh is supported";
  require_value(fields, "hidden_activation", {"gelu_pytorch_tanh"}, activation);
  require_value(fields, "hidden_act", {"gelu_pytorch_tanh"}, activation);
  const char* plain_weights = "use the unquantized checkpoint (float32, bfloat16 or float16)";
  require_value(fields, "quantization_config", {null}, plain_weights);
  require_value(fields, "quantization", {null}, plain_weights);
  require_value(fields, "compression_config", {null}, plain_weights);
  require_value(fields, "auto_map", {null},
                "a model with code of its own cannot be tested from its config");
  const char* decoder_only = "only decoders are supported";
  require_value(fields, "is_encoder_decoder", {false, null}, decoder_only);
  require_value(fields, "add_cross_attention", {false, null}, decoder_only);
  require_value(fields, "cross_attention_hidden_size", {null}, decoder_only);
  require_value(fields, "pruned_heads", {null, json::object(), json::array()},
                "use the unpruned model");
  require_value(fields, "is_causal", {!bidirectional, null},
                "causal attention is chosen by use_bidirectional_attention alone");
}

}  // namespace kvconform
