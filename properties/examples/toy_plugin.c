/* The smallest plugin, in C: what to start from. It offers `score` alone, and its "model" looks at nothing but the
 * token itself, so that the first failures are easy to read: causality holds, agreement with the model does not.
 *
 *     cc -shared -fPIC -I properties properties/examples/toy_plugin.c -o toy.so
 *     kvconform check --subject plugin:toy.so
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

typedef struct toy_model {
  int32_t vocab_size;
} toy_model;

static int refuse(kv_message* message, int status, const char* text) {
  snprintf(message->text, message->size, "%s", text);
  return status;
}

/* Number behind "name": in a JSON text; an engine of yours has a parser. */
static int32_t number_in(const char* json, const char* name) {
  const char* at = strstr(json, name);
  return at == NULL ? 0 : (int32_t)strtol(at + strlen(name), NULL, 10);
}

static int load(const char* config, const char* weights, void** model, int32_t* vocab_size, int32_t* layers,
                kv_message* message) {
  (void)weights;
  toy_model* made = malloc(sizeof *made);
  if (made == NULL) return refuse(message, KV_FAILED, "out of memory");
  made->vocab_size = number_in(config, "\"vocab_size\":");
  *vocab_size = made->vocab_size;
  *layers = number_in(config, "\"num_hidden_layers\":");
  *model = made;
  return KV_OK;
}

static void unload(void* model) { free(model); }

static int score(void* model, const kv_tokens* tokens, kv_output* output, kv_message* message) {
  const int32_t vocab_size = ((toy_model*)model)->vocab_size;
  int64_t position = 0;
  for (int32_t row = 0; row < tokens->rows; ++row) {
    for (int32_t i = 0; i < tokens->counts[row]; ++i, ++position) {
      const int32_t token = tokens->ids[position];
      if (token < 0 || token >= vocab_size) return refuse(message, KV_INVALID, "no such token");
      for (int32_t v = 0; v < vocab_size; ++v)
        output->logits[position * vocab_size + v] = (float)((token + v) % vocab_size);
    }
  }
  return KV_OK;
}

const kv_plugin* kvconform_plugin(void) {
  static const kv_plugin plugin = {
      .version = KVCONFORM_PLUGIN_VERSION,
      .name = "toy",
      .release = "1",
      .families = "gemma3n_text gemma4_text",
      .dtype = "float32",
      .capabilities = "score batch ragged",
      .granularity = 1,
      .load = load,
      .unload = unload,
      .score = score,
  };
  return &plugin;
}
