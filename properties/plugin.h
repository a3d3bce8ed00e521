/* An engine under test as a shared library: `kvconform check --subject plugin:./my_engine.so`.
 *
 * The library exports one function, kvconform_plugin(), which returns a table of functions. They
 * are the requests of the subject protocol (subject-protocol.md), with its words and rules; a
 * function that is NULL is not offered. kvconform loads the library in a process of its own, so
 * that a crash or a hang costs one case and is reported as such. Calls come one at a time, from one
 * thread.
 *
 * Plain C: no exception may leave a function, and nothing here changes within a version. Build the
 * library with
 *
 *     cc -shared -fPIC -I FOLDER_OF_THIS_FILE my_engine.c -o my_engine.so
 *
 * examples/toy_plugin.c and examples/sessions_plugin.cpp are complete.
 */
#ifndef KVCONFORM_PLUGIN_H
#define KVCONFORM_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVCONFORM_PLUGIN_VERSION 1

/* What functions return. With all but KV_OK a message says more. */
enum {
  KV_OK = 0,
  KV_UNSUPPORTED = 1, /* not offered: never a failure by itself */
  KV_INVALID = 2,     /* bad input, refused as it should be; nothing has changed */
  KV_FAILED = 3       /* the engine broke */
};

/* Room for a message: write at most `size` bytes with the final 0. */
typedef struct kv_message {
  char* text;
  size_t size;
} kv_message;

/* Rows of token ids, one after the other: row r has counts[r] of them, perhaps none. */
typedef struct kv_tokens {
  int32_t rows;
  const int32_t* counts;
  const int32_t* ids;
} kv_tokens;

/* Where results go. */
typedef struct kv_output {
  float* logits; /* [all counts together, vocab_size], rows in order */
  /* NULL unless a trace is wanted. Call it for each array, in the order of computation, e.g.
   * trace(context, "layer.0.output", values, shape, 2); shape[0] is the number of positions. */
  void (*trace)(void* context, const char* name, const float* values, const int64_t* shape,
                int32_t rank);
  void* context;
} kv_output;

/* One layer of a cache report. */
typedef struct kv_cache_layer {
  const char* role; /* "producer", "consumer" or "independent" */
  int32_t owner;
  int64_t positions, bytes;
} kv_cache_layer;

typedef struct kv_plugin {
  uint32_t version;         /* KVCONFORM_PLUGIN_VERSION */
  const char* name;         /* of the engine */
  const char* release;      /* its version */
  const char* families;     /* words with blanks between: "gemma3n_text gemma4_text" */
  const char* dtype;        /* "float64", "float32", "bfloat16" or "float16" */
  const char* capabilities; /* words with blanks between: "score cache chunked batch ragged" */
  int32_t margin;           /* see "Rewinding" in the protocol */
  int32_t granularity;      /* memory is reserved in multiples of so many positions, 1 or more */

  /* `config` is the text config as JSON; `weights` a safetensors file, or a folder of them. */
  int (*load)(const char* config, const char* weights, void** model, int32_t* vocab_size,
              int32_t* layers, kv_message* message);
  void (*unload)(void* model); /* after its sessions were closed */

  int (*score)(void* model, const kv_tokens* tokens, kv_output* output, kv_message* message);
  int (*open)(void* model, int32_t batch, int32_t capacity, int32_t start, void** session,
              kv_message* message);
  int (*extend)(void* session, const kv_tokens* tokens, kv_output* output, kv_message* message);
  int (*rewind)(void* session, const int32_t* lengths, int32_t rows, kv_message* message);
  int (*fork)(void* session, void** copy, kv_message* message);
  int (*reorder)(void* session, const int32_t* sources, int32_t rows, kv_message* message);
  int (*save)(void* session, const char* path, kv_message* message);
  /* `batch` is for the rows that the session has. */
  int (*restore)(void* model, const char* path, void** session, int32_t* batch,
                 kv_message* message);
  /* lengths: one a row; layers: one a layer. */
  int (*cache)(void* session, int32_t* lengths, kv_cache_layer* layers, kv_message* message);
  void (*close)(void* session);
} kv_plugin;

/* What the library exports. The table stays valid for as long as the library is loaded. */
const kv_plugin* kvconform_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
